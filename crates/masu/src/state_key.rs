//! The key by which the state of an array of several nodes is encrypted in the registry: it has the secrets
//! of hosts. AES-256-GCM (NIST SP 800-38D) with random nonces; the name of a text is authenticated with it.

use std::path::Path;

use admin::{hex, random};
use anyhow::{Context, Result, anyhow, bail, ensure};
use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use registry_etcd::read_secret;
use ring::aead::{AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};

/// The first line of an encrypted text; a number for each form.
const SEALED: &str = "# masu-sealed 1\n";
const KEY_LEN: usize = 32;
/// The key in use, and older ones.
const KEYS_MAX: usize = 8;

/// The keys that a node holds. Without one, texts are in the clear.
#[derive(Default)]
pub(crate) struct StateKeys(Vec<LessSafeKey>);

/// A new key, as a line of a file of keys.
pub(crate) fn new_key() -> Result<String> {
    let key: [u8; KEY_LEN] = random()?;
    Ok(hex(&key))
}

impl StateKeys {
    /// The keys of a file: the first encrypts, the others decrypt what was encrypted before.
    ///
    /// # Errors
    /// It cannot be read, others can read it, or it has no keys.
    pub(crate) fn read(path: &Path) -> Result<StateKeys> {
        let text = read_secret(path).context("--state-key")?;
        StateKeys::of(&text).with_context(|| format!("--state-key {}", path.display()))
    }

    #[cfg(test)]
    pub(crate) fn of_text(text: &str) -> StateKeys {
        if text.is_empty() { StateKeys::default() } else { StateKeys::of(text).expect("keys") }
    }

    fn of(text: &str) -> Result<StateKeys> {
        let lines: Vec<&str> = text.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
        let count = lines.len();
        ensure!(
            (1..=KEYS_MAX).contains(&count),
            "{count} keys: one a line, at least 1 and at most {KEYS_MAX}"
        );
        let key = |line: &&str| {
            // The text is not repeated: it may be a key but for one digit.
            let bytes = bytes_of(line)
                .context("invalid key: must be 64 hexadecimal digits, as `masu node key` prints")?;
            let key = UnboundKey::new(&AES_256_GCM, &bytes).map_err(|_| anyhow!("invalid key"))?;
            Ok(LessSafeKey::new(key))
        };
        Ok(StateKeys(lines.iter().map(key).collect::<Result<_>>()?))
    }

    /// Whether texts are encrypted.
    pub(crate) fn encrypt(&self) -> bool {
        !self.0.is_empty()
    }

    /// Whether a text of the registry is encrypted.
    pub(crate) fn is_sealed(found: &str) -> bool {
        found.starts_with(SEALED)
    }

    /// A text of this name for the registry.
    ///
    /// # Errors
    /// No random numbers.
    pub(crate) fn seal(&self, name: &str, text: &str) -> Result<String> {
        let Some(key) = self.0.first() else { return Ok(text.into()) };
        let nonce: [u8; NONCE_LEN] = random()?;
        let mut sealed = text.as_bytes().to_vec();
        key.seal_in_place_append_tag(Nonce::assume_unique_for_key(nonce), Aad::from(name), &mut sealed)
            .map_err(|_| anyhow!("{name}: cannot be encrypted"))?;
        Ok(format!("{SEALED}{}\n", BASE64.encode([&nonce[..], &sealed].concat())))
    }

    /// Whether who says this holds a key of these, or both have none: it is this text of this name, encrypted
    /// if this node encrypts.
    pub(crate) fn prove(&self, name: &str, text: &str, said: &str) -> bool {
        StateKeys::is_sealed(said) == self.encrypt()
            && self.open(name, said).is_ok_and(|(opened, _)| opened == text)
    }

    /// The text of this name that the registry has, and whether it was encrypted by the key in use. One in
    /// the clear is of a time when no node had a key.
    ///
    /// # Errors
    /// It is encrypted, and no key fits, or it was changed.
    pub(crate) fn open(&self, name: &str, found: &str) -> Result<(String, bool)> {
        let Some(sealed) = found.strip_prefix(SEALED) else {
            ensure!(
                !found.starts_with("# masu-sealed "),
                "{name} in the registry: of a newer version of masu"
            );
            return Ok((found.into(), !self.encrypt()));
        };
        ensure!(self.encrypt(), "the state in the registry is encrypted; pass the nodes' --state-key");
        let sealed =
            BASE64.decode(sealed.trim_end()).with_context(|| format!("{name} in the registry: damaged"))?;
        let (nonce, sealed) =
            sealed.split_at_checked(NONCE_LEN).with_context(|| format!("{name} in the registry: damaged"))?;
        for (at, key) in self.0.iter().enumerate() {
            let nonce = Nonce::try_assume_unique_for_key(nonce).map_err(|_| anyhow!("{name}: damaged"))?;
            let mut text = sealed.to_vec();
            if let Ok(text) = key.open_in_place(nonce, Aad::from(name), &mut text) {
                let text =
                    String::from_utf8(text.to_vec()).with_context(|| format!("{name} is not UTF-8"))?;
                return Ok((text, at == 0));
            }
        }
        bail!(
            "the state in the registry is encrypted by another key, or was changed: {name}; pass the nodes' --state-key"
        )
    }
}

fn bytes_of(line: &str) -> Option<Vec<u8>> {
    let is_key = line.len() == 2 * KEY_LEN && line.bytes().all(|byte| byte.is_ascii_hexdigit());
    let digits = is_key.then(|| line.as_bytes().chunks(2))?;
    digits.map(|pair| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys(lines: &[&str]) -> StateKeys {
        StateKeys::of(&lines.join("\n")).expect("keys")
    }

    #[test]
    fn what_a_key_has_encrypted_only_it_opens_and_only_under_its_name() {
        let (one, two) = (new_key().expect("a key"), new_key().expect("a key"));
        let sealed = keys(&[&one]).seal("state", "secret = \"geheim\"").expect("sealed");
        assert!(!sealed.contains("geheim"));
        assert_ne!(
            sealed,
            keys(&[&one]).seal("state", "secret = \"geheim\"").expect("sealed"),
            "nonces differ"
        );
        let opened =
            |keys: &StateKeys, name: &str, text: &str| keys.open(name, text).map_err(|e| format!("{e:#}"));
        assert_eq!(opened(&keys(&[&one]), "state", &sealed), Ok(("secret = \"geheim\"".into(), true)));
        assert_eq!(opened(&keys(&[&two, &one]), "state", &sealed), Ok(("secret = \"geheim\"".into(), false)));
        assert!(opened(&keys(&[&two]), "state", &sealed).is_err_and(|e| e.contains("another key")));
        assert!(opened(&keys(&[&one]), "tokens", &sealed).is_err_and(|e| e.contains("tokens")));
        assert!(opened(&StateKeys::default(), "state", &sealed).is_err_and(|e| e.contains("--state-key")));
        for at in SEALED.len()..sealed.len() - 1 {
            let mut damaged = sealed.clone().into_bytes();
            damaged[at] = if damaged[at] == b'A' { b'B' } else { b'A' };
            let damaged = String::from_utf8(damaged).expect("ASCII");
            assert!(keys(&[&one]).open("state", &damaged).is_err(), "byte {at}");
        }
        for short in ["", "AAAA", "!"] {
            assert!(keys(&[&one]).open("state", &format!("{SEALED}{short}")).is_err(), "{short:?}");
        }
        assert!(keys(&[&one]).open("state", "# masu-sealed 2\nx").is_err(), "of a newer version");
    }

    #[test]
    fn a_text_in_the_clear_is_read_and_is_to_be_encrypted_by_who_has_a_key() {
        let one = new_key().expect("a key");
        assert_eq!(keys(&[&one]).open("state", "a = 1").expect("read"), ("a = 1".into(), false));
        assert_eq!(StateKeys::default().open("state", "a = 1").expect("read"), ("a = 1".into(), true));
        assert_eq!(StateKeys::default().seal("state", "a = 1").expect("kept"), "a = 1");
    }

    #[test]
    fn a_file_without_keys_is_refused_and_not_repeated() {
        let key = new_key().expect("a key");
        assert!(StateKeys::of(&format!("\n{key}\n\n{}\n", key.to_uppercase())).is_ok());
        let long = [key.as_str(); KEYS_MAX + 1].join("\n");
        for bad in ["", "\n", &key[1..], &format!("{key}0"), &format!("x{}", &key[1..]), &long, "ü"] {
            let error = StateKeys::of(bad).map(|_| ()).map_err(|e| format!("{e:#}")).expect_err("refused");
            assert!(!error.contains(&key[2..]), "{error}");
        }
    }
}
