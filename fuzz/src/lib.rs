//! What the fuzz targets have in common: how bytes become offers, logins, commands and lists, and a logical
//! unit to try them on.

#![forbid(unsafe_code)]

mod bench;
mod lists;
mod logins;
pub mod media;
mod medium;
mod offers;
mod peer;
mod remote;
pub mod seeds;
mod sessions;

pub use bench::run_commands;
pub use lists::run_lists;
pub use logins::run_login;
pub use offers::offer;
pub use remote::{remote_frames, run_remote_frames};
pub use sessions::run_session;

/// Text as seeds have it, one pair to a line, as it stands on the wire.
pub fn wire_text(lines: &[u8]) -> Vec<u8> {
    lines.iter().map(|&b| if b == b'\n' { 0 } else { b }).collect()
}
