//! Tests of pools on modelled disks.
