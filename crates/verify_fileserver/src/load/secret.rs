//! Who may lead, and who is led: both have a secret, and prove it to each other without sending it.
//!
//! ```text
//!   lead ── Hello { nonce } ────────> agent      Nonces are random, new ones for each connection.
//!        <── Hello { challenge } ────            Proofs are HMACs with SHA-256 over a role and both nonces: neither side can be
//!        ── Prove { proof } ────────>            had to make the other one's proof, and none is good a second time.
//!        <── Proved { proof } ───────
//! ```
//!
//! What is said afterwards is neither encrypted nor signed: who sits between the two can change it.

use std::fmt::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

/// Fewer can be guessed.
const SECRET_BYTES_MIN: usize = 16;
/// Nobody's secret is longer.
const SECRET_BYTES_MAX: usize = 4096;
/// Of a nonce: nobody draws the same 32 bytes twice.
const NONCE_BYTES: usize = 32;

/// What leads and agents of one laboratory have, and nobody else.
#[derive(Clone)]
pub(super) struct Secret(Vec<u8>);

/// Whose proof it is.
#[derive(Clone, Copy)]
pub(super) enum Role {
    Lead,
    Agent,
}

/// What both sides drew: hexadecimal, as it was sent.
#[derive(Clone, Copy)]
pub(super) struct Nonces<'a> {
    pub(super) lead: &'a str,
    pub(super) agent: &'a str,
}

impl Secret {
    /// What is in a file that only its owner reads; white space around it does not count.
    pub(super) fn read(path: &Path) -> Result<Secret> {
        let shown = path.display();
        let facts = std::fs::metadata(path).with_context(|| format!("{shown}"))?;
        ensure!(facts.len() <= SECRET_BYTES_MAX as u64, "{shown}: is longer than {SECRET_BYTES_MAX} bytes");
        let others = facts.permissions().mode() & 0o077;
        ensure!(others == 0, "{shown}: others may read it: chmod 600 {shown}");
        Secret::of(&lab_core::text_file::read_bytes(path).with_context(|| format!("{shown}"))?)
            .with_context(|| format!("{shown}"))
    }

    pub(super) fn of(bytes: &[u8]) -> Result<Secret> {
        let secret = bytes.trim_ascii();
        ensure!(secret.len() >= SECRET_BYTES_MIN, "a secret has {SECRET_BYTES_MIN} bytes or more");
        Ok(Secret(secret.to_vec()))
    }

    pub(super) fn prove(&self, role: Role, nonces: Nonces<'_>) -> String {
        hex(&self.mac(role, nonces).finalize().into_bytes())
    }

    /// Whether the peer proved that it has the secret.
    pub(super) fn is_proof(&self, role: Role, nonces: Nonces<'_>, proof: &str) -> bool {
        // In constant time: a proof is not to be found byte by byte.
        bytes_of(proof).is_some_and(|proof| self.mac(role, nonces).verify_slice(&proof).is_ok())
    }

    fn mac(&self, role: Role, nonces: Nonces<'_>) -> Hmac<Sha256> {
        let mut mac = Hmac::<Sha256>::new_from_slice(&self.0).expect("a key has any length");
        let role: &[u8] = match role {
            Role::Lead => b"masu lead 1:",
            Role::Agent => b"masu agent 1:",
        };
        // Nonces are of one length: what is hashed can be cut in one way only.
        [role, nonces.lead.as_bytes(), nonces.agent.as_bytes()].iter().for_each(|part| mac.update(part));
        mac
    }
}

/// A new nonce.
pub(super) fn nonce() -> Result<String> {
    let mut bytes = [0; NONCE_BYTES];
    rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty()).context("no random bytes")?;
    Ok(hex(&bytes))
}

/// Whether the other side drew a nonce, and not something else.
pub(super) fn is_nonce(text: &str) -> bool {
    bytes_of(text).is_some_and(|bytes| bytes.len() == NONCE_BYTES)
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::with_capacity(2 * bytes.len()), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

fn bytes_of(text: &str) -> Option<Vec<u8>> {
    let digits: Vec<u8> = text.chars().map(|c| c.to_digit(16).map(|d| d as u8)).collect::<Option<_>>()?;
    digits.len().is_multiple_of(2).then(|| digits.chunks(2).map(|pair| pair[0] << 4 | pair[1]).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_proof_is_good_for_one_role_one_secret_and_two_nonces() {
        let secret = Secret::of(b" sixteen bytes it has \n").expect("long enough");
        let other = Secret::of(b"sixteen bytes it had").expect("long enough");
        let (a, b) = (nonce().expect("drawn"), nonce().expect("drawn"));
        assert!(a != b && is_nonce(&a) && !is_nonce("12") && !is_nonce(&"g".repeat(64)));
        let nonces = Nonces { lead: &a, agent: &b };
        let proof = secret.prove(Role::Lead, nonces);
        assert!(secret.is_proof(Role::Lead, nonces, &proof));
        assert!(!secret.is_proof(Role::Agent, nonces, &proof), "sent back");
        assert!(!other.is_proof(Role::Lead, nonces, &proof), "another secret");
        assert!(!secret.is_proof(Role::Lead, Nonces { lead: &b, agent: &a }, &proof), "other nonces");
        assert!(!secret.is_proof(Role::Lead, nonces, &proof[..32]), "a part of it");
        assert!(!secret.is_proof(Role::Lead, nonces, "no digits"));
    }

    #[test]
    fn a_secret_file_is_the_owner_s_and_long_enough() {
        let dir = tempfile::tempdir().expect("a folder");
        let path = dir.path().join("secret");
        let check = |content: &[u8], mode, part: &str| {
            std::fs::write(&path, content).expect("written");
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).expect("set");
            match Secret::read(&path) {
                Ok(_) => assert_eq!(part, ""),
                Err(error) => assert!(format!("{error:#}").contains(part) && !part.is_empty(), "{error:#}"),
            }
        };
        check(b"sixteen bytes it has\n", 0o600, "");
        check(b"sixteen bytes it has\n", 0o640, "chmod 600");
        check(b"too short\n", 0o600, "16 bytes or more");
        check(&[b'x'; 5000], 0o600, "longer than 4096");
    }
}
