//! Thin pools: page maps, volumes, clones, journal.
