//! The real world: io_uring files and sockets, timers; the only place with unsafe.
