//! The text of a file: random ASCII that follows from seed, tree, file and version, at the speed of memory.

/// Which of its contents a file has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Version {
    /// What was created on the server.
    Server,
    /// What a client has, and writes over it.
    Client,
}

/// The generator of one file's text.
#[derive(Clone, Debug)]
pub struct Content {
    state: u64,
    left: u64,
    /// What is left of the last eight letters, lowest first.
    rest: u64,
    rest_bytes: u32,
}

/// Eight letters from 8 × 6 random bits: 0x20 to 0x5f, the printable ASCII without small letters.
const BITS: u64 = 0x3f3f_3f3f_3f3f_3f3f;
const FIRST: u64 = 0x2020_2020_2020_2020;

/// SplitMix64: a bijection, so that streams of different seeds do not meet soon.
fn mix(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let z = (*state ^ (*state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// A seed of its own for each part of a whole.
pub(super) fn seed_of(seed: u64, parts: &[u64]) -> u64 {
    parts.iter().fold(seed, |seed, part| mix(&mut (seed ^ part.wrapping_mul(0xd134_2543_de82_ef95))))
}

impl Content {
    /// Of a file of so many bytes.
    pub fn of(seed: u64, (tree, file): (u32, u32), bytes: u64, version: Version) -> Content {
        let version = match version {
            Version::Server => 1,
            Version::Client => 2,
        };
        let state = seed_of(seed, &[u64::from(tree) + 1, u64::from(file) + 1, version]);
        Content { state, left: bytes, rest: 0, rest_bytes: 0 }
    }

    /// What has not been given yet.
    pub fn left(&self) -> u64 {
        self.left
    }

    /// Fills the buffer as far as the file goes; gives how far that was. 0: it is at its end.
    pub fn fill(&mut self, out: &mut [u8]) -> usize {
        let len = (out.len() as u64).min(self.left) as usize;
        let (mut at, out) = (0, &mut out[..len]);
        while self.rest_bytes > 0 && at < len {
            self.one(&mut out[at]);
            at += 1;
        }
        let whole = (len - at) / 8 * 8;
        for eight in out[at..at + whole].chunks_exact_mut(8) {
            eight.copy_from_slice(&((mix(&mut self.state) & BITS) + FIRST).to_le_bytes());
        }
        for byte in &mut out[at + whole..] {
            self.one(byte);
        }
        self.left -= len as u64;
        len
    }

    fn one(&mut self, byte: &mut u8) {
        if self.rest_bytes == 0 {
            (self.rest, self.rest_bytes) = ((mix(&mut self.state) & BITS) + FIRST, 8);
        }
        *byte = self.rest as u8;
        self.rest >>= 8;
        self.rest_bytes -= 1;
    }
}

/// The checksum of text that comes in parts.
pub(super) struct Sum(crc_fast::Digest);

impl Sum {
    pub(super) fn new() -> Sum {
        Sum(crc_fast::Digest::new(crc_fast::CrcAlgorithm::Crc32Iscsi))
    }

    pub(super) fn add(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    pub(super) fn crc32c(&self) -> u32 {
        self.0.finalize() as u32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_ascii_and_does_not_depend_on_how_it_is_asked_for() {
        let whole = |version| {
            let mut out = vec![0; 1003];
            assert_eq!(Content::of(7, (3, 4), 1003, version).fill(&mut out), 1003);
            out
        };
        let server = whole(Version::Server);
        assert!(server.iter().all(|b| (0x20..0x60).contains(b)));
        assert_ne!(server, whole(Version::Client));
        let mut content = Content::of(7, (3, 4), 1003, Version::Server);
        let mut parts = Vec::new();
        for len in (1..).take_while(|n| n * (n - 1) / 2 < 1003) {
            let mut part = vec![0; len];
            let got = content.fill(&mut part);
            parts.extend_from_slice(&part[..got]);
        }
        assert_eq!((parts, content.left()), (server, 0));
        assert_eq!(content.fill(&mut [0; 4]), 0);
    }
}
