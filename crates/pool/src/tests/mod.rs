//! Pools on modelled disks.

mod allocations;
mod conformance;
mod crash;
mod damage;
mod offload;
mod races;
mod rig;
mod shadow;
mod space;
mod workload;
