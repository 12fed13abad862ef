//! The six types of persistent reservation, and their access rules (SPC-5 5.14.4).

use serde::{Deserialize, Serialize};

/// The type of a persistent reservation (SPC-5 6.16.3.4).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[repr(u8)]
pub(crate) enum Kind {
    /// 1h.
    WriteExclusive = 1,
    /// 3h.
    ExclusiveAccess = 3,
    /// 5h.
    WriteExclusiveRegistrantsOnly = 5,
    /// 6h.
    ExclusiveAccessRegistrantsOnly = 6,
    /// 7h.
    WriteExclusiveAllRegistrants = 7,
    /// 8h.
    ExclusiveAccessAllRegistrants = 8,
}

impl Kind {
    /// The type of a code.
    pub(crate) fn of_code(code: u8) -> Option<Kind> {
        Some(match code {
            1 => Kind::WriteExclusive,
            3 => Kind::ExclusiveAccess,
            5 => Kind::WriteExclusiveRegistrantsOnly,
            6 => Kind::ExclusiveAccessRegistrantsOnly,
            7 => Kind::WriteExclusiveAllRegistrants,
            8 => Kind::ExclusiveAccessAllRegistrants,
            _ => return None,
        })
    }

    /// The code of this type.
    pub(crate) fn code(self) -> u8 {
        self as u8
    }

    /// Every registered nexus holds the reservation.
    pub(crate) fn all_registrants(self) -> bool {
        matches!(self, Kind::WriteExclusiveAllRegistrants | Kind::ExclusiveAccessAllRegistrants)
    }

    /// Every registered nexus has access: the registrants only and all registrants types.
    pub(crate) fn admits_registrants(self) -> bool {
        !matches!(self, Kind::WriteExclusive | Kind::ExclusiveAccess)
    }

    /// Any nexus may read.
    pub(crate) fn admits_reads(self) -> bool {
        matches!(
            self,
            Kind::WriteExclusive | Kind::WriteExclusiveRegistrantsOnly | Kind::WriteExclusiveAllRegistrants
        )
    }
}
