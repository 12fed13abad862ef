//! A read allocates nothing, on either side: counted in the real world, with target and initiator on this
//! thread. And writes hold what was received, until they have their share of the memory for data.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use block::Pieces;
use iscsi::initiator::load;
use iscsi::pdu::{ScsiCommand, opcode};
use iscsi::target::Limits;
use scsi::Lun;

use crate::raw::Raw;
use crate::rig::{READ, Rig, WRITE, cdb10, check_with};

struct Counting;

thread_local! {
    static COUNT: Cell<u64> = const { Cell::new(0) };
    /// Bytes that this thread has allocated and not freed.
    static HELD: Cell<i64> = const { Cell::new(0) };
}

// SAFETY: every call goes to the system's allocator as it came; counting touches a constant-initialised
// thread-local without a destructor, which allocates nothing.
#[expect(unsafe_code, reason = "a global allocator cannot be written otherwise")]
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        COUNT.with(|c| c.set(c.get() + 1));
        HELD.with(|h| h.set(h.get() + layout.size() as i64));
        // SAFETY: the caller's promises are passed on.
        unsafe { System.alloc(layout) }
    }
    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        HELD.with(|h| h.set(h.get() - layout.size() as i64));
        // SAFETY: the caller's promises are passed on.
        unsafe { System.dealloc(at, layout) }
    }
    unsafe fn realloc(&self, at: *mut u8, layout: Layout, len: usize) -> *mut u8 {
        COUNT.with(|c| c.set(c.get() + 1));
        HELD.with(|h| h.set(h.get() + len as i64 - layout.size() as i64));
        // SAFETY: the caller's promises are passed on.
        unsafe { System.realloc(at, layout, len) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn count() -> u64 {
    COUNT.with(Cell::get)
}

const WARM_UP: u64 = 2000;
const READS: u64 = 20_000;

fn in_the_real_world(test: impl AsyncFn(Rig)) {
    world_real::run(world_real::Options::default(), |world| async move {
        let rig = Rig::new(&world, Limits::default());
        test(rig).await;
    })
    .expect("a world");
}

#[test]
fn a_load_of_reads_allocates_nothing() {
    in_the_real_world(async |rig| {
        let (mut given, first) = (0u64, Cell::new(0));
        let next = || {
            given += 1;
            if given == WARM_UP {
                first.set(count());
            }
            (given <= WARM_UP + READS).then_some(load::Read {
                lun: Lun(0),
                lba: given % 1000 * 8,
                blocks: 8,
                block_bytes: 512,
            })
        };
        let last = Cell::new(0);
        let totals =
            load::read(&rig.world, &rig.options(1), 32, next, |_| last.set(count())).await.expect("a load");
        assert_eq!((totals.reads, totals.failed), (WARM_UP + READS, 0));
        let allocations = last.get() - first.get();
        assert!(allocations <= 16, "{allocations} allocations for {READS} reads");
    });
}

#[test]
fn commands_of_a_session_allocate_nothing() {
    in_the_real_world(async |rig| {
        let session = rig.session(1).await;
        let mut first = 0;
        for i in 0..WARM_UP + READS {
            if i == WARM_UP {
                first = count();
            }
            let done = session
                .command(Lun(0), cdb10(READ, (i % 1000) as u32 * 8, 8), Pieces::new(), 4096)
                .await
                .expect("an answer");
            assert!(done.is_good() && done.data_in.len() == 4096);
        }
        let allocations = count() - first;
        assert!(allocations <= 16, "{allocations} allocations for {READS} reads");
    });
}

#[test]
fn writes_that_wait_for_memory_hold_what_was_received() {
    const MIB: i64 = 1 << 20;
    check_with(Limits { session_data_bytes: 8 << 20, ..Limits::default() }, async |rig| {
        let mut raw = Raw::login(&rig, 1, "ImmediateData=Yes\0InitialR2T=Yes\0").await;
        let before = HELD.with(Cell::get);
        // As many writes of 1 MiB as the window takes; eight of them get memory, and R2Ts.
        for itt in 0..128 {
            let header = raw.command(itt, cdb10(WRITE, 0, 2048), ScsiCommand::WRITE, 1 << 20);
            raw.send_pdu(&header, &[7; 512]).await;
        }
        rig.sleep_ms(100).await;
        let held = HELD.with(Cell::get) - before;
        assert!(held < 12 * MIB, "{held} bytes for 64 KiB of data");
        assert_eq!(raw.next().await.expect("an R2T").opcode(), opcode::R2T);
        raw.stream.close();
    });
}
