//! Files of other programs that say a load: Iometer's and fio's. What is understood of any is within its
//! limits.
//!
//! The files of the two readers are taken as they are: all of `lab_tools` would bring the array, a runtime,
//! and minutes of building.
#![no_main]
#![expect(dead_code, reason = "nothing is run")]

// What the readers know as `lab_core` is its one file that they use.
extern crate self as lab_core;

#[path = "../../crates/lab_core/src/quantity.rs"]
pub(crate) mod quantity;

#[path = "../../crates/lab_tools/src/load"]
mod load {
    pub(crate) mod access;
    pub(crate) mod fio;
    pub(crate) mod icf;
    pub(crate) mod job;
    pub(crate) mod written;
}

use load::written::{Written, WrittenError};

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let Ok(text) = std::str::from_utf8(data) else { return };
    check(text, load::fio::parse(text));
    check(text, load::icf::parse(text));
});

fn check(text: &str, read: Result<Written, WrittenError>) {
    let lines = text.lines().count().max(1);
    match read {
        Ok(written) => {
            assert!(!written.jobs.is_empty(), "nothing to run, and no word about it");
            let times = [written.seconds, written.warm_up_seconds];
            assert!(
                times.iter().flatten().all(|seconds| seconds.is_finite() && *seconds >= 0.0),
                "{times:?}"
            );
            for left_out in &written.left_out {
                let said = left_out.to_string();
                assert!((1..=lines).contains(&left_out.line) && !said.contains('\n'), "{said:?}");
            }
        }
        Err(error) => assert!(!error.to_string().contains('\n'), "more than one line: {error}"),
    }
}
