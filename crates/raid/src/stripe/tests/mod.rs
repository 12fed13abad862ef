//! Tests of levels 5 and 6.

mod counts;
mod crash;
mod crowd;
