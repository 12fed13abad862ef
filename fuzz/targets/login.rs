//! Login requests in a row, as text.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| masu_fuzz::run_login(data));
