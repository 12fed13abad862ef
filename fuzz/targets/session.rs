//! A session with a portal: whatever the peer does costs its own connection only.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| masu_fuzz::run_session(data));
