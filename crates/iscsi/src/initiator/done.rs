//! The result of a command.

use block::Pieces;

/// Residual: transferred length against the expected one (RFC 7143 11.4.5).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Residual {
    /// As expected.
    #[default]
    None,
    /// Underflow by this many bytes.
    Underflow(u32),
    /// Overflow by this many bytes.
    Overflow(u32),
}

/// A command that ended with a SCSI status.
#[derive(Clone, Debug, Default)]
#[expect(missing_docs, reason = "self-explanatory names")]
pub struct Done {
    /// The status ([`scsi::Status`] as its number; others exist, such as 04h CONDITION MET).
    pub status: u8,
    /// Sense data.
    pub sense: Vec<u8>,
    pub data_in: Pieces,
    /// Residual count.
    pub residual: Residual,
}

impl Done {
    /// Whether the command succeeded.
    pub fn is_good(&self) -> bool {
        self.status == scsi::Status::Good as u8
    }

    /// Sense key, additional sense code and qualifier, if there is sense data ([`scsi::sense_codes`]).
    pub fn sense_codes(&self) -> Option<(u8, u8, u8)> {
        scsi::sense_codes(&self.sense)
    }
}
