//! The resources of the API: `/v1/{collection}` and `/v1/{collection}/{name}`, over the same status and the
//! same changes that commands use.
//!
//! What they are is said in [`openapi`], which is served at `/openapi.json` and kept as `docs/openapi.json`.

pub(crate) mod bodies;
mod collections;
pub(crate) mod extract;
mod idempotency;
mod openapi;
pub(crate) mod page;
pub(crate) mod problem;
mod resources;
pub(crate) mod routes;
pub(crate) mod state;
mod streams;
mod whole;
mod work;

pub(crate) use idempotency::Keys;
pub(crate) use resources::escaped;
pub(crate) use streams::STREAMS_MAX;
