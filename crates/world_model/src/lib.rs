//! The model world: virtual time, modelled drives and links, faults.
