//! Frames from another node's controllers, in a row, each with its length before it.
#![no_main]

libfuzzer_sys::fuzz_target!(init: masu_fuzz::seeds::write(masu_fuzz::remote_frames), |data: &[u8]| {
    masu_fuzz::run_remote_frames(data);
});
