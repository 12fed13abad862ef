//! Tests of the frames.
