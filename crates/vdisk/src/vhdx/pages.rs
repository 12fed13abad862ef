//! Patches of a log: an overlay over what is read, until they are written in place.

/// Bytes, or zeros, for a range of the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Patch {
    pub(super) at: u64,
    pub(super) len: u64,
    /// None: zeros.
    pub(super) bytes: Option<Vec<u8>>,
}

/// Patches in the order in which they were logged.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Patches(pub(super) Vec<Patch>);

impl Patches {
    /// Applies them to the bytes of the file at `at`.
    pub(super) fn apply(&self, at: u64, bytes: &mut [u8]) {
        let end = at + bytes.len() as u64;
        for patch in &self.0 {
            let (from, to) = (patch.at.max(at), (patch.at + patch.len).min(end));
            if from >= to {
                continue;
            }
            let here = &mut bytes[(from - at) as usize..(to - at) as usize];
            match &patch.bytes {
                Some(bytes) => {
                    here.copy_from_slice(&bytes[(from - patch.at) as usize..(to - patch.at) as usize])
                }
                None => here.fill(0),
            }
        }
    }
}
