//! Pools on modelled disks.

mod allocations;
mod conformance;
mod crash;
mod damage;
mod offload;
mod rig;
mod shadow;
mod space;
mod workload;
