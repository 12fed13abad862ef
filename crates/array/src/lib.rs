//! The array: assembly of all layers, hosts, mapping, controllers, counters.
