//! Commands with parameter lists that are right in most places.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| masu_fuzz::run_lists(data));
