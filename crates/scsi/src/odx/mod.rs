//! Offloaded data transfer: POPULATE TOKEN, WRITE USING TOKEN, RECEIVE ROD TOKEN INFORMATION (SBC-4 5.10,
//! 5.53; SPC-5 6.31).
//!
//! ```text
//!   POPULATE TOKEN on the source ──> disk: take_rod  ──> Tokens: 512 bytes that stand for the data of then
//!   RECEIVE ROD TOKEN INFORMATION <── the token               │
//!   WRITE USING TOKEN on the destination, from any nexus ─────┘──> disk: copy_from_rod; or, at another
//!                                                                  controller, read_rod there, write here
//! ```
//!
//! **Who may use a token.** The standard lets any application client present a token (SPC-4 5.17.6): the
//! token is the permission, so it must be impossible to guess. masu requires more: the token must be valid,
//! and its source must be mapped to the host that presents it. A host reaches only what is mapped to it; the
//! hosts of a cluster, which do exchange tokens, see the same logical units. For any other host the token is
//! unknown (23h/04h).

mod information;
mod limits;
mod populate;
mod ranges;
mod store;
#[cfg(test)]
mod tests;
mod token;
mod write;

pub(crate) use information::receive_rod_token_information;
pub(crate) use limits::{
    INACTIVITY_S_DEFAULT, INACTIVITY_S_MAX, RANGES_MAX, TOKEN_BYTES_MAX, TOKEN_BYTES_OPTIMAL,
};
pub(crate) use populate::populate_token;
pub(crate) use store::InUse;
pub use store::Tokens;
pub(crate) use token::{RodType, Token};
pub(crate) use write::write_using_token;
