//! Pages between a fast and a slow group, in the model world: what ends where, what it costs to settle, what
//! a power cut leaves.

use std::ops::ControlFlow;
use std::time::Duration;

use block::{Device, Pieces};
use raid::{Group, Level};
use world::{Rng, World};
use world_model::Outcome;

use super::rig::{PAGE, Rig, Setup, audit, look, new_groups, open_groups};
use super::shadow::{encode, values};
use crate::{Class, Pool, PoolError, PoolSpec, Provisioning, Reason, Volume};

const PER_PAGE: usize = (PAGE / 512) as usize;
/// More than the fast group has.
const PAGES: u64 = 400;

fn setup() -> Setup {
    Setup { groups: 3, disk_len: 16 << 20, ..Setup::new(Level::Raid0, 1) }
}

async fn go(_: u64) -> ControlFlow<()> {
    ControlFlow::Continue(())
}

/// A volume of pages that each hold their number, written when all groups were of one class; then group 0 is
/// the fast one.
async fn pool_with_data(world: &World, groups: Vec<Group>) -> (Pool, Volume) {
    let spec = PoolSpec { page_bytes: PAGE, ..PoolSpec::new("p") };
    let pool = Pool::create(world.clone(), spec, groups.clone()).await.expect("create");
    let v = pool.create_volume("v", PAGES * PAGE, Provisioning::Thin).await.expect("create");
    for i in 0..PAGES {
        v.write(i * PAGE, &encode(std::iter::repeat_n(i as u32, PER_PAGE))).await.expect("write");
    }
    v.flush().await.expect("flush");
    pool.set_class(groups[0].id(), Class::Fast).expect("it is in the pool");
    (pool, v)
}

/// An interval in which nine of ten accesses go to a tenth of the pages, at a place of its own for each; a
/// fifth are writes of what is there already.
async fn skewed(v: &Volume, rng: &mut Rng, operations: u64, shift: u64) {
    for _ in 0..operations {
        let hot = rng.u64(0..10) > 0;
        let page = if hot { (rng.u64(0..PAGES / 10) * 10 + shift) % PAGES } else { rng.u64(0..PAGES) };
        let at = page * PAGE + rng.u64(0..16) * 4096;
        match rng.u64(0..5) {
            0 => v.write(at, &encode(std::iter::repeat_n(page as u32, 8))).await.expect("write"),
            _ => v.read(at, 4096, &mut Pieces::new()).await.expect("read"),
        }
    }
}

/// The bar: with a 90/10 skew the fast class serves four fifths of all I/O in the third interval, and from
/// then on nothing moves; and it follows when the hot pages become others.
#[test]
fn a_skewed_load_is_served_from_the_fast_class_and_placement_settles() {
    let rig = Rig::new(1, setup());
    rig.model.run(async |world| {
        let (pool, v) = pool_with_data(&world, new_groups(&world, &rig.setup).await).await;
        let mut rng = Rng::with_seed(3);
        let mut seen = Vec::new();
        for interval in 0..12 {
            let shift = if interval < 6 { 3 } else { 7 };
            skewed(&v, &mut rng, 4000, shift).await;
            let placed = pool.place(go).await.expect("place");
            let fast = pool.heat().classes[0];
            assert_eq!(fast.class, Class::Fast);
            seen.push((fast.share_permille, placed.promoted, placed.demoted));
        }
        println!("share of the fast class in thousandths, promoted, demoted: {seen:?}");
        assert!(seen[0].0 < 600, "to begin with it has what it happens to have: {seen:?}");
        assert!(seen[2..6].iter().all(|s| s.0 >= 800), "{seen:?}");
        assert!(seen[4..6].iter().all(|s| s.1 + s.2 == 0), "{seen:?}");
        assert!(seen[6].0 < 600 && seen[9..].iter().all(|s| s.0 >= 800), "{seen:?}");
        assert!(seen[10..].iter().all(|s| s.1 + s.2 == 0), "{seen:?}");
        let report = pool.heat();
        assert_eq!(report.intervals, 12);
        assert_eq!(report.placed.promoted, seen.iter().map(|s| s.1).sum::<u64>());
        assert_eq!(report.placed.bytes, (report.placed.promoted + report.placed.demoted) * PAGE);
        assert_eq!(report.decisions[0].reason, Reason::Settled);
        assert!(report.classes[0].hottest > report.classes[1].hottest);
        for i in 0..PAGES as usize {
            assert_eq!(values(&v, i * PER_PAGE, PER_PAGE).await, vec![i as u32; PER_PAGE], "page {i}");
        }
        audit(&pool).await;
    });
}

/// New pages go up while there is room for them; rebalancing leaves classes alone; what is shared stays
/// shared when it moves.
#[test]
fn new_pages_begin_in_the_fast_class_and_leave_a_tenth_of_it() {
    let rig = Rig::new(2, setup());
    rig.model.run(async |world| {
        let groups = new_groups(&world, &rig.setup).await;
        let spec = PoolSpec { page_bytes: PAGE, ..PoolSpec::new("p") };
        let pool = Pool::create(world.clone(), spec, groups.clone()).await.expect("create");
        pool.set_class(groups[1].id(), Class::Fast).expect("it is in the pool");
        assert_eq!(pool.classes(), [Class::Fast, Class::Capacity]);
        let v = pool.create_volume("v", PAGES * PAGE, Provisioning::Thin).await.expect("create");
        let used = || pool.group_spaces().iter().map(|g| g.used_bytes / PAGE).collect::<Vec<_>>();
        let all = pool.group_spaces()[1].total_bytes / PAGE;
        let mut written = 0;
        while used()[0] + used()[2] == 0 {
            v.write(written * PAGE, &encode(std::iter::once(1))).await.expect("write");
            written += 1;
        }
        assert!((all * 9 / 10..=all * 9 / 10 + 17).contains(&used()[1]), "{:?} of {all}", used());
        let before = used();
        pool.rebalance(go).await.expect("rebalance");
        assert_eq!(used()[1], before[1], "that is another class");
        // A clone is read: what it shares comes up as one.
        pool.clone_volume("v", "c").await.expect("clone");
        for i in 0..100 {
            v.write((200 + i) * PAGE, &encode(std::iter::once(1))).await.expect("write");
        }
        let total = pool.space().used_bytes;
        pool.place(go).await.expect("place");
        let c = pool.volume("c").expect("there");
        for _ in 0..100 {
            c.read((written - 1) * PAGE, 4096, &mut Pieces::new()).await.expect("read");
        }
        let placed = pool.place(go).await.expect("place");
        assert_eq!((placed.promoted, pool.space().used_bytes), (1, total));
        audit(&pool).await;
    });
}

/// One at a time, it stops when it is told to, and a group that leaves is no place to go to.
#[test]
fn placement_gives_way_to_others() {
    let rig = Rig::new(3, Setup { disk_len: 24 << 20, ..setup() });
    rig.model.run(async |world| {
        let groups = new_groups(&world, &rig.setup).await;
        let (pool, v) = pool_with_data(&world, groups.clone()).await;
        let mut rng = Rng::with_seed(5);
        skewed(&v, &mut rng, 4000, 3).await;
        let stop = async |_: u64| ControlFlow::Break(());
        let placed = pool.place(stop).await.expect("place");
        assert!(placed.promoted + placed.demoted <= 4, "one step: {placed:?}");
        skewed(&v, &mut rng, 4000, 3).await;
        let busy = async |_: u64| {
            assert!(matches!(pool.place(go).await, Err(PoolError::Busy { .. })));
            ControlFlow::Break(())
        };
        pool.evacuate(groups[0].id(), busy).await.expect("evacuate");
        skewed(&v, &mut rng, 4000, 3).await;
        assert_eq!(pool.place(go).await.expect("place").bytes, 0, "its only fast group is being left");
        assert_eq!(pool.heat().classes.len(), 1);
        audit(&pool).await;
    });
}

/// A power cut at any point of placement: every page is in one place or the other, whole.
#[test]
fn a_power_cut_while_pages_move_loses_nothing() {
    let mut cuts = 0;
    for cut in (1..).step_by(7) {
        let rig = Rig::with_jitter(cut, setup(), Duration::from_micros(50));
        let outcome = rig.model.run_until_crash(async |world| {
            let (pool, v) = pool_with_data(&world, new_groups(&world, &rig.setup).await).await;
            skewed(&v, &mut Rng::with_seed(3), 4000, 3).await;
            v.flush().await.expect("flush");
            let disks = rig.model.disks();
            disks.cut_power_after(disks.persistence_points() + cut);
            for _ in 0..2 {
                pool.place(go).await.expect("place");
            }
        });
        if outcome != Outcome::PowerCut {
            break;
        }
        cuts += 1;
        rig.model.reboot();
        rig.model.run(async |world| {
            let groups = open_groups(&world, &rig.setup).await.expect("open groups");
            look(&groups).await;
            let pool = Pool::open(world.clone(), groups).await.expect("open");
            let v = pool.volume("v").expect("there");
            for i in 0..PAGES as usize {
                let found = values(&v, i * PER_PAGE, PER_PAGE).await;
                assert_eq!(found, vec![i as u32; PER_PAGE], "page {i} after cut {cut}");
            }
            audit(&pool).await;
        });
    }
    assert!(cuts >= 6, "only {cuts} cuts");
}
