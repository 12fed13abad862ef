//! CHAP's five texts, one to a line: algorithms, identifier, challenge, name, response.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let mut lines = text.split('\n');
    let mut line = || lines.next().unwrap_or("");
    iscsi::fuzzing::chap(line(), line(), line(), line(), line());
});
