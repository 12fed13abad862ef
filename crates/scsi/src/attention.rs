//! Unit attention conditions: reported to a nexus before its next command (SAM-5 5.14, SPC-5 annex D).

use std::cell::Cell;

use serde::{Deserialize, Serialize};

use crate::sense::Asc;

/// A unit attention condition. The order is the order of reporting: resets first, because they make the
/// others moot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Attention {
    /// 29h/00h: power on, reset, or a new nexus.
    PowerOn,
    /// 29h/03h: LOGICAL UNIT RESET or a target reset.
    DeviceReset,
    /// 2Fh/00h: CLEAR TASK SET by another nexus.
    CommandsCleared,
    /// 2Ah/01h: MODE SELECT by another nexus.
    ModeParametersChanged,
    /// 2Ah/02h: LOG SELECT by another nexus.
    LogParametersChanged,
    /// 2Ah/03h: reservations were cleared or preempted.
    ReservationsPreempted,
    /// 2Ah/04h: a reservation was released.
    ReservationsReleased,
    /// 2Ah/05h: the registration was preempted.
    RegistrationsPreempted,
    /// 2Ah/06h: target ports reach the LU otherwise than before (ALUA).
    AccessStateChanged,
    /// 2Ah/09h: the LU has grown.
    CapacityChanged,
    /// 38h/07h: the pool's soft threshold was crossed.
    ThresholdReached,
    /// 3Fh/03h: the identity or a VPD page has changed.
    InquiryDataChanged,
    /// 3Fh/0Eh: LUs were mapped to or taken from the host.
    ReportedLunsChanged,
}

const ALL: [Attention; 13] = [
    Attention::PowerOn,
    Attention::DeviceReset,
    Attention::CommandsCleared,
    Attention::ModeParametersChanged,
    Attention::LogParametersChanged,
    Attention::ReservationsPreempted,
    Attention::ReservationsReleased,
    Attention::RegistrationsPreempted,
    Attention::AccessStateChanged,
    Attention::CapacityChanged,
    Attention::ThresholdReached,
    Attention::InquiryDataChanged,
    Attention::ReportedLunsChanged,
];

impl Attention {
    /// Additional sense code and qualifier.
    pub fn asc(self) -> Asc {
        Asc(match self {
            Attention::PowerOn => 0x2900,
            Attention::DeviceReset => 0x2903,
            Attention::CommandsCleared => 0x2f00,
            Attention::ModeParametersChanged => 0x2a01,
            Attention::LogParametersChanged => 0x2a02,
            Attention::ReservationsPreempted => 0x2a03,
            Attention::ReservationsReleased => 0x2a04,
            Attention::RegistrationsPreempted => 0x2a05,
            Attention::AccessStateChanged => 0x2a06,
            Attention::CapacityChanged => 0x2a09,
            Attention::ThresholdReached => 0x3807,
            Attention::InquiryDataChanged => 0x3f03,
            Attention::ReportedLunsChanged => 0x3f0e,
        })
    }
}

/// The pending conditions of one nexus on one LU: a set, so that a host that never asks costs nothing.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(from = "u16")]
pub struct Attentions(Cell<u16>);

impl From<u16> for Attentions {
    /// Conditions that nobody knows are none.
    fn from(bits: u16) -> Attentions {
        Attentions(Cell::new(bits & ((1 << ALL.len()) - 1)))
    }
}

impl Attentions {
    /// One condition.
    pub fn of(attention: Attention) -> Attentions {
        let attentions = Attentions::default();
        attentions.raise(attention);
        attentions
    }

    /// Adds a condition.
    pub fn raise(&self, attention: Attention) {
        self.0.set(self.0.get() | 1 << attention as u8);
    }

    /// Whether a condition is pending.
    pub fn has(&self, attention: Attention) -> bool {
        self.0.get() & 1 << attention as u8 != 0
    }

    /// Removes a condition.
    pub fn clear(&self, attention: Attention) {
        self.0.set(self.0.get() & !(1 << attention as u8));
    }

    /// Takes the first pending condition in the order of reporting.
    pub fn take(&self) -> Option<Attention> {
        let first = *ALL.get(self.0.get().trailing_zeros() as usize)?;
        self.clear(first);
        Some(first)
    }
}
