//! Administration: the API's types, its server and its client, and the state that an array keeps.
//!
//! HTTP lives here and nowhere below.

#![expect(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "the control plane lives on its own threads, with files and the time of day"
)]

mod access;
mod answers;
mod api;
mod carried;
mod change;
mod client;
mod connections;
mod convert;
mod digest;
mod drift;
mod events;
mod health;
mod holding;
pub mod identity;
mod membership;
mod metrics;
mod moves;
mod nodes;
mod own_files;
mod perform;
mod preview;
mod random;
mod request;
mod room;
mod served;
mod server;
mod socket_file;
mod standby;
mod store;
mod takeover;
mod tcp;
mod tls;
mod traces;
mod trend;
mod trouble;
mod unix;

pub use access::{CreatedToken, Role, ShownToken, TokenCreate, TokenError, Tokens};
pub use api::problem::Problem;
pub use client::{Client, ClientError, Endpoint};
pub use digest::hex;
pub use drift::{changes, differences, merged};
pub use events::{EventLog, EventQuery, EventWriter};
pub use health::{AskError, Smartctl};
pub use nodes::{DrainError, Nodes};
pub use own_files::refuse_own_files;
pub use random::random;
pub use request::{Change, Declared, Done, Limit, Terms, Work};
pub use room::no_room_for_any;
pub use server::{ArrayOwner, Bound, Server, ServerError, ServerOptions, bind, cut_short};
pub use socket_file::SocketFile;
pub use standby::{OwnersApi, Reaching, STARTING, Standby};
pub use status::*;
pub use store::{Kept, Share, Store, StoreError};
pub use takeover::{NewFiles, refuse_used};
pub use tls::{CertificateFiles, NodeTls, Tls, TlsError, Trust, certificate_end_s, trouble_of_end};
pub use traces::{TimeOfDay, TraceExporter, TraceMeter};
