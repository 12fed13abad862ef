//! The target.
//!
//! ```text
//!   serve ── accept ──> connection ── login ──> session ─┬─ reader: PDUs in, one receive for many
//!     │                                                  ├─ command slots: tasks made once and used again
//!   Portal: limits, watch, end                           └─ pump: answers out, one send for many
//! ```

mod accept;
mod budget;
mod command;
mod crowd;
mod data_out;
mod dispatch;
mod exchange;
mod limits;
mod link;
pub(crate) mod login;
mod manage;
mod portal;
mod reader;
mod respond;
mod seam;
mod session;
mod slot;
mod task;

pub use accept::serve;
pub use limits::Limits;
pub use link::Counts;
pub use login::LoginError;
pub use portal::{Event, Portal, SessionInfo};
pub use seam::{Chap, InitiatorPort, LoginRefusal, Secret, Target};
