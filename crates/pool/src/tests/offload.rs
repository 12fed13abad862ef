//! What offloads cost, and what they must not: drive I/O.

use block::{Buf, Device, Pieces};
use world::DriveCounts;

use super::rig::{PAGE, Rig, Setup, audit, create};
use crate::{Copied, Extent, Pool, Provisioning};

fn counts(pool: &Pool) -> Vec<DriveCounts> {
    pool.groups().iter().flat_map(|g| g.drives()).map(|d| d.counts()).collect()
}

fn pattern(len: usize, salt: u8) -> Pieces {
    let mut buf = Buf::new(len);
    buf.chunks_mut(512).enumerate().for_each(|(i, sector)| sector.fill(i as u8 ^ salt));
    buf.freeze().into()
}

async fn read(device: &impl Device, at: u64, len: usize) -> Vec<u8> {
    let mut out = Pieces::new();
    device.read(at, len, &mut out).await.expect("read");
    out.joined().to_vec()
}

#[test]
fn zeroing_and_copying_within_a_pool_is_no_drive_io_until_the_commit() {
    let rig = Rig::new(1, Setup::mirror());
    rig.model.run(async |world| {
        let pool = create(&world, &rig.setup).await;
        let a = pool.create_volume("a", 8 << 20, Provisioning::Thin).await.expect("create");
        let b = pool.create_volume("b", 8 << 20, Provisioning::Thin).await.expect("create");
        a.write(0, &pattern(4 << 20, 1)).await.expect("write");
        a.flush().await.expect("flush");
        let before = counts(&pool);
        let copied = b.share_or_copy(&a, 0, 0, 4 << 20).await.expect("copy");
        assert_eq!(copied, Copied { shared_bytes: 4 << 20, moved_bytes: 0 });
        for at in (0..8 << 20).step_by(1 << 20) {
            a.zero(at, 1 << 20).await.expect("zero");
        }
        assert_eq!(counts(&pool), before, "only the maps have changed");
        a.flush().await.expect("flush");
        let after = counts(&pool);
        assert_eq!(after[0].writes - before[0].writes, 1, "one frame of the journal");
        assert_eq!(after[0].write_bytes - before[0].write_bytes, 4096);
        assert_eq!(after[0].reads, before[0].reads);
        assert_eq!(read(&b, 0, 4 << 20).await, pattern(4 << 20, 1).joined().to_vec());
        assert_eq!(read(&a, 0, 4 << 20).await, vec![0; 4 << 20]);
        assert_eq!(a.used_bytes(), 0);
        audit(&pool).await;
    });
}

#[test]
fn copies_are_right_whatever_the_alignment_and_between_pools() {
    let rig = Rig::new(2, Setup { groups: 2, ..Setup::stripes() });
    rig.model.run(async |world| {
        let mut pools = Vec::new();
        for (i, group) in super::rig::new_groups(&world, &rig.setup).await.into_iter().enumerate() {
            let spec = crate::PoolSpec { page_bytes: PAGE << i, ..crate::PoolSpec::new(&format!("p{i}")) };
            pools.push(Pool::create(world.clone(), spec, vec![group]).await.expect("create"));
        }
        let a = pools[0].create_volume("a", 2 << 20, Provisioning::Thin).await.expect("create");
        let b = pools[0].create_volume("b", 2 << 20, Provisioning::Thin).await.expect("create");
        let c = pools[1].create_volume("c", 2 << 20, Provisioning::Thick).await.expect("create");
        a.write(PAGE, &pattern(9 * PAGE as usize, 1)).await.expect("write");
        let source = read(&a, 0, 2 << 20).await;
        let mut rng = world.random("copies");
        for step in 0..60 {
            let to = [&b, &c, &a][step % 3];
            to.write(0, &pattern(2 << 20, 7)).await.expect("write");
            if step % 3 == 2 {
                a.write(0, &Buf::copy_of(&source).freeze().into()).await.expect("write");
            }
            let len = 512 * rng.u64(1..2048);
            let at = 512 * rng.u64(..=(2 << 20) / 512 - len / 512);
            let from = match step % 2 {
                0 => 512 * rng.u64(..=(2 << 20) / 512 - len / 512),
                _ => at,
            };
            let mut expected = read(to, 0, 2 << 20).await;
            let copied = if step % 4 == 0 {
                let rod = a.hold(from, len).await.expect("hold");
                a.write(from, &pattern(512, 9)).await.expect("write after the hold");
                expected = read(to, 0, 2 << 20).await;
                let skip = 512 * rng.u64(..len / 512);
                let copied = to.copy_from_rod(&rod, skip, at + skip, len - skip).await.expect("copy");
                let (i, n) = ((at + skip) as usize, (len - skip) as usize);
                expected[i..i + n].copy_from_slice(&source[(from + skip) as usize..][..n]);
                assert_eq!(copied.shared_bytes + copied.moved_bytes, len - skip);
                copied
            } else {
                let copied = to.share_or_copy(&a, from, at, len).await.expect("copy");
                expected[at as usize..(at + len) as usize]
                    .copy_from_slice(&source[from as usize..][..len as usize]);
                assert_eq!(copied.shared_bytes + copied.moved_bytes, len);
                copied
            };
            assert!(read(to, 0, 2 << 20).await == expected, "step {step}: {len} bytes from {from} to {at}");
            if step % 3 == 1 {
                assert_eq!(copied.shared_bytes, 0, "another pool cannot share");
            }
            a.write(0, &Buf::copy_of(&source).freeze().into()).await.expect("write");
        }
        for pool in &pools {
            audit(pool).await;
        }
    });
}

#[test]
fn extents_tell_what_is_mapped() {
    let rig = Rig::new(3, Setup::mirror());
    rig.model.run(async |world| {
        let pool = create(&world, &rig.setup).await;
        let v = pool.create_volume("v", 10 * PAGE + 512, Provisioning::Thin).await.expect("create");
        v.write(3 * PAGE + 1024, &pattern(2 * PAGE as usize, 1)).await.expect("write");
        let check = |at, len_bytes, mapped| assert_eq!(v.extent(at), Extent { len_bytes, mapped }, "at {at}");
        check(0, 3 * PAGE, false);
        check(512, 3 * PAGE - 512, false);
        check(4 * PAGE, 2 * PAGE, true);
        check(6 * PAGE, 4 * PAGE + 512, false);
        assert_eq!(v.unmap(3 * PAGE + 512, 3 * PAGE).await.expect("unmap"), 2 * PAGE);
        check(0, 3 * PAGE, false);
        check(3 * PAGE, PAGE, true);
        assert_eq!(read(&v, 3 * PAGE, PAGE as usize).await, vec![0; PAGE as usize]);
        assert_eq!(v.unmap(0, 10 * PAGE + 512).await.expect("unmap"), PAGE);
        check(0, 10 * PAGE + 512, false);
        audit(&pool).await;
    });
}

/// One host filled the pool: it took tokens, and wrote the ranges again. Writes of others failed until the
/// tokens timed out.
#[test]
fn a_rod_gives_way_to_a_write_that_would_find_no_page() {
    let rig = Rig::new(78, Setup::stripes());
    rig.model.run(async |world| {
        let pool = create(&world, &rig.setup).await;
        let total = pool.space().total_bytes;
        let a = pool.create_volume("a", total, Provisioning::Thin).await.expect("create");
        let b = pool.create_volume("b", total, Provisioning::Thin).await.expect("create");
        let (len, few) = (total / PAGE / 3 * PAGE, 4 * PAGE);
        a.write(0, &pattern(len as usize, 1)).await.expect("write");
        let old = a.hold(0, len).await.expect("hold");
        a.write(0, &pattern(len as usize, 2)).await.expect("write again");
        let new = a.hold(0, few).await.expect("hold");
        a.write(0, &pattern(few as usize, 3)).await.expect("write again");
        // What is left, and more: the older one goes, and the newer one stays.
        b.write(0, &pattern(len as usize, 4)).await.expect("another volume has room");
        b.write(len, &pattern(few as usize, 4)).await.expect("another volume has room");
        assert!(old.is_discarded() && !new.is_discarded());
        let mut out = Pieces::new();
        assert!(old.read(0, 512, &mut out).await.is_err(), "no zeros are read from it");
        assert!(b.copy_from_rod(&old, 0, 2 * len, PAGE).await.is_err());
        assert!(b.copy_from_rod(&old, 512, 2 * len, 512).await.is_err());
        new.read(0, few as usize, &mut out).await.expect("it is whole");
        assert_eq!(out.first_difference(&pattern(few as usize, 2)), None);
        assert_eq!(read(&b, 0, few as usize).await, read(&b, len, few as usize).await);
        drop((old, new));
        audit(&pool).await;
    });
}

/// It gave way in the middle of the command that used it, and nobody could see what tokens held.
#[test]
fn a_rod_in_use_stays_and_what_only_rods_hold_is_counted() {
    let rig = Rig::new(79, Setup::stripes());
    rig.model.run(async |world| {
        let pool = create(&world, &rig.setup).await;
        let total = pool.space().total_bytes;
        let a = pool.create_volume("a", total, Provisioning::Thin).await.expect("create");
        let b = pool.create_volume("b", total, Provisioning::Thin).await.expect("create");
        let len = total / PAGE / 3 * PAGE;
        let held = || pool.space().held_bytes;
        a.write(0, &pattern(len as usize, 1)).await.expect("write");
        let used = a.hold(0, len).await.expect("hold");
        let again = a.hold(0, PAGE).await.expect("hold");
        assert_eq!(held(), 0, "the volume has them, too");
        a.write(0, &pattern(PAGE as usize, 2)).await.expect("write again");
        assert_eq!(held(), PAGE, "once, whoever holds it");
        a.unmap(0, len).await.expect("unmapped");
        assert_eq!(held(), len);
        drop(again);
        assert_eq!(held(), len);
        a.copy_from_rod(&used, 0, 0, PAGE).await.expect("shared again");
        assert_eq!(held(), len - PAGE);
        pool.delete_volume("a").await.expect("deleted");
        assert_eq!(held(), len);
        used.keep(true);
        let full = b.write(0, &pattern((total - len + PAGE) as usize, 3)).await;
        assert!(full.is_err() && !used.is_discarded() && held() == len);
        used.keep(false);
        b.write(0, &pattern((total - len + PAGE) as usize, 3)).await.expect("it gives way now");
        assert!(used.is_discarded() && held() == 0);
        drop(used);
        audit(&pool).await;
    });
}
