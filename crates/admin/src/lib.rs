//! Administration: `array.toml`, the API's types, its server and its client.
//!
//! serde and HTTP live here and nowhere below; what crosses into `array` is its own plain [`array::Config`].

#![expect(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "the control plane lives on its own threads, with files and the time of day"
)]

mod answers;
mod api;
mod change;
mod client;
mod convert;
mod declaration;
mod drift;
mod events;
pub mod identity;
mod membership;
mod metrics;
mod perform;
mod request;
mod server;
mod size;
mod store;
mod takeover;
mod token;
mod trouble;

pub use api::*;
pub use client::{Client, ClientError, Endpoint};
pub use declaration::images::ImageFormat;
pub use declaration::{CacheName, ClassName, Declaration, DeclarationError};
pub use drift::{differences, merged};
pub use events::{EventLog, EventQuery, EventWriter};
pub use request::{Change, Declared, Done, Refused, Terms, Work};
pub use server::{ArrayOwner, Bound, Server, ServerError, ServerOptions, bind};
pub use size::{format_bytes, parse_bytes};
pub use store::{Kept, Store, StoreError};
pub use takeover::{NewFiles, refuse_used};
