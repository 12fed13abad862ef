//! Texts of login and text PDUs, one pair to a line, and negotiations in both roles.
#![no_main]

use libfuzzer_sys::arbitrary::Unstructured;

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let text = masu_fuzz::wire_text(data);
    iscsi::fuzzing::text(&text);
    // Any bytes choose the two offers: those at the end.
    let mut u = Unstructured::new(&data[data.len().saturating_sub(48)..]);
    let (Ok(initiator), Ok(target)) = (masu_fuzz::offer(&mut u), masu_fuzz::offer(&mut u)) else { return };
    iscsi::fuzzing::negotiate(initiator, target, data.len() % 8 == 0, &text);
});
