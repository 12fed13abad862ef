//! CHAP (RFC 1994, RFC 7143 12.1.3): challenges, responses and their comparison; pure.
//!
//! Challenges come from the world's random stream through SHA-256, so that sent challenges do not reveal
//! future ones. They are as unpredictable as the world's seed: seed a real world from the system's entropy.

use md5::Md5;
use sha2::{Digest, Sha256};

use crate::text::{binary, hex};

/// Length of sent challenges: at least that of the longest response, as 12.1.3 requires.
pub(crate) const CHALLENGE_LEN: usize = 32;
/// Length limit of received challenges (12.1.3).
const CHALLENGE_LEN_MAX: usize = 1024;

/// Why CHAP fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ChapError {
    /// A key is missing or malformed.
    #[error("missing or malformed {0}")]
    Key(&'static str),
    /// No algorithm in common.
    #[error("no CHAP algorithm in common")]
    Algorithm,
    /// The name or the response is wrong; the message does not tell which.
    #[error("wrong CHAP name or response")]
    Wrong,
    /// The peer sent back our own challenge (12.1.3).
    #[error("the peer reflected the challenge")]
    Reflected,
    /// The peer requests mutual CHAP, and no secret for it is set.
    #[error("the peer requests mutual CHAP, but no secret for it is set")]
    NotMutual,
}

/// Algorithms (IANA "PPP authentication algorithms"; RFC 7143 12.1.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Algorithm {
    /// 5.
    Md5,
    /// 7.
    Sha256,
}

impl Algorithm {
    /// The algorithms that an initiator offers, in order of preference.
    pub(crate) const OFFER: &'static str = "7,5";

    /// The first supported algorithm of an offered list.
    pub(crate) fn choose(list: &str) -> Result<Algorithm, ChapError> {
        list.split(',').find_map(Algorithm::of).ok_or(ChapError::Algorithm)
    }

    /// The algorithm with this number.
    pub(crate) fn of(number: &str) -> Option<Algorithm> {
        match number {
            "5" => Some(Algorithm::Md5),
            "7" => Some(Algorithm::Sha256),
            _ => None,
        }
    }

    pub(crate) fn number(self) -> &'static str {
        match self {
            Algorithm::Md5 => "5",
            Algorithm::Sha256 => "7",
        }
    }

    /// The response: the hash of identifier, secret and challenge.
    fn respond(self, id: u8, secret: &str, challenge: &[u8]) -> Vec<u8> {
        let parts = [&[id][..], secret.as_bytes(), challenge];
        match self {
            Algorithm::Md5 => {
                parts.into_iter().fold(Md5::new(), |h, p| h.chain_update(p)).finalize().to_vec()
            }
            Algorithm::Sha256 => {
                parts.into_iter().fold(Sha256::new(), |h, p| h.chain_update(p)).finalize().to_vec()
            }
        }
    }
}

/// A challenge with its identifier.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Challenge {
    pub id: u8,
    pub bytes: Vec<u8>,
}

impl Challenge {
    /// A new challenge.
    pub(crate) fn new(rng: &mut world::Rng) -> Challenge {
        let mut seed = [0u8; 32];
        rng.fill(&mut seed);
        let bytes = Sha256::new().chain_update(b"masu CHAP challenge").chain_update(seed).finalize().to_vec();
        assert!(bytes.len() == CHALLENGE_LEN);
        Challenge { id: seed[0] ^ seed[31], bytes }
    }

    /// Parses a peer's challenge.
    pub(crate) fn read(id: &str, bytes: &str) -> Result<Challenge, ChapError> {
        let id =
            crate::text::number(id).and_then(|n| u8::try_from(n).ok()).ok_or(ChapError::Key("CHAP_I"))?;
        let bytes = binary(bytes, CHALLENGE_LEN_MAX).ok_or(ChapError::Key("CHAP_C"))?;
        Ok(Challenge { id, bytes })
    }

    pub(crate) fn id_text(&self) -> String {
        self.id.to_string()
    }

    pub(crate) fn text(&self) -> String {
        hex(&self.bytes)
    }

    /// The response that proves the secret, as text.
    pub(crate) fn response(&self, algorithm: Algorithm, secret: &str) -> String {
        hex(&algorithm.respond(self.id, secret, &self.bytes))
    }

    /// Whether name and response are those of `want_name` with `secret`.
    pub(crate) fn verify(
        &self,
        algorithm: Algorithm,
        (want_name, secret): (&str, &str),
        (name, response): (&str, &str),
    ) -> Result<(), ChapError> {
        let want = algorithm.respond(self.id, secret, &self.bytes);
        let got = binary(response, CHALLENGE_LEN_MAX).ok_or(ChapError::Key("CHAP_R"))?;
        let right = same(&want, &got) & same(want_name.as_bytes(), name.as_bytes());
        if right { Ok(()) } else { Err(ChapError::Wrong) }
    }
}

/// Compares in constant time.
fn same(a: &[u8], b: &[u8]) -> bool {
    let difference = a.iter().zip(b).fold(0u8, |d, (x, y)| std::hint::black_box(d | (x ^ y)));
    a.len() == b.len() && difference == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn responses_are_those_of_the_algorithms() {
        // `printf '\001secretchallenge' | md5sum`, `| sha256sum`.
        let challenge = Challenge { id: 1, bytes: b"challenge".to_vec() };
        assert_eq!(challenge.response(Algorithm::Md5, "secret"), MD5);
        assert_eq!(challenge.response(Algorithm::Sha256, "secret"), SHA256);
        for algorithm in [Algorithm::Md5, Algorithm::Sha256] {
            let good = challenge.response(algorithm, "secret");
            let check = |name: &str, response: &str| {
                challenge.verify(algorithm, ("host", "secret"), (name, response))
            };
            assert_eq!(check("host", &good), Ok(()));
            assert_eq!(check("host", &good.to_uppercase().replace("0X", "0x")), Ok(()));
            assert_eq!(check("hose", &good), Err(ChapError::Wrong));
            assert_eq!(check("host", &good[..good.len() - 2]), Err(ChapError::Wrong));
            assert_eq!(check("host", "nonsense"), Err(ChapError::Key("CHAP_R")));
            let other = challenge.response(algorithm, "Secret");
            assert_eq!(check("host", &other), Err(ChapError::Wrong));
        }
    }
    const MD5: &str = "0x46e47770030e2b4e26a0db72a7efec00";
    const SHA256: &str = "0x2dfa0526f4764864b7c3c5bc6596bcead3d8dbd984f4fc1d9f330299f0beced4";

    #[test]
    fn the_first_known_algorithm_is_chosen() {
        assert_eq!(Algorithm::choose("8,7,5"), Ok(Algorithm::Sha256));
        assert_eq!(Algorithm::choose("5,7"), Ok(Algorithm::Md5));
        assert_eq!(Algorithm::choose("6"), Err(ChapError::Algorithm));
        assert_eq!(Algorithm::choose(""), Err(ChapError::Algorithm));
    }

    #[test]
    fn challenges_are_fresh_and_bounded() {
        let mut rng = world::Rng::with_seed(1);
        assert!(Challenge::new(&mut rng).bytes != Challenge::new(&mut rng).bytes);
        assert!(Challenge::read("256", "0x01").is_err());
        assert!(Challenge::read("1", &hex(&[7; 1025])).is_err());
        assert!(Challenge::read("1", &hex(&[7; 1024])).is_ok());
    }
}
