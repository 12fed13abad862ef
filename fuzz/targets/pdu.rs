//! Bytes of a connection: the first byte chooses the digests and the length limit.
#![no_main]

libfuzzer_sys::fuzz_target!(init: masu_fuzz::seeds::write(masu_fuzz::seeds::streams), |data: &[u8]| {
    let Some((choice, bytes)) = data.split_first() else { return };
    let data_len_max = 512 << (choice >> 2 & 7);
    iscsi::fuzzing::stream(choice & 1 != 0, choice & 2 != 0, data_len_max, bytes);
});
