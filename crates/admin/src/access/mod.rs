//! Who may do what: named tokens with a role, how often they may ask, and what stands before the routes.
//!
//! ```text
//!   request ─> who? (uid of the socket, or token) ─> how often? ─> role of path ─> handler ─> role of change
//! ```
//!
//! The owner of the local socket, and root, are admins without a token. Everybody else has one.

mod guard;
mod limits;
mod roles;
mod routes;
mod tokens;
mod told;

pub(crate) use guard::{Access, PUBLIC, admit};
pub use roles::Role;
pub(crate) use roles::of_path;
pub use routes::TokenCreate;
pub(crate) use routes::{create, delete, list, show};
pub use tokens::{CreatedToken, ShownToken, TokenError, Tokens};
