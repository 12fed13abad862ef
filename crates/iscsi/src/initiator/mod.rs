//! The initiator: sessions for the laboratory and for tests, and a load loop with minimal cost.
//!
//! ```text
//!   Session::login ── connect, login ──> reader task: PDUs in        Session::command ─┐
//!                                        pump task: PDUs out  <── commands of a batch ─┘
//!   load::read ───── connect, login ──> one loop: requests out, answers in, data left where it came
//! ```

mod command;
mod connect;
mod done;
pub mod load;
mod login;
mod options;
mod reader;
mod session;
mod slots;
mod url;

pub use connect::Error;
pub use done::{Done, Residual};
pub use login::LoginFailure;
pub use options::Options;
pub use session::{Discovered, Notice, Session, discover};
pub use url::{Url, UrlError};
