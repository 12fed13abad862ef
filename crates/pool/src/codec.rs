//! Little-endian fields in byte strings: journal records and checkpoint items.

/// Reads fields; every method returns `None` at the end of the bytes.
pub(crate) struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Reader<'a> {
        Reader(bytes)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn bytes(&mut self, len: usize) -> Option<&'a [u8]> {
        let (head, rest) = self.0.split_at_checked(len)?;
        self.0 = rest;
        Some(head)
    }

    pub(crate) fn u8(&mut self) -> Option<u8> {
        self.bytes(1).map(|b| b[0])
    }

    pub(crate) fn u16(&mut self) -> Option<u16> {
        self.bytes(2).map(|b| u16::from_le_bytes([b[0], b[1]]))
    }

    pub(crate) fn u32(&mut self) -> Option<u32> {
        self.bytes(4).map(|b| u32::from_le_bytes([b[0], b[1], b[2], b[3]]))
    }

    pub(crate) fn u64(&mut self) -> Option<u64> {
        let low = self.u32()?;
        Some(u64::from(self.u32()?) << 32 | u64::from(low))
    }

    /// A string after its length in 16 bits.
    pub(crate) fn text(&mut self) -> Option<String> {
        let len = self.u16()?;
        String::from_utf8(self.bytes(len.into())?.to_vec()).ok()
    }

    /// Bytes after their length in 32 bits.
    pub(crate) fn blob(&mut self) -> Option<Vec<u8>> {
        let len = self.u32()?;
        self.bytes(len as usize).map(<[u8]>::to_vec)
    }
}

/// Appends fields to a vector.
pub(crate) trait Put {
    fn put_u8(&mut self, value: u8);
    fn put_u16(&mut self, value: u16);
    fn put_u32(&mut self, value: u32);
    fn put_u64(&mut self, value: u64);
    fn put_text(&mut self, text: &str);
    fn put_blob(&mut self, bytes: &[u8]);
}

impl Put for Vec<u8> {
    fn put_u8(&mut self, value: u8) {
        self.push(value);
    }
    fn put_u16(&mut self, value: u16) {
        self.extend_from_slice(&value.to_le_bytes());
    }
    fn put_u32(&mut self, value: u32) {
        self.extend_from_slice(&value.to_le_bytes());
    }
    fn put_u64(&mut self, value: u64) {
        self.extend_from_slice(&value.to_le_bytes());
    }
    fn put_text(&mut self, text: &str) {
        self.put_u16(text.len() as u16);
        self.extend_from_slice(text.as_bytes());
    }
    fn put_blob(&mut self, bytes: &[u8]) {
        self.put_u32(bytes.len() as u32);
        self.extend_from_slice(bytes);
    }
}
