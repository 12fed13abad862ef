//! Commands in a row, each 16 bytes of CDB and its data.
#![no_main]

libfuzzer_sys::fuzz_target!(init: masu_fuzz::seeds::write(masu_fuzz::seeds::commands), |data: &[u8]| {
    masu_fuzz::run_commands(data);
});
