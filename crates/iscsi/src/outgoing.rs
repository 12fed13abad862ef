//! Outgoing PDUs gather in a batch while the previous batch is sent; the two batches are reused.

use block::Pieces;
use world::{Batch, Io, Sent};

use crate::digest::digest;
use crate::frame::{Framing, digest_of_pieces, set_data_len};
use crate::pdu::BHS_LEN;

/// The outgoing side of a connection.
pub(crate) struct Outgoing {
    /// The batch being filled.
    pub batch: Batch,
    spare: Option<Batch>,
    /// The send in flight.
    pub sending: Option<Io<Sent>>,
    /// The next StatSN; only targets number their PDUs.
    pub stat_sn: u32,
    pub header_digest: bool,
    pub data_digest: bool,
    /// Bytes of the session's budget held by the batch, and by the send in flight.
    pub held: u64,
    pub sending_held: u64,
    /// The connection ends after everything has been sent.
    pub is_last: bool,
    pub pdus: u64,
    pub data_bytes: u64,
}

impl Outgoing {
    pub(crate) fn new(stat_sn: u32) -> Outgoing {
        Outgoing {
            batch: Batch::default(),
            spare: Some(Batch::default()),
            sending: None,
            stat_sn,
            header_digest: false,
            data_digest: false,
            held: 0,
            sending_held: 0,
            is_last: false,
            pdus: 0,
            data_bytes: 0,
        }
    }

    /// Allocates the next StatSN.
    pub(crate) fn next_stat_sn(&mut self) -> u32 {
        let sn = self.stat_sn;
        self.stat_sn = sn.wrapping_add(1);
        sn
    }

    fn push_header(&mut self, header: &[u8; BHS_LEN]) {
        self.pdus += 1;
        self.batch.push_head(header);
        if self.header_digest {
            self.batch.push_head(&digest(header));
        }
    }

    /// Appends a PDU without data.
    pub(crate) fn push(&mut self, header: &[u8; BHS_LEN]) {
        self.push_header(header);
    }

    /// Appends a PDU with little data, which is copied.
    pub(crate) fn push_small(&mut self, header: &[u8; BHS_LEN], data: &[u8]) {
        let mut header = *header;
        set_data_len(&mut header, data.len());
        self.push_header(&header);
        if data.is_empty() {
            return;
        }
        self.batch.push_head(data);
        self.batch.push_head(&[0; 3][..Framing::padding(data.len())]);
        if self.data_digest {
            self.batch.push_head(&digest_of_pieces([data].into_iter()));
        }
    }

    /// Appends a PDU with shared data. The header already has the data's length.
    pub(crate) fn push_pieces(&mut self, header: &[u8; BHS_LEN], data: Pieces) {
        self.push_header(header);
        let len = data.len();
        self.data_bytes += len as u64;
        let sum = self.data_digest.then(|| digest_of_pieces(data.iter().map(|d| &d[..])));
        for piece in data {
            self.batch.push_data(piece);
        }
        let padding = Framing::padding(len);
        if padding > 0 {
            self.batch.push_head(&[0; 3][..padding]);
        }
        if let Some(sum) = sum {
            self.batch.push_head(&sum);
        }
    }

    /// The batch to send next, if there is one and no send is in flight.
    pub(crate) fn take_batch(&mut self) -> Option<Batch> {
        if self.sending.is_some() || self.batch.is_empty() {
            return None;
        }
        let empty = self.spare.take().unwrap_or_default();
        self.sending_held = std::mem::take(&mut self.held);
        Some(std::mem::replace(&mut self.batch, empty))
    }

    /// Ends a send; returns the budget that it held.
    pub(crate) fn sent(&mut self, batch: Batch) -> u64 {
        self.spare = Some(batch);
        std::mem::take(&mut self.sending_held)
    }
}
