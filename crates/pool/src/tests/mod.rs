//! Pools on modelled disks.

mod allocations;
mod conformance;
mod crash;
mod damage;
mod moving;
mod offload;
mod races;
mod reshape;
mod rig;
mod shadow;
mod space;
mod workload;
