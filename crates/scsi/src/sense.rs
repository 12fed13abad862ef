//! Sense data: content, encoding, and the one function that maps an error to it.

use block::BlockError;
use serde::{Deserialize, Serialize};

use crate::error::CommandError;
use crate::request::Status;

/// SPC-5 4.4.8: sense keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
#[expect(missing_docs, reason = "the names are the standard's")]
pub enum Key {
    NoSense = 0x0,
    RecoveredError = 0x1,
    NotReady = 0x2,
    MediumError = 0x3,
    HardwareError = 0x4,
    IllegalRequest = 0x5,
    UnitAttention = 0x6,
    DataProtect = 0x7,
    BlankCheck = 0x8,
    CopyAborted = 0xa,
    AbortedCommand = 0xb,
    Miscompare = 0xe,
}

/// Additional sense code (high byte) and its qualifier (low byte), SPC-5 annex D.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Asc(pub u16);

/// The sense-key specific field (SPC-5 4.4.2.4).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[expect(missing_docs, reason = "self-explanatory names")]
pub enum Specific {
    /// Not valid.
    #[default]
    None,
    /// ILLEGAL REQUEST: the invalid field.
    Field {
        /// In the CDB; otherwise in the parameter list.
        in_cdb: bool,
        byte: u16,
        /// The highest bit of the field in that byte.
        bit: Option<u8>,
    },
    /// NOT READY, NO SENSE: progress, in 65,536ths.
    Progress(u16),
    /// COPY ABORTED: the position in the copied parameter list.
    Segment {
        /// Relative to the segment descriptor; otherwise to the parameter list.
        in_descriptor: bool,
        byte: u16,
    },
}

/// Sense data before it is encoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sense {
    /// Sense key.
    pub key: Key,
    /// Additional sense code and qualifier.
    pub asc: Asc,
    /// INFORMATION: an LBA, the offset of a miscompare.
    pub information: Option<u64>,
    /// COMMAND-SPECIFIC INFORMATION.
    pub command_specific: u64,
    /// Sense-key specific field.
    pub specific: Specific,
}

/// The encoding that the D_SENSE bit of the control mode page selects (SPC-5 7.5.10).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// Fixed format, response code 70h.
    Fixed,
    /// Descriptor format, response code 72h.
    Descriptor,
}

/// Length of fixed-format sense data (SPC-5 4.4.3).
pub const FIXED_LEN: usize = 18;

impl Sense {
    /// Key and code, nothing else.
    pub const fn new(key: Key, asc: u16) -> Sense {
        Sense { key, asc: Asc(asc), information: None, command_specific: 0, specific: Specific::None }
    }

    /// With INFORMATION.
    pub const fn information(mut self, information: u64) -> Sense {
        self.information = Some(information);
        self
    }

    /// With a sense-key specific field.
    pub const fn specific(mut self, specific: Specific) -> Sense {
        self.specific = specific;
        self
    }

    /// The bytes in the given format.
    pub fn encode(&self, format: Format) -> Vec<u8> {
        match format {
            Format::Fixed => self.fixed(),
            Format::Descriptor => self.descriptor(),
        }
    }

    /// SPC-5 4.4.3. An INFORMATION field of more than 32 bits does not fit and is omitted (VALID = 0).
    fn fixed(&self) -> Vec<u8> {
        let mut out = vec![0; FIXED_LEN];
        out[0] = 0x70;
        if let Some(information) = self.information.and_then(|i| u32::try_from(i).ok()) {
            out[0] |= 0x80;
            out[3..7].copy_from_slice(&information.to_be_bytes());
        }
        out[2] = self.key as u8;
        out[7] = (FIXED_LEN - 8) as u8;
        out[8..12].copy_from_slice(&(self.command_specific.min(u64::from(u32::MAX)) as u32).to_be_bytes());
        out[12..14].copy_from_slice(&self.asc.0.to_be_bytes());
        out[15..18].copy_from_slice(&self.specific.bytes());
        out
    }

    /// SPC-5 4.4.2.
    fn descriptor(&self) -> Vec<u8> {
        let mut out = vec![0x72, self.key as u8, (self.asc.0 >> 8) as u8, self.asc.0 as u8, 0, 0, 0, 0];
        if let Some(information) = self.information {
            out.extend([0x00, 0x0a, 0x80, 0]);
            out.extend(information.to_be_bytes());
        }
        if self.command_specific != 0 {
            out.extend([0x01, 0x0a, 0, 0]);
            out.extend(self.command_specific.to_be_bytes());
        }
        if self.specific != Specific::None {
            out.extend([0x02, 0x06, 0, 0]);
            out.extend(self.specific.bytes());
            out.push(0);
        }
        out[7] = (out.len() - 8) as u8;
        out
    }
}

impl Specific {
    /// SPC-5 4.4.2.4.2 to .5: SKSV and the three bytes.
    fn bytes(self) -> [u8; 3] {
        let (first, value) = match self {
            Specific::None => return [0; 3],
            Specific::Field { in_cdb, byte, bit } => {
                (if in_cdb { 0x40 } else { 0 } | bit.map_or(0, |b| 0x08 | b & 0x07), byte)
            }
            Specific::Progress(done) => (0, done),
            Specific::Segment { in_descriptor, byte } => (if in_descriptor { 0x20 } else { 0 }, byte),
        };
        let [high, low] = value.to_be_bytes();
        [0x80 | first, high, low]
    }
}

/// The failure of a command: its status, and sense data with CHECK CONDITION.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "self-explanatory names")]
pub struct Failure {
    pub status: Status,
    /// The sense data.
    pub sense: Option<Sense>,
}

/// The only mapping of errors to status and sense. `block_bytes` converts byte addresses to LBAs.
pub fn failure_of(error: &CommandError, block_bytes: u32) -> Failure {
    use CommandError as E;
    use Key::*;
    let lba = |at: &u64| at / u64::from(block_bytes.max(1));
    let field = |in_cdb, byte: &u16, bit: &Option<u8>| Specific::Field { in_cdb, byte: *byte, bit: *bit };
    let sense = match error {
        E::ReservationConflict => return Failure { status: Status::ReservationConflict, sense: None },
        E::Busy => return Failure { status: Status::Busy, sense: None },
        E::TaskSetFull => return Failure { status: Status::TaskSetFull, sense: None },
        E::Aborted => return Failure { status: Status::TaskAborted, sense: None },
        E::InvalidOpcode => Sense::new(IllegalRequest, 0x2000).specific(field(true, &0, &None)),
        E::InvalidField { byte, bit } => Sense::new(IllegalRequest, 0x2400).specific(field(true, byte, bit)),
        E::InvalidParameter { byte, bit } => {
            Sense::new(IllegalRequest, 0x2600).specific(field(false, byte, bit))
        }
        E::ParameterListLength => Sense::new(IllegalRequest, 0x1a00),
        E::ParameterNotSupported => Sense::new(IllegalRequest, 0x2601),
        E::SavingNotSupported => Sense::new(IllegalRequest, 0x3900),
        E::InsufficientRegistrationResources => Sense::new(IllegalRequest, 0x5504),
        E::InvalidRelease => Sense::new(IllegalRequest, 0x2604),
        E::LbaOutOfRange => Sense::new(IllegalRequest, 0x2100),
        E::DataOutLength => Sense::new(IllegalRequest, 0x0e03),
        E::DataOutMissing => Sense::new(AbortedCommand, 0x0e01),
        E::LunNotSupported => Sense::new(IllegalRequest, 0x2500),
        E::Miscompare { offset } => Sense::new(Miscompare, 0x1d00).information(*offset),
        E::SoftwareWriteProtected => Sense::new(DataProtect, 0x2702),
        E::WriteProtected => Sense::new(DataProtect, 0x2700),
        E::SanitizeInProgress { done } => Sense::new(NotReady, 0x041b).specific(Specific::Progress(*done)),
        E::SanitizeFailed => Sense::new(MediumError, 0x3103),
        E::BecomingReady => Sense::new(NotReady, 0x0401),
        // MANUAL INTERVENTION REQUIRED.
        E::Unavailable => Sense::new(NotReady, 0x0403),
        E::NotRecovered => Sense::new(HardwareError, 0x4400),
        E::PortGroupsNotSet => Sense::new(HardwareError, 0x670a),
        E::Attention(attention) => Sense::new(UnitAttention, attention.asc().0),
        // EXTENDED COPY (SPC-4 6.4): the list as a whole, then one segment.
        E::TooManyTargetDescriptors => Sense::new(IllegalRequest, 0x2606),
        E::UnsupportedTargetDescriptor { byte } => {
            Sense::new(IllegalRequest, 0x2607).specific(field(false, byte, &None))
        }
        E::TooManySegmentDescriptors => Sense::new(IllegalRequest, 0x2608),
        E::UnsupportedSegmentDescriptor { byte } => {
            Sense::new(IllegalRequest, 0x2609).specific(field(false, byte, &None))
        }
        E::InlineDataLength => Sense::new(IllegalRequest, 0x260b),
        E::OperationInProgress => Sense::new(IllegalRequest, 0x0016),
        E::CopyAborted { asc, segment } => {
            let mut sense =
                Sense::new(CopyAborted, asc.0).specific(Specific::Segment { in_descriptor: true, byte: 0 });
            sense.command_specific = u64::from(*segment);
            sense
        }
        // ROD tokens (SPC-5 table of 23h codes).
        E::Token(fault) => Sense::new(IllegalRequest, 0x2300 | *fault as u16),
        E::Block(BlockError::OutOfRange { .. }) => Sense::new(IllegalRequest, 0x2100),
        E::Block(BlockError::NoSpace { .. } | BlockError::NoRoom { .. }) => Sense::new(DataProtect, 0x2707),
        E::Block(BlockError::Unreadable { at, .. }) => Sense::new(MediumError, 0x1100).information(lba(at)),
        // Communication time-out.
        E::Block(BlockError::Failed { .. } | BlockError::Silent { .. }) => Sense::new(HardwareError, 0x0801),
        E::Block(BlockError::Poisoned { .. }) => Sense::new(HardwareError, 0x4400),
        E::Block(BlockError::Corrupt { .. }) => Sense::new(MediumError, 0x1101),
    };
    Failure { status: Status::CheckCondition, sense: Some(sense) }
}
