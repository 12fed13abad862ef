//! Tests of the frames.

mod books;
mod model;
mod partitions;
mod replacement;
mod single;
