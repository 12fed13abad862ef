//! Space: full pools, thresholds, sizes, names, records, restarts.

use block::{BlockError, Buf, Device, Pieces};
use raid::Level;

use super::rig::{PAGE, Rig, Setup, audit, create, open, open_groups};
use crate::{Pool, PoolError, PoolEvent, PoolSpec, Provisioning, Threshold};

fn filled(byte: u8, len: u64) -> Pieces {
    let mut buf = Buf::new(len as usize);
    buf.fill(byte);
    buf.freeze().into()
}

async fn byte(device: &impl Device, at: u64) -> u8 {
    let mut out = Pieces::new();
    device.read(at, 512, &mut out).await.expect("read");
    let data = out.joined();
    assert!(data.iter().all(|b| *b == data[0]), "a mixture at {at}");
    data[0]
}

#[test]
fn a_full_pool_refuses_what_needs_a_page_and_nothing_else() {
    let rig = Rig::new(1, Setup::mirror());
    rig.model.run(async |world| {
        let pool = create(&world, &rig.setup).await;
        let pages = pool.space().total_bytes / PAGE;
        let v = pool.create_volume("v", 4 * pages * PAGE, Provisioning::Thin).await.expect("over-committed");
        for i in 0..pages {
            v.write(i * PAGE, &filled(i as u8, PAGE)).await.expect("write");
        }
        assert_eq!(pool.space().free_bytes, 0);
        let full = BlockError::NoSpace { pool: "p".into() };
        assert_eq!(v.write(pages * PAGE, &filled(1, 512)).await, Err(full.clone()));
        assert!(matches!(pool.next_event().await, PoolEvent::ThresholdCrossed { percent: 80, .. }));
        let critical = pool.next_event().await;
        let level = Threshold::Critical;
        assert!(matches!(critical, PoolEvent::ThresholdCrossed { level: l, percent: 95, .. } if l == level));
        assert_eq!(pool.next_event().await, PoolEvent::Full);
        let thick = pool.create_volume("t", PAGE, Provisioning::Thick).await;
        assert_eq!(thick.err(), Some(PoolError::Block(full.clone())));
        assert!(pool.volume("t").is_none());
        // What is there can be overwritten, and one page that is given back is one page to take, at once.
        v.write(PAGE, &filled(99, PAGE)).await.expect("in place");
        assert_eq!(v.unmap(7 * PAGE, PAGE).await, Ok(PAGE));
        v.write(pages * PAGE, &filled(55, 512)).await.expect("the page that was given back");
        assert_eq!(v.write((pages + 1) * PAGE, &filled(1, 512)).await, Err(full.clone()));
        for i in 0..pages {
            let expected = [(1, 99), (7, 0)].iter().find(|e| e.0 == i).map_or(i as u8, |e| e.1);
            assert_eq!(byte(&v, i * PAGE + 1024).await, expected);
        }
        assert_eq!((byte(&v, pages * PAGE).await, byte(&v, pages * PAGE + 512).await), (55, 0));
        // A clone shares all; the first write to either needs a page that is not there.
        let clone = pool.clone_volume("v", "c").await.expect("clone");
        assert_eq!(clone.write(0, &filled(1, 512)).await, Err(full));
        assert_eq!(clone.space().exclusive_bytes, 0);
        pool.delete_volume("c").await.expect("delete");
        v.write(0, &filled(1, 512)).await.expect("in place again");
        assert!(clone.write(0, &filled(1, 512)).await.is_err());
        audit(&pool).await;
    });
}

#[test]
fn the_threshold_is_told_once_until_it_was_left() {
    let rig = Rig::new(2, Setup::mirror());
    rig.model.run(async |world| {
        let pool = create(&world, &rig.setup).await;
        pool.set_thresholds(50, 90).await.expect("set");
        let pages = pool.space().total_bytes / PAGE;
        let v = pool.create_volume("v", pages * PAGE, Provisioning::Thin).await.expect("create");
        let half = pages.div_ceil(2);
        v.write(0, &filled(1, (half - 1) * PAGE)).await.expect("write");
        assert_eq!(pool.0.events.try_next(), None);
        for _ in 0..3 {
            v.write((half - 1) * PAGE, &filled(1, 512)).await.expect("write");
            v.unmap((half - 1) * PAGE, PAGE).await.expect("unmap");
        }
        assert!(matches!(pool.next_event().await, PoolEvent::ThresholdCrossed { percent: 50, .. }));
        assert_eq!(pool.0.events.try_next(), None, "up and down around the threshold is one crossing");
        v.unmap(0, half / 2 * PAGE).await.expect("unmap");
        v.write(0, &filled(1, half * PAGE)).await.expect("write");
        assert!(matches!(pool.next_event().await, PoolEvent::ThresholdCrossed { .. }));
    });
}

#[test]
fn names_sizes_and_records_survive_a_restart() {
    for setup in [Setup::mirror(), Setup { groups: 2, ..Setup::stripes() }] {
        let rig = Rig::new(3, setup);
        rig.model.run(async |world| {
            let pool = create(&world, &setup).await;
            let a = pool.create_volume("a", 1 << 20, Provisioning::Thin).await.expect("create");
            a.write(PAGE, &filled(5, PAGE)).await.expect("write");
            pool.clone_volume("a", "b").await.expect("clone");
            a.write(PAGE, &filled(6, 512)).await.expect("write");
            pool.create_volume("gone", 1 << 20, Provisioning::Thick).await.expect("create");
            pool.volume("gone").expect("there").save_record("pr", b"x").await.expect("save");
            a.save_record("pr", &[9; 60_000]).await.expect("save");
            pool.save_record("note", b"one").await.expect("save");
            pool.save_record("note", b"two").await.expect("save");
            pool.delete_volume("gone").await.expect("delete");
            pool.grow_volume("a", 3 << 20).await.expect("grow");
            pool.set_thresholds(33, 44).await.expect("set");
            assert!(matches!(pool.grow_volume("a", 512).await, Err(PoolError::Volume { .. })));
            let taken = pool.create_volume("a", 512, Provisioning::Thin).await;
            assert!(matches!(taken, Err(PoolError::NameTaken { .. })));
            assert!(matches!(
                pool.create_volume("", 512, Provisioning::Thin).await,
                Err(PoolError::Volume { .. })
            ));
            assert!(matches!(
                pool.create_volume("x", 100, Provisioning::Thin).await,
                Err(PoolError::Volume { .. })
            ));
            assert!(matches!(pool.clone_volume("x", "y").await, Err(PoolError::NoVolume { .. })));
        });
        for _ in 0..3 {
            rig.model.run(async |world| {
                let pool = open(&world, &setup).await.expect("open");
                let names: Vec<String> = pool.volumes().iter().map(|v| v.name().to_owned()).collect();
                assert_eq!(names, ["a", "b"]);
                let (a, b) = (pool.volume("a").expect("there"), pool.volume("b").expect("there"));
                assert_eq!((a.geometry().len_bytes, b.geometry().len_bytes), (3 << 20, 1 << 20));
                let content = (
                    byte(&a, PAGE).await,
                    byte(&a, PAGE + 512).await,
                    byte(&b, PAGE).await,
                    byte(&a, 0).await,
                );
                assert_eq!(content, (6, 5, 5, 0));
                assert_eq!(a.load_record("pr"), Some(vec![9; 60_000]));
                assert_eq!(pool.load_record("note"), Some(b"two".to_vec()));
                let space = pool.space();
                assert_eq!((space.soft_threshold_percent, space.critical_threshold_percent), (33, 44));
                audit(&pool).await;
            });
        }
    }
}

#[test]
fn what_was_on_a_page_before_is_never_seen_again() {
    let rig = Rig::new(4, Setup { disk_len: 8 << 20, ..Setup::mirror() });
    rig.model.run(async |world| {
        let pool = create(&world, &rig.setup).await;
        let pages = pool.space().total_bytes / PAGE;
        let v = pool.create_volume("v", pages * PAGE, Provisioning::Thin).await.expect("create");
        v.write(0, &filled(0xee, pages * PAGE)).await.expect("write");
        pool.close().await.expect("close");
    });
    rig.model.run(async |world| {
        let pool = open(&world, &rig.setup).await.expect("open");
        let pages = pool.space().total_bytes / PAGE;
        pool.delete_volume("v").await.expect("delete");
        let w = pool.create_volume("w", pages / 2 * PAGE, Provisioning::Thin).await.expect("create");
        for i in 0..pages / 2 {
            w.write(i * PAGE + 512 * (i % 100), &filled(1, 512)).await.expect("write");
        }
        let mut out = Pieces::new();
        w.read(0, (pages / 2 * PAGE) as usize, &mut out).await.expect("read");
        assert!(out.iter().all(|data| !data.contains(&0xee)));
        let t =
            pool.create_volume("t", (pages - pages / 2) * PAGE, Provisioning::Thick).await.expect("create");
        for i in 0..pages - pages / 2 {
            assert_eq!(byte(&t, i * PAGE + 1024).await, 0);
        }
    });
}

#[test]
fn sets_of_groups_that_are_no_pool_are_refused_by_name() {
    let setup = Setup { groups: 4, ..Setup::new(Level::Raid0, 1) };
    let rig = Rig::new(5, setup);
    rig.model.run(async |world| {
        let groups = super::rig::new_groups(&world, &setup).await;
        let spec = |name| PoolSpec { page_bytes: PAGE, ..PoolSpec::new(name) };
        Pool::create(world.clone(), spec("one"), groups[..2].to_vec()).await.expect("create");
        Pool::create(world.clone(), spec("two"), groups[2..3].to_vec()).await.expect("create");
        let again =
            Pool::create(world.clone(), spec("three"), groups[1..2].to_vec()).await.err().expect("in use");
        assert!(again.to_string().contains("group g1 already belongs to pool one"), "{again}");
    });
    rig.model.run(async |world| {
        let groups = open_groups(&world, &setup).await.expect("open groups");
        let check = async |which: &[usize], words: &[&str]| {
            let chosen = which.iter().map(|i| groups[*i].clone()).collect();
            let text = Pool::open(world.clone(), chosen).await.err().expect("refused").to_string();
            words.iter().for_each(|w| assert!(text.contains(w), "{text:?} lacks {w:?}"));
        };
        check(&[0], &["pool one", "group 1 of 2 is missing"]).await;
        check(&[1], &["pool one", "group 0 of 2 is missing"]).await;
        check(&[3], &["group g3 holds no pool"]).await;
        check(&[0, 3], &["group g3 belongs to no pool, not to pool one"]).await;
        check(&[0, 1, 2], &["belongs to pool"]).await;
        Pool::open(world.clone(), vec![groups[1].clone(), groups[0].clone()]).await.expect("any order");
    });
}

#[test]
fn a_drive_that_fails_below_the_metadata_poisons_the_pool_for_ever() {
    let rig = Rig::new(6, Setup::stripes());
    rig.model.run(async |world| {
        let pool = create(&world, &rig.setup).await;
        let v = pool.create_volume("v", 1 << 20, Provisioning::Thin).await.expect("create");
        rig.disks[0].kill();
        assert!(pool.save_record("a", b"b").await.is_err());
        rig.disks[0].resume();
        assert!(matches!(v.write(0, &filled(1, 512)).await, Err(BlockError::Poisoned { .. })));
        assert!(matches!(v.flush().await, Err(BlockError::Poisoned { .. })));
        assert!(pool.create_volume("w", 512, Provisioning::Thin).await.is_err());
    });
}
