//! Pools on modelled disks.

mod accounting;
mod allocations;
mod check;
mod closed;
mod conformance;
mod crash;
mod damage;
mod in_place;
mod moving;
mod mutation;
mod offload;
mod opening;
mod placement;
mod races;
mod reclaim;
mod refused;
mod replacing;
mod reshape;
mod rig;
mod shadow;
mod space;
mod workload;
