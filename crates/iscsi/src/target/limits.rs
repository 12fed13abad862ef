//! Limits of a portal. Everything that is stored for a peer has a limit here.

use std::time::Duration;

use crate::negotiation::{Digests, Offer};

/// Limits of a portal.
///
/// Memory: one session holds at most `window` × FirstBurstLength of unsolicited data (128 × 64 KiB = 8 MiB;
/// it cannot be limited further, because the window was granted before), `session_data_bytes` of solicited
/// and of read data, a receive buffer (128 KiB; twice the largest PDU during such a PDU) and 2 MiB of small
/// responses. Of solicited and read data, `session_own_bytes` are each session's own, so that sessions with
/// small transfers never wait for others; beyond that all sessions together hold at most `portal_data_bytes`,
/// those of one initiator name at most `initiator_data_bytes`, and those of one source address at most
/// `source_data_bytes`.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Normal sessions.
    pub sessions: usize,
    /// Of these, reserved for authenticated initiators (CHAP).
    pub sessions_proven: usize,
    /// Normal sessions of one initiator name.
    pub sessions_per_initiator: usize,
    /// Discovery sessions; one more ends the oldest.
    pub discoveries: usize,
    /// Discovery sessions of one source address; one more ends its oldest.
    pub discoveries_per_source: usize,
    /// Connections in login from addresses without a previous login, and the same number from addresses with
    /// one. One more ends the oldest of the address that has the most.
    pub logins: usize,
    /// Connections in login from one source address; one more ends the oldest.
    pub logins_per_source: usize,
    /// Time limit of a login.
    pub login_time: Duration,
    /// Commands in flight of one session: the command window (MaxCmdSN).
    pub window: u16,
    /// Immediate commands in flight of one session, beyond the window.
    pub immediate: u16,
    /// Bytes of data in flight of one session.
    pub session_data_bytes: u64,
    /// Of these, memory that each session has for itself.
    pub session_own_bytes: u64,
    /// Bytes of data in flight of all sessions, beyond each session's own.
    pub portal_data_bytes: u64,
    /// Part of them that the sessions of one initiator name may hold.
    pub initiator_data_bytes: u64,
    /// Part of them that the sessions of one source address may hold.
    pub source_data_bytes: u64,
    /// Bytes of one login's or text exchange's text.
    pub text_bytes: usize,
    /// Time limit of one PDU, from first to last byte.
    pub pdu_time: Duration,
    /// Time limit of a command's next data.
    pub data_out_time: Duration,
    /// Time limit of one send.
    pub send_time: Duration,
    /// Duration of a send after which the session gets no more memory for data until the send is complete.
    pub stall_time: Duration,
    /// Time limit of a send while other sessions wait for memory.
    pub pressed_send_time: Duration,
    /// A session that is silent for this long gets a NOP-In.
    pub ping_after: Duration,
    /// Time limit of the answer to NOP-In.
    pub ping_time: Duration,
    /// Time for hosts to log out when the portal stops.
    pub shutdown_time: Duration,
    /// Operational parameters that the target offers.
    pub offer: Offer,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits::DEFAULT
    }
}

impl Limits {
    /// The defaults.
    pub const DEFAULT: Limits = {
        Limits {
            sessions: 1024,
            sessions_proven: 128,
            sessions_per_initiator: 64,
            discoveries: 128,
            discoveries_per_source: 16,
            logins: 256,
            // Hosts log in with a few connections at a time; hosts behind one address share the limit.
            logins_per_source: 64,
            login_time: Duration::from_secs(15),
            // Twice the deepest default queue of known initiators (Linux node.session.queue_depth = 32,
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
            // Allows for hosts in their own recovery: Linux gives a path one minute (replacement_timeout 120
            // s).
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
                // A host that has lost its session may come back at once: nothing of the old one is left to
                // wait for.
                time2wait_s: 0,
                // No state survives a connection at error recovery level 0.
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
