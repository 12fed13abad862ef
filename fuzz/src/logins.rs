//! Logins as text: a first line `none`, `chap` or `mutual` says what the host must prove; every further line
//! is one request.
//!
//! ```text
//! chap
//! 81 InitiatorName=iqn.2026-11.example:host TargetName=iqn.2026-11.example:disk AuthMethod=CHAP
//! ```
//!
//! A request is its flags in hexadecimal and its pairs, with a space for the zero byte. `!` after the flags
//! appends the right answer to the last challenge; `~` and a character in front changes what must stay as it
//! was.

use iscsi::fuzzing::{Proof, Step, login};
use iscsi::pdu::LoginRequest;
use libfuzzer_sys::arbitrary::Unstructured;

/// More requests than a login takes.
const STEPS_MAX: usize = 40;

/// Runs the login that `text` describes.
pub fn run_login(text: &[u8]) {
    let mut lines = text.split(|&b| b == b'\n');
    let proof = match lines.next() {
        Some(b"chap") => Proof::Chap,
        Some(b"mutual") => Proof::Mutual,
        _ => Proof::None,
    };
    let steps: Vec<Step> = lines.take(STEPS_MAX).map(step).collect();
    // The last bytes choose the target's offer; any text will do.
    let Ok(offer) = crate::offer(&mut Unstructured::new(&text[text.len().saturating_sub(24)..])) else {
        return;
    };
    login(offer, proof, &steps);
}

fn step(line: &[u8]) -> Step {
    let mut header =
        LoginRequest { itt: 9.into(), cmd_sn: 4.into(), isid: [1; 6], ..LoginRequest::default() };
    let mut rest = line;
    if let [b'~', other, after @ ..] = rest {
        rest = after;
        match other % 6 {
            0 => header.isid[5] = *other,
            1 => header.tsih = u16::from(*other).into(),
            2 => header.cid = u16::from(*other).into(),
            3 => header.itt = u32::from(*other).into(),
            4 => header.cmd_sn = u32::from(*other).into(),
            _ => header.version_min = *other,
        }
    }
    let digit = |b: &u8| char::from(*b).to_digit(16).unwrap_or(0) as u8;
    if let [high, low, after @ ..] = rest {
        header.flags = digit(high) << 4 | digit(low);
        rest = after;
    }
    let prove = rest.first() == Some(&b'!');
    let rest = rest.strip_prefix(b"!").unwrap_or(rest);
    let mut text: Vec<u8> = rest.iter().map(|&b| if b == b' ' { 0 } else { b }).collect();
    if !text.is_empty() && header.flags & iscsi::pdu::CONTINUE == 0 {
        text.push(0);
    }
    Step { header, text, prove }
}
