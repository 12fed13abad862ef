//! Controllers on several nodes: the messages to a controller, carried between two processes.
//!
//! ```text
//!  the owner                                             another node
//!  ControllerHandle ─> Mailbox ─> Exchange ══ frames ══> Exchange ─> ControllerHandle ─> Controller
//!                      (`away`)      <══ answers, events ══             (`here`)
//! ```
//!
//! An [`Exchange`] knows no sockets and no runtime: whoever has an ordered stream of frames passes them on.
//! What crosses is what a [`ControllerHandle`](crate::ControllerHandle) sends, and its answer, but for:
//!
//! * `Control::Nodes`: each side makes its own, and the sending side answers at once.
//! * Traces of commands: the clocks of two machines differ.
//!
//! Each frame is a header in JSON and the bytes of a command behind it (`frame`). The types that cross are
//! mirrored here, so that serde is used in this module and nowhere else in the crate. The order of events
//! that [`scsi::Arrival`] keeps is one of each process: `order` carries it across.

mod caches;
mod commands;
mod controls;
mod declared;
mod drives;
mod error;
mod exchange;
mod failures;
mod frame;
mod groups;
mod here;
mod leaving;
mod limits;
mod lists;
mod messages;
mod moved;
mod order;
mod parts;
mod payload;
mod pending;
mod replies;
mod statuses;
mod told;

#[cfg(test)]
mod tests;

pub use error::RemoteError;
pub use exchange::Exchange;
pub use limits::{FRAME_MAX, PROTOCOL};
pub use pending::PENDING_MAX;
pub use told::Told;
