//! Traces of a sampled share of commands: which are chosen, and what is told of them.
//!
//! A command is chosen at its port. Its trace is a plain value that travels in the request to the controller
//! of the LU, and back in the response.

use std::cell::{Cell, OnceCell};

use world::{Instant, Recorded, SpanRecord, World};

use crate::cdb::Cdb;
use crate::counters::OpClass;
use crate::opcode::{self, DataOut};
use crate::request::{Lun, Response, Status};
use crate::sense_codes::sense_codes;

/// The share of all commands, in millionths.
pub const WHOLE_MILLIONTHS: u32 = 1_000_000;

/// A command that was traced.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "self-explanatory names")]
pub struct CommandTrace {
    pub cdb: [u8; 16],
    pub lun: Option<Lun>,
    /// The iSCSI name of the initiator.
    pub initiator: String,
    /// The iSCSI name of the target, with the portal group.
    pub port: String,
    /// The block length of the logical unit; 0 if there is none.
    pub block_bytes: u32,
    pub status: Status,
    /// Sense key, additional sense code and qualifier, if there is sense data.
    pub sense: Option<(u8, u8, u8)>,
    /// When its first PDU arrived.
    pub began: Instant,
    /// When its response was handed to the port.
    pub ended: Instant,
    pub stages: Recorded,
}

impl CommandTrace {
    /// A command that arrived then, and that its port is done with now.
    fn begun(cdb: [u8; 16], arrived: Instant, now: Instant) -> CommandTrace {
        let (parent, stage, object) = (None, "port", String::new());
        let port = SpanRecord { parent, stage, object, began: arrived, ended: Some(now) };
        CommandTrace {
            cdb,
            lun: None,
            initiator: String::new(),
            port: String::new(),
            block_bytes: 0,
            status: Status::Good,
            sense: None,
            began: arrived,
            ended: now,
            stages: Recorded { spans: vec![port], left_out: 0 },
        }
    }

    /// The standard's name of the command; `None` for a CDB that the array does not know.
    pub fn name(&self) -> Option<&'static str> {
        opcode::find(&Cdb(self.cdb)).map(|command| command.name)
    }

    /// The first block and the number of blocks, of a command that names both.
    pub fn blocks(&self) -> Option<(u64, u64)> {
        let cdb = Cdb(self.cdb);
        let command = opcode::find(&cdb)?;
        command.moves_blocks().then(|| match command.cdb_len {
            6 => (cdb.uint(1, 3) & 0x1f_ffff, u64::from(cdb.u8(4).wrapping_sub(1)) + 1),
            10 => (cdb.uint(2, 4), cdb.uint(7, 2)),
            12 => (cdb.uint(2, 4), cdb.uint(6, 4)),
            _ => (cdb.uint(2, 8), cdb.uint(10, 4)),
        })
    }

    /// `read` or `write`, of a command that moves data of the logical unit.
    pub fn direction(&self) -> Option<&'static str> {
        match opcode::find(&Cdb(self.cdb))?.class {
            OpClass::Read => Some("read"),
            OpClass::Write => Some("write"),
            _ => None,
        }
    }
}

/// Chooses the commands of a controller's ports that are traced. Off, it costs a comparison.
pub struct Tracer {
    world: World,
    /// In millionths; 0: none.
    share: Cell<u32>,
    per_second: Cell<u32>,
    /// The state of the choice.
    draw: Cell<u64>,
    /// A second, and the commands that were chosen in it.
    chosen: Cell<(u64, u32)>,
    sink: OnceCell<Box<dyn TraceSink>>,
}

/// What takes the traces of a controller. It must not wait.
pub trait TraceSink {
    /// A command was traced.
    fn take(&self, trace: CommandTrace);
    /// A command was chosen, and is not traced because of the limit per second.
    fn over_limit(&self);
}

impl Tracer {
    /// A tracer that chooses none.
    pub fn new(world: World) -> Tracer {
        let (share, per_second, draw) = (Cell::new(0), Cell::new(0), Cell::new(world.seed()));
        Tracer { world, share, per_second, draw, chosen: Cell::default(), sink: OnceCell::new() }
    }

    /// Where traces go. Without a sink, none is recorded. The first call counts.
    pub fn send_to(&self, sink: impl TraceSink + 'static) {
        let _ = self.sink.set(Box::new(sink));
    }

    /// From now on this share of the commands, and at most so many in a second.
    pub fn set(&self, share_millionths: u32, per_second: u32) {
        self.share.set(share_millionths.min(WHOLE_MILLIONTHS));
        self.per_second.set(per_second);
    }

    /// The beginning of a trace, if the command is one of those that are traced: it arrived then, and its
    /// port is done with it now.
    pub fn sample(&self, cdb: &[u8; 16], arrived: Instant) -> Option<Box<CommandTrace>> {
        if self.share.get() == 0 {
            return None;
        }
        self.choose(cdb, arrived)
    }

    #[cold]
    fn choose(&self, cdb: &[u8; 16], arrived: Instant) -> Option<Box<CommandTrace>> {
        let sink = self.sink.get()?;
        // As `world::Stage` draws: no state but its own, and no rhythm.
        let draw = self.draw.get();
        self.draw.set(draw.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407));
        if ((draw >> 32) * u64::from(WHOLE_MILLIONTHS)) >> 32 >= u64::from(self.share.get()) {
            return None;
        }
        let now = self.world.now();
        let (second, (last, chosen)) = (now.0 / 1_000_000_000, self.chosen.get());
        let chosen = if second == last { chosen } else { 0 };
        if chosen >= self.per_second.get() {
            sink.over_limit();
            return None;
        }
        self.chosen.set((second, chosen + 1));
        Some(Box::new(CommandTrace::begun(*cdb, arrived, now)))
    }

    /// Ends the trace of a command: this is its response.
    pub(crate) fn end(&self, mut trace: CommandTrace, response: &Response) {
        trace.ended = self.world.now();
        trace.status = response.status;
        trace.sense = sense_codes(&response.sense);
        if let Some(sink) = self.sink.get() {
            sink.take(trace);
        }
    }
}

impl opcode::Command {
    /// Whether its CDB has an address and a number of blocks in the usual places.
    fn moves_blocks(&self) -> bool {
        use opcode::Handler;
        matches!(self.handler, Handler::Read | Handler::Write | Handler::WriteAndVerify | Handler::Verify)
            && !matches!(self.data_out, DataOut::TwiceBlocks)
            && self.service_action.is_none()
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::rc::Rc;
    use std::time::Duration;

    use super::*;

    #[derive(Clone, Default)]
    struct Kept {
        traces: Rc<RefCell<Vec<CommandTrace>>>,
        over: Rc<Cell<u32>>,
    }

    impl TraceSink for Kept {
        fn take(&self, trace: CommandTrace) {
            self.traces.borrow_mut().push(trace);
        }
        fn over_limit(&self) {
            self.over.set(self.over.get() + 1);
        }
    }

    fn read_10() -> [u8; 16] {
        let mut cdb = [0; 16];
        cdb[..10].copy_from_slice(&[0x28, 0, 0, 0, 1, 0, 0, 0, 8, 0]);
        cdb
    }

    #[test]
    fn the_share_that_was_asked_for_is_chosen_whatever_the_rhythm() {
        world_model::Model::new(5).run(async |world| {
            let (tracer, kept) = (Tracer::new(world.clone()), Kept::default());
            tracer.set(250_000, u32::MAX);
            assert!(tracer.sample(&read_10(), world.now()).is_none(), "nobody takes it");
            tracer.send_to(kept.clone());
            let mut chosen = [0; 4];
            for n in 0..40_000 {
                chosen[n % 4] += u32::from(tracer.sample(&read_10(), world.now()).is_some());
            }
            assert!(chosen.iter().all(|count| (2300..2700).contains(count)), "{chosen:?}");
            tracer.set(WHOLE_MILLIONTHS, u32::MAX);
            assert!((0..1000).all(|_| tracer.sample(&read_10(), world.now()).is_some()));
            tracer.set(0, u32::MAX);
            assert!((0..1000).all(|_| tracer.sample(&read_10(), world.now()).is_none()));
            assert_eq!(kept.over.get(), 0);
        });
    }

    #[test]
    fn a_second_has_its_limit_and_the_next_one_its_own() {
        world_model::Model::new(6).run(async |world| {
            let (tracer, kept) = (Tracer::new(world.clone()), Kept::default());
            tracer.send_to(kept.clone());
            tracer.set(WHOLE_MILLIONTHS, 3);
            let count = || (0..10).filter(|_| tracer.sample(&read_10(), world.now()).is_some()).count();
            assert_eq!((count(), kept.over.get()), (3, 7));
            world.sleep(Duration::from_secs(1)).await;
            assert_eq!((count(), kept.over.get()), (3, 14));
        });
    }

    #[test]
    fn the_end_has_the_name_the_blocks_and_the_sense() {
        world_model::Model::new(7).run(async |world| {
            let (tracer, kept) = (Tracer::new(world.clone()), Kept::default());
            tracer.send_to(kept.clone());
            tracer.set(WHOLE_MILLIONTHS, 3);
            let trace = tracer.sample(&read_10(), world.now()).expect("all are chosen");
            world.sleep(Duration::from_millis(1)).await;
            let mut sense = vec![0; 18];
            (sense[0], sense[2], sense[12]) = (0x70, 0x03, 0x11);
            let response = Response::failed(Status::CheckCondition, sense, 0);
            tracer.end(*trace, &response);
            let kept = kept.traces.borrow();
            assert_eq!((kept[0].name(), kept[0].blocks()), (Some("READ(10)"), Some((256, 8))));
            assert_eq!(
                (kept[0].sense, kept[0].ended - kept[0].began),
                (Some((3, 0x11, 0)), Duration::from_millis(1))
            );
        });
    }

    #[test]
    fn blocks_of_short_and_long_commands() {
        let blocks = |bytes: &[u8]| {
            let mut trace = CommandTrace::begun([0; 16], Instant(0), Instant(0));
            trace.cdb[..bytes.len()].copy_from_slice(bytes);
            trace.blocks()
        };
        assert_eq!(blocks(&[0x08, 0x1f, 0xff, 0xff, 0, 0]), Some((0x1f_ffff, 256)));
        assert_eq!(blocks(&[0x0a, 0xe0, 0, 1, 3, 0]), Some((1, 3)));
        assert_eq!(blocks(&[0xaa, 0, 0, 0, 0, 9, 0, 0, 0, 2, 0, 0]), Some((9, 2)));
        assert_eq!(blocks(&[0x8a, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 4, 0, 0]), Some((1 << 32, 4)));
        assert_eq!((blocks(&[0x12]), blocks(&[0xff])), (None, None));
    }
}
