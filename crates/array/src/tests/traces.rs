//! Traces of commands: what is in them, and that nothing waits for them.

use block::Pieces;
use scsi::CommandTrace;
use world::{SpanRecord, World};

use super::rig::{Host, TARGET, VOLUME_BYTES, declaration, group, model};
use super::two_controllers::{BLOCK, Rig, config};
use crate::config::{Config, Level, TraceSettings};
use crate::trace::small_channel;
use crate::{Array, ControllerHandle, TraceReceiver, TraceSender, Traced, run_controller, trace_channel};

const WRITE_16: u8 = 0x8a;
const READ_16: u8 = 0x88;

fn all_commands() -> Option<TraceSettings> {
    Some(TraceSettings {
        endpoint: "http://127.0.0.1:4318".into(),
        share_millionths: scsi::WHOLE_MILLIONTHS,
        per_second: 1000,
        headers_file: None,
        ca: None,
    })
}

/// One controller, whose traces go there, and a host.
async fn start(world: &World, config: Config, to: TraceSender) -> (Array, Host) {
    let (handle, mailbox) = ControllerHandle::new(0);
    world.spawn(run_controller(world.clone(), 0, mailbox.tracing(to), vec![handle.clone()]));
    let mut array = Array::new(vec![handle], TARGET);
    array.apply(config).await.expect("applied");
    (array, Host::log_in(world, 1).await)
}

fn cdb(opcode: u8, at: u64, bytes: usize) -> [u8; 16] {
    let mut cdb = [0; 16];
    cdb[0] = opcode;
    cdb[2..10].copy_from_slice(&(at / 512).to_be_bytes());
    cdb[10..14].copy_from_slice(&((bytes / 512) as u32).to_be_bytes());
    cdb
}

/// All that was traced of commands with this name, the oldest first.
fn taken(receiver: &TraceReceiver, name: &str) -> Vec<Traced> {
    let all = std::iter::from_fn(|| receiver.try_next());
    all.filter(|traced| traced.command.name() == Some(name)).collect()
}

fn spans<'a>(command: &'a CommandTrace, stage: &str) -> Vec<&'a SpanRecord> {
    command.stages.spans.iter().filter(|span| span.stage == stage).collect()
}

fn the_span<'a>(command: &'a CommandTrace, stage: &str) -> &'a SpanRecord {
    let found = spans(command, stage);
    assert_eq!(found.len(), 1, "{stage} in {:#?}", command.stages.spans);
    found[0]
}

/// Every stage has ended, within the one that it is part of.
fn is_nested(command: &CommandTrace) {
    let spans = &command.stages.spans;
    for span in spans {
        let (began, ended) = match span.parent {
            Some(parent) => (spans[usize::from(parent)].began, spans[usize::from(parent)].ended),
            None => (command.began, Some(command.ended)),
        };
        assert!(span.began >= began && span.ended.is_some() && span.ended <= ended, "{span:?} in {spans:#?}");
    }
    assert_eq!(command.stages.left_out, 0);
}

#[test]
fn the_times_of_port_and_lu_add_up_to_that_of_the_command() {
    model(11, 3).run(async |world| {
        let (to, receiver) = trace_channel();
        let mut config = declaration(1, 3, vec![group("g", Level::Raid5, 0..3)]);
        config.traces = all_commands();
        let (array, host) = start(&world, config, to).await;
        let data = Pieces::copy_of(&[7; 8192]);
        for _ in 0..2 {
            host.raw(cdb(WRITE_16, 0, 8192), data.clone(), 0).await;
        }
        host.raw(cdb(READ_16, 0, 8192), Pieces::new(), 8192).await;
        let all: Vec<Traced> = std::iter::from_fn(|| receiver.try_next()).collect();
        let of = |name: &str| {
            let found: Vec<&CommandTrace> =
                all.iter().map(|t| &t.command).filter(|c| c.name() == Some(name)).collect();
            found.iter().for_each(|command| is_nested(command));
            (*found.last().expect(name)).clone()
        };

        let read = of("READ(16)");
        let times = |span: &SpanRecord| (span.began, span.ended.expect("ended"));
        let (port, lu) = (the_span(&read, "port"), the_span(&read, "lu"));
        assert_eq!((port.began, times(port).1, times(lu).1), (read.began, lu.began, read.ended));
        let (pool, raid, drive) =
            (the_span(&read, "pool"), the_span(&read, "raid"), the_span(&read, "drive"));
        assert_eq!((pool.object.as_str(), raid.object.as_str(), drive.object.as_str()), ("p", "g", "d1"));
        host.log_out().await;
        array.stop().await.expect("stopped");
    });
}

#[test]
fn without_the_table_no_command_is_traced_and_a_change_takes_effect_at_once() {
    model(12, 1).run(async |world| {
        let (to, receiver) = trace_channel();
        let mut config = declaration(1, 1, vec![group("g", Level::Raid0, 0..1)]);
        let (mut array, host) = start(&world, config.clone(), to).await;
        let read = cdb(READ_16, 0, 4096);
        host.raw(read, Pieces::new(), 4096).await;
        assert!(receiver.try_next().is_none());
        config.traces = all_commands();
        array.apply(config.clone()).await.expect("applied");
        host.raw(read, Pieces::new(), 4096).await;
        assert_eq!(taken(&receiver, "READ(16)").len(), 1);
        config.traces = None;
        array.apply(config).await.expect("applied");
        host.raw(read, Pieces::new(), 4096).await;
        assert!(receiver.try_next().is_none());
        host.log_out().await;
        array.stop().await.expect("stopped");
    });
}

/// Nobody receives: the host is served nevertheless.
#[test]
fn a_full_queue_drops_traces_and_counts_them() {
    model(13, 1).run(async |world| {
        let (to, receiver) = small_channel(1);
        let mut config = declaration(1, 1, vec![group("g", Level::Raid0, 0..1)]);
        config.traces = all_commands();
        let (array, host) = start(&world, config, to).await;
        while receiver.try_next().is_some() {}
        let before = receiver.lost_in_queue();
        for _ in 0..5 {
            host.raw(cdb(READ_16, 0, 4096), Pieces::new(), 4096).await;
        }
        // The unit attention after the login has a trace, too, if it was not heard before.
        let sent = receiver.lost_in_queue() - before + 1;
        assert!((5..=6).contains(&sent), "{sent}");
        assert!(receiver.try_next().is_some() && receiver.try_next().is_none());
        host.log_out().await;
        array.stop().await.expect("stopped");
    });
}

#[test]
fn commands_above_the_limit_per_second_are_counted() {
    model(14, 1).run(async |world| {
        let (to, receiver) = trace_channel();
        let mut config = declaration(1, 1, vec![group("g", Level::Raid0, 0..1)]);
        config.traces = all_commands().map(|traces| TraceSettings { per_second: 2, ..traces });
        let (array, host) = start(&world, config, to).await;
        host.raw(cdb(READ_16, 0, 4096), Pieces::new(), 4096).await;
        world.sleep(std::time::Duration::from_secs(2)).await;
        while receiver.try_next().is_some() {}
        let before = receiver.over_limit();
        for _ in 0..5 {
            host.raw(cdb(READ_16, 0, 4096), Pieces::new(), 4096).await;
        }
        assert_eq!((taken(&receiver, "READ(16)").len(), receiver.over_limit() - before), (2, 3));
        host.log_out().await;
        array.stop().await.expect("stopped");
    });
}

#[test]
fn a_command_that_crosses_has_the_stages_of_the_owner() {
    let mut config = config();
    config.traces = all_commands();
    let (to, receiver) = trace_channel();
    Rig::run_with(config, Some(to), async |rig| {
        let host = rig.host("a", 0, 2).await;
        host.transfer(WRITE_16, 1, 0, Pieces::copy_of(&[1; 4096]), 4096).await;
        host.transfer(READ_16, 1, VOLUME_BYTES - BLOCK, Pieces::new(), BLOCK).await;
        host.transfer(READ_16, 1, 0, Pieces::new(), 4096).await;
        let reads = taken(&receiver, "READ(16)");
        assert_eq!(reads.len(), 2);
        reads.iter().for_each(|traced| is_nested(&traced.command));
        let [unmapped, mapped] = reads.as_slice() else { panic!("two") };
        // Nothing is below a page that is not mapped.
        assert!(spans(&unmapped.command, "raid").is_empty());
        assert_eq!(the_span(&unmapped.command, "pool").object, "p1");
        assert_eq!((mapped.controller, the_span(&mapped.command, "drive").object.as_str()), (0, "d1"));
    });
}
