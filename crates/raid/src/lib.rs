//! RAID groups: geometry, mirrors, stripes.
