//! What a portal gives to its peers at most. Everything that is kept for a peer is bounded by something here.

use std::time::Duration;

use crate::negotiation::{Digests, Offer};

/// Limits of a portal.
///
/// Memory: one session holds at most `window` × FirstBurstLength of unsolicited data (128 × 64 KiB = 8 MiB; nobody can ask for less,
/// because the window was granted before), `session_data_bytes` of solicited and of read data, a receive buffer (128 KiB; twice the largest PDU
/// while one passes) and 2 MiB of small answers. Of solicited and read data, `session_own_bytes` are each session's own, so that nobody
/// waits for others with small transfers; beyond that all sessions together hold at most `portal_data_bytes`, those of one initiator name at
/// most `initiator_data_bytes`, and those of one source address at most `source_data_bytes`.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Normal sessions.
    pub sessions: usize,
    /// Of these, kept for initiators that proved who they are (CHAP).
    pub sessions_proven: usize,
    /// Normal sessions of one initiator name.
    pub sessions_per_initiator: usize,
    /// Discovery sessions; one more ends the oldest.
    pub discoveries: usize,
    /// Discovery sessions of one source address; one more ends its oldest.
    pub discoveries_per_source: usize,
    /// Connections that have not logged in, of addresses from which nobody has logged in before; and as many again of addresses from which somebody has.
    /// One more ends the oldest of the address that has the most.
    pub logins: usize,
    /// Connections of one source address that have not logged in; one more ends the oldest.
    pub logins_per_source: usize,
    /// How long a login may take.
    pub login_time: Duration,
    /// Commands of one session in flight: the command window (MaxCmdSN).
    pub window: u16,
    /// Immediate commands of one session in flight, beyond the window.
    pub immediate: u16,
    /// Bytes of data in flight of one session.
    pub session_data_bytes: u64,
    /// Of these, what each session has for itself, whatever others hold.
    pub session_own_bytes: u64,
    /// Bytes of data in flight of all sessions, beyond what each has for itself.
    pub portal_data_bytes: u64,
    /// The most of them that the sessions of one initiator name hold.
    pub initiator_data_bytes: u64,
    /// The most of them that the sessions of one source address hold.
    pub source_data_bytes: u64,
    /// Bytes of one login's or text exchange's text.
    pub text_bytes: usize,
    /// How long one PDU may take from its first byte to its last.
    pub pdu_time: Duration,
    /// How long a command may wait for its data.
    pub data_out_time: Duration,
    /// How long one send may take.
    pub send_time: Duration,
    /// How long one send may take before the session gets no more memory for data until it is out.
    pub stall_time: Duration,
    /// How long one send may take while others wait for the memory that it holds.
    pub pressed_send_time: Duration,
    /// A session that is silent this long is asked whether it is there (NOP-In).
    pub ping_after: Duration,
    /// How long it may take to answer.
    pub ping_time: Duration,
    /// How long hosts have to log out when the portal stops.
    pub shutdown_time: Duration,
    /// What the target brings to the negotiation.
    pub offer: Offer,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits::DEFAULT
    }
}

impl Limits {
    /// What holds when nothing else is said.
    pub const DEFAULT: Limits = {
        Limits {
            sessions: 1024,
            sessions_proven: 128,
            sessions_per_initiator: 64,
            discoveries: 128,
            discoveries_per_source: 16,
            logins: 256,
            // Hosts log in with a few connections at a time; those behind one address share it.
            logins_per_source: 64,
            login_time: Duration::from_secs(15),
            // Twice the deepest queue that an initiator is known to use by default (Linux node.session.queue_depth = 32,
            // cmds_max = 128).
            window: 128,
            immediate: 16,
            session_data_bytes: 64 << 20,
            // 32 commands of 32 KiB, or 8 of 128 KiB.
            session_own_bytes: 1 << 20,
            portal_data_bytes: 512 << 20,
            initiator_data_bytes: 128 << 20,
            source_data_bytes: 256 << 20,
            text_bytes: 16 << 10,
            pdu_time: Duration::from_secs(10),
            data_out_time: Duration::from_secs(60),
            send_time: Duration::from_secs(60),
            stall_time: Duration::from_secs(2),
            pressed_send_time: Duration::from_secs(10),
            ping_after: Duration::from_secs(20),
            // A host that sleeps in its own recovery is patient with us: a minute is what Linux gives a path (replacement_timeout 120 s).
            ping_time: Duration::from_secs(60),
            shutdown_time: Duration::from_secs(5),
            offer: Offer {
                header_digest: Digests::Allowed,
                data_digest: Digests::Allowed,
                initial_r2t: false,
                immediate_data: true,
                recv_segment_len_max: 256 << 10,
                max_burst_len: crate::chunks::CHUNK_LEN as u32,
                first_burst_len: 64 << 10,
                max_outstanding_r2t: 8,
                time2wait_s: 2,
                // No state outlives a connection at error recovery level 0.
                time2retain_s: 0,
            },
        }
    };
}

/// Command slots are numbered in the low bits of target transfer tags.
pub(crate) const SLOT_BITS: u32 = 9;

impl Limits {
    /// Command slots of one session.
    pub(crate) fn slots(&self) -> usize {
        let slots = usize::from(self.window) + usize::from(self.immediate);
        assert!(
            self.window > 0 && slots < 1 << SLOT_BITS,
            "a window of 1 to {} commands",
            (1 << SLOT_BITS) - 1
        );
        slots
    }
}
