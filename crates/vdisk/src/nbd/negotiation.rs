//! The negotiation: the client sends options, and chooses the export.

use world::{BUF_LEN_MAX, Batch, Buf, Stream};

use super::wire::{
    FIXED_NEWSTYLE, GREETING, HAS_FLAGS, MULTI_CONNECTION, NO_ZEROES, OPTION, OPTION_REPLY, READ_ONLY,
    WRITING, u32_at, u64_at,
};

/// The export as described to a client.
#[derive(Clone, Debug)]
pub(super) struct Facts {
    pub(super) name: String,
    pub(super) len_bytes: u64,
    pub(super) block_bytes: u32,
    pub(super) read_only: bool,
}

/// A stream with received bytes that were not used yet.
pub(super) struct Input {
    stream: Stream,
    buf: Option<Buf>,
    from: usize,
    to: usize,
}

/// Requests are small; the payload of writes is received directly into its buffer.
const INPUT_BYTES: usize = 4096;
/// Length limit of an option.
const OPTION_BYTES_MAX: u32 = 8192;
/// Limit of options of one negotiation.
const OPTIONS_MAX: usize = 64;

const EXPORT_NAME: u32 = 1;
const ABORT: u32 = 2;
const LIST: u32 = 3;
const INFO: u32 = 6;
const GO: u32 = 7;

const ACKNOWLEDGED: u32 = 1;
const SERVER: u32 = 2;
const INFORMATION: u32 = 3;
const UNSUPPORTED: u32 = 0x8000_0001;
const INVALID: u32 = 0x8000_0003;
const UNKNOWN: u32 = 0x8000_0006;

impl Input {
    pub(super) fn new(stream: Stream) -> Input {
        Input { stream, buf: Some(Buf::new(INPUT_BYTES)), from: 0, to: 0 }
    }

    /// The next `N` bytes. None: the connection has ended.
    pub(super) async fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let mut bytes = [0; N];
        let mut done = 0;
        while done < N {
            if self.from == self.to {
                self.refill().await?;
            }
            done += self.copy_to(&mut bytes[done..]);
        }
        Some(bytes)
    }

    /// Fills the buffer: bytes that are still to come are received directly into it.
    pub(super) async fn fill(&mut self, mut buf: Buf) -> Option<Buf> {
        let mut done = self.copy_to(&mut buf);
        while done < buf.len() {
            let received = self.stream.recv(buf, done).await;
            buf = received.buf;
            done += received.result.ok().filter(|n| *n > 0)?;
        }
        Some(buf)
    }

    fn copy_to(&mut self, to: &mut [u8]) -> usize {
        let Some(buf) = &self.buf else { return 0 };
        let n = to.len().min(self.to - self.from);
        to[..n].copy_from_slice(&buf[self.from..self.from + n]);
        self.from += n;
        n
    }

    async fn refill(&mut self) -> Option<()> {
        let received = self.stream.recv(self.buf.take()?, 0).await;
        self.buf = Some(received.buf);
        self.from = 0;
        self.to = received.result.ok().filter(|n| *n > 0)?;
        Some(())
    }
}

impl Facts {
    fn flags(&self) -> u16 {
        HAS_FLAGS | MULTI_CONNECTION | if self.read_only { READ_ONLY } else { WRITING }
    }

    fn export(&self) -> Vec<u8> {
        [&0_u16.to_be_bytes()[..], &self.len_bytes.to_be_bytes(), &self.flags().to_be_bytes()].concat()
    }

    /// Lengths and addresses are multiples of the block, preferably of a page, and no longer than a buffer.
    fn blocks(&self) -> Vec<u8> {
        let sizes = [self.block_bytes, 4096.max(self.block_bytes), BUF_LEN_MAX as u32];
        sizes.into_iter().fold(3_u16.to_be_bytes().to_vec(), |mut all, size| {
            all.extend(size.to_be_bytes());
            all
        })
    }
}

async fn send(stream: &Stream, bytes: &[u8]) -> Option<()> {
    let mut batch = Batch::default();
    batch.push_head(bytes);
    stream.send(batch).await.result.ok()
}

fn reply(option: u32, kind: u32, data: &[u8]) -> Vec<u8> {
    let len = data.len() as u32;
    [&OPTION_REPLY.to_be_bytes()[..], &option.to_be_bytes(), &kind.to_be_bytes(), &len.to_be_bytes(), data]
        .concat()
}

/// Negotiates until the client has chosen the export. None: it has disconnected.
pub(super) async fn negotiate(stream: &Stream, input: &mut Input, facts: &Facts) -> Option<()> {
    let greeting =
        [&GREETING.to_be_bytes()[..], &OPTION.to_be_bytes(), &(FIXED_NEWSTYLE | NO_ZEROES).to_be_bytes()];
    send(stream, &greeting.concat()).await?;
    let client_flags = u32::from_be_bytes(input.take::<4>().await?);
    if client_flags & !u32::from(FIXED_NEWSTYLE | NO_ZEROES) != 0 {
        return None;
    }
    for _ in 0..OPTIONS_MAX {
        let head = input.take::<16>().await?;
        let (magic, option, len) = (u64_at(&head, 0), u32_at(&head, 8), u32_at(&head, 12));
        if magic != OPTION || len > OPTION_BYTES_MAX {
            return None;
        }
        let data = if len == 0 { Buf::new(0) } else { input.fill(Buf::new(len as usize)).await? };
        match option {
            EXPORT_NAME => {
                if !is_ours(&data, facts) {
                    return None;
                }
                let mut answer = facts.export().split_off(2);
                if client_flags & u32::from(NO_ZEROES) == 0 {
                    answer.extend([0; 124]);
                }
                return send(stream, &answer).await;
            }
            ABORT => {
                send(stream, &reply(option, ACKNOWLEDGED, &[])).await?;
                return None;
            }
            _ => {
                let (answer, chosen) = answer(option, &data, facts);
                send(stream, &answer).await?;
                if chosen {
                    return Some(());
                }
            }
        }
    }
    None
}

/// There is one export, so any name selects it.
fn is_ours(name: &[u8], facts: &Facts) -> bool {
    name.is_empty() || name == facts.name.as_bytes()
}

/// The reply to an option, and whether it selects the export.
fn answer(option: u32, data: &[u8], facts: &Facts) -> (Vec<u8>, bool) {
    match option {
        LIST => {
            let name = facts.name.as_bytes();
            let entry = [&(name.len() as u32).to_be_bytes()[..], name].concat();
            ([reply(option, SERVER, &entry), reply(option, ACKNOWLEDGED, &[])].concat(), false)
        }
        INFO | GO => {
            let name = data.get(..4).map(|len| u32_at(len, 0) as usize).and_then(|len| data.get(4..4 + len));
            match name {
                None => (reply(option, INVALID, b"truncated name"), false),
                Some(name) if !is_ours(name, facts) => (reply(option, UNKNOWN, b"no such export"), false),
                Some(_) => {
                    let parts = [
                        reply(option, INFORMATION, &facts.export()),
                        reply(option, INFORMATION, &facts.blocks()),
                        reply(option, ACKNOWLEDGED, &[]),
                    ];
                    (parts.concat(), option == GO)
                }
            }
        }
        _ => (reply(option, UNSUPPORTED, &[]), false),
    }
}
