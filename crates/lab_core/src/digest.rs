//! The digest of what a run wrote as JSON: who changes a number or a sentence of it by hand changes what the
//! run found, and that is noticed. It is no signature: whoever wants to can compute it again.

use std::io;

use serde::Serialize;
use sha2::{Digest as _, Sha256};

/// What tells the way of digesting apart from others.
const WAY: &str = "sha256:";

/// The digest of a value: SHA-256 of its JSON without white space, so that a file which was only laid out
/// again keeps it.
pub fn digest(value: &impl Serialize) -> serde_json::Result<String> {
    let mut sum = Sum(Sha256::new());
    serde_json::to_writer(&mut sum, value)?;
    Ok(WAY.to_owned() + &hex(&sum.0.finalize()))
}

/// Bytes as hexadecimal digits.
pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// A writer that sums what is written, and keeps none of it.
struct Sum(Sha256);

impl io::Write for Sum {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.update(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_digest_is_that_of_the_json_without_white_space() {
        let value = serde_json::json!({ "a": [1.5, null] });
        let expected = hex(&Sha256::digest(b"{\"a\":[1.5,null]}"));
        assert_eq!(digest(&value).expect("JSON"), format!("sha256:{expected}"));
    }
}
