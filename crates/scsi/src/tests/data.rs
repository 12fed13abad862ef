//! Commands that move, compare, zero and give back blocks.

use block::BlockError;
use lu::LogicalDisk;
use world_model::Model;

use super::*;
use crate::limits::COMPARE_AND_WRITE_BLOCKS_MAX;

#[test]
fn every_form_of_read_and_write_addresses_the_same_blocks() {
    bench(async |b| {
        let host = b.host(1).await;
        let data = pattern(1, 2);
        for (write, read) in [
            ("0a 000010 02 00", "08 000010 02 00"),
            ("2a 18 00000010 00 0002 00", "28 18 00000010 00 0002 00"),
            ("aa 08 00000010 00000002 00 00", "a8 10 00000010 00000002 00 00"),
            ("8a 00 0000000000000010 00000002 00 00", "88 00 0000000000000010 00000002 00 00"),
            ("2e 02 00000010 00 0002 00", "28 00 00000010 00 0002 00"),
            ("ae 00 00000010 00000002 00 00", "28 00 00000010 00 0002 00"),
            ("8e 02 0000000000000010 00000002 00 00", "28 00 00000010 00 0002 00"),
            ("9c 00 0000000000000010 0000 0002 00 00", "28 00 00000010 00 0002 00"),
            ("8b 00 0000000000000010 00000002 00 00", "28 00 00000010 00 0002 00"),
        ] {
            check(&host, write, &data, "good").await;
            assert_eq!(check(&host, read, &[], "good").await, data, "{write}");
            check(&host, "42 00 0000000000 0018 00", &unmap_list(&[(0, 128)]), "good").await;
        }
        assert_eq!(
            check(&host, "08 000000 00 00", &[], "good").await.len(),
            256 * BLOCK,
            "READ(6) of 0 is 256"
        );
    });
}

fn unmap_list(ranges: &[(u64, u32)]) -> Vec<u8> {
    let len = ranges.len() as u16 * 16;
    let mut list = [(len + 6).to_be_bytes(), len.to_be_bytes(), [0; 2], [0; 2]].concat();
    for (lba, blocks) in ranges {
        list.extend(lba.to_be_bytes());
        list.extend(blocks.to_be_bytes());
        list.extend([0; 4]);
    }
    list
}

#[test]
fn ranges_past_the_end_are_refused_and_no_blocks_are_fine() {
    bench(async |b| {
        let host = b.host(1).await;
        for (opcode, data) in
            [("88", 0), ("8a", BLOCK), ("8e", BLOCK), ("8f", 0), ("93", BLOCK), ("8b", BLOCK), ("90", 0)]
        {
            let data = vec![0; data];
            for lba in [
                "0000000000010000",
                "0000000000010001",
                "7fffffffffffffff",
                "8000000000000000",
                "ffffffffffffffff",
            ] {
                check(&host, &format!("{opcode} 00 {lba} 00000001 00 00"), &data, "5/2100").await;
            }
            check(&host, &format!("{opcode} 00 0000000000010001 00000000 00 00"), &[], "5/2100").await;
            check(&host, &format!("{opcode} 00 ffffffffffffffff 00000000 00 00"), &[], "5/2100").await;
        }
        for opcode in ["88", "8a", "8e", "8f", "8b", "90", "91"] {
            check(&host, &format!("{opcode} 00 0000000000000000 00000000 00 00"), &[], "good").await;
        }
        check(&host, "9c 00 000000000000ff00 0000 0200 00 00", &[0; 512 * 512], "5/2100").await;
        check(&host, "28 20 00000000 00 0001 00", &[], "5/2400 cdb 1.5").await;
        check(&host, "8a e0 0000000000000000 00000001 00 00", &[0; 512], "5/2400 cdb 1.7").await;
        check(&host, "28 00 00000000 00 0001 04", &[], "5/2400 cdb 9.2").await;
        check(&host, "88 00 0000000000000000 00010001 00 00", &[], "5/2100").await;
        check(&host, "ff", &[], "5/2000 cdb 0").await;
        check(&host, "9e 1f", &[], "5/2400 cdb 1.4").await;
    });
}

#[test]
fn what_the_host_did_not_send_is_not_written() {
    bench(async |b| {
        let host = b.host(1).await;
        check(&host, "2a 00 00000000 00 0002 00", &pattern(3, 1), "good").await;
        let read = check(&host, "28 00 00000000 00 0002 00", &[], "good").await;
        assert_eq!((read[0], read[BLOCK]), (3, 0));
        check(&host, "2a 00 00000000 00 0001 00", &[], "good").await;
        check(&host, "2a 00 00000000 00 0001 00", &[9; 200], "5/0e03").await;
        check(&host, "2a 00 00000000 00 0001 00", &pattern(5, 3), "good").await;
        let read = check(&host, "28 00 00000000 00 0002 00", &[], "good").await;
        assert_eq!((read[0], read[BLOCK]), (5, 0), "more data than blocks");
    });
}

#[test]
fn verify_finds_the_first_difference() {
    bench(async |b| {
        let host = b.host(1).await;
        let mut data = pattern(1, 4);
        check(&host, "2a 00 00000000 00 0004 00", &data, "good").await;
        check(&host, "2f 00 00000000 00 0004 00", &[], "good").await;
        check(&host, "2f 02 00000000 00 0004 00", &data, "good").await;
        data[3 * BLOCK + 5] ^= 1;
        check(&host, "2f 02 00000000 00 0004 00", &data, "e/1d00 info 1541").await;
        check(&host, "af 06 00000000 00000004 00 00", &data[..BLOCK], "e/1d00 info 0").await;
        check(&host, "8f 06 0000000000000008 00000800 00 00", &[0; BLOCK], "good").await;
        check(&host, "2f 04 00000000 00 0004 00", &data, "5/2400 cdb 1.2").await;
        check(&host, "2f 02 00000000 00 0004 00", &data[..BLOCK], "5/0e03").await;
    });
}

#[test]
fn compare_and_write_writes_all_or_tells_where_it_differs() {
    bench(async |b| {
        let host = b.host(1).await;
        let (zeros, one, two) = (vec![0; 2 * BLOCK], pattern(1, 2), pattern(7, 2));
        let cdb = "89 00 0000000000000005 000000 02 00 00";
        check(&host, cdb, &[&zeros[..], &one].concat(), "good").await;
        check(&host, cdb, &[&zeros[..], &two].concat(), "e/1d00 info 0").await;
        let mut almost = one.clone();
        almost[700] ^= 0x80;
        check(&host, cdb, &[&almost[..], &two].concat(), "e/1d00 info 700").await;
        assert_eq!(check(&host, "28 00 00000005 00 0002 00", &[], "good").await, one);
        let flushes = b.disk.flushes();
        check(&host, "89 08 0000000000000005 000000 02 00 00", &[&one[..], &two].concat(), "good").await;
        assert_eq!(b.disk.flushes(), flushes + 1, "FUA");
        let counters = b.lu.counters();
        assert_eq!((counters.compare_misses, counters.commands[crate::OpClass::Compare as usize]), (2, 2));

        let max = COMPARE_AND_WRITE_BLOCKS_MAX as usize;
        check(&host, "89 00 0000000000000100 000000 80 00 00", &vec![0; 2 * max * BLOCK], "good").await;
        check(
            &host,
            "89 00 0000000000000100 000000 81 00 00",
            &vec![0; 2 * (max + 1) * BLOCK],
            "5/2400 cdb 13",
        )
        .await;
        check(&host, "89 00 0000000000000100 000000 00 00 00", &vec![0; 512 * BLOCK], "5/2400 cdb 13").await;
        check(&host, "89 00 0000000000000100 000000 00 00 00", &[], "good").await;
        check(&host, "89 00 000000000000ffff 000000 02 00 00", &vec![0; 4 * BLOCK], "5/2100").await;
        check(&host, cdb, &[0; BLOCK], "5/0e03").await;
        check(&host, cdb, &[0; 6 * BLOCK], "5/0e03").await;
    });
}

/// Two hosts count up the same block by COMPARE AND WRITE: no step is lost, and readers never see a
/// half-written block.
#[test]
fn compare_and_write_is_atomic_between_hosts() {
    async fn count_up(host: View<ThinMemory>, steps: u32, done: Rc<std::cell::Cell<u32>>) {
        let mut old = vec![0u8; 2 * BLOCK];
        for _ in 0..steps {
            loop {
                let number = u32::from_be_bytes(old[..4].try_into().expect("four")) + 1;
                let new: Vec<u8> = number.to_be_bytes().repeat(2 * BLOCK / 4);
                let swap = request("89 00 0000000000000009 000000 02 00 00", &[&old[..], &new].concat());
                if send(&host, 0, swap).await.0 == "good" {
                    old = new;
                    break;
                }
                old = check(&host, "28 00 00000009 00 0002 00", &[], "good").await;
                assert!(old.chunks(4).all(|c| c == &old[..4]), "a torn read");
            }
        }
        done.set(done.get() + 1);
    }
    for seed in 0..20 {
        Model::new(seed).run(async |world| {
            let b = Bench::on(world, ThinMemory::new(1 << 20, BLOCK as u32, PAGE));
            let done = Rc::new(std::cell::Cell::new(0));
            for n in 1..=4 {
                let host = b.host(n).await;
                b.world.spawn(count_up(host, 25, done.clone()));
            }
            while done.get() < 4 {
                b.world.sleep(std::time::Duration::from_millis(1)).await;
            }
            let host = b.host(9).await;
            let block = check(&host, "28 00 00000009 00 0001 00", &[], "good").await;
            assert_eq!(block[..4], 100u32.to_be_bytes(), "seed {seed}");
            assert_eq!(b.lu.locks.in_use(), 0);
        });
    }
}

#[test]
fn write_same_zeroes_for_nothing_and_writes_patterns() {
    bench(async |b| {
        let host = b.host(1).await;
        check(&host, "2a 00 00000000 00 0100 00", &pattern(1, 256), "good").await;
        assert_eq!(b.disk.pages_used(), 2);
        check(&host, "41 00 00000000 00 0080 00", &[0; BLOCK], "good").await;
        assert_eq!(b.disk.pages_used(), 1, "zeros release the page");
        check(&host, "93 09 0000000000000080 00000080 00 00", &[], "good").await;
        assert_eq!(b.disk.pages_used(), 0, "UNMAP with NDOB");
        let counters = b.lu.counters();
        assert_eq!((counters.zeroed_bytes, counters.reclaimed_bytes), (2 * PAGE, PAGE));
        check(&host, "93 08 0000000000000007 00001001 00 00", &pattern(9, 1), "good").await;
        let read = check(&host, "28 00 00000006 00 1003 00", &[], "good").await;
        let nines = read.iter().position(|&x| x != 9 && x != 0).map_or(0, |_| 1);
        assert_eq!(
            (nines, read[0], read[BLOCK], read[0x1001 * BLOCK], read[0x1002 * BLOCK]),
            (0, 0, 9, 9, 0)
        );
        // To the end of the disk; not more and not less than one block of data; no anchor.
        check(&host, "93 01 0000000000000001 00000000 00 00", &[], "good").await;
        assert_eq!(b.disk.pages_used(), 1, "the page of block 0 stays");
        check(&host, "93 00 0000000000000000 00000001 00 00", &[0; 1024], "5/0e03").await;
        check(&host, "93 00 0000000000000000 00000001 00 00", &[0; 256], "5/0e03").await;
        check(&host, "93 18 0000000000000000 00000001 00 00", &[0; BLOCK], "5/2400 cdb 1.4").await;
        check(&host, "41 10 00000000 00 0001 00", &[0; BLOCK], "5/2400 cdb 1.4").await;
        check(&host, "41 01 00000000 00 0001 00", &[0; BLOCK], "5/2400 cdb 1.0").await;
    });
    Model::new(1).run(async |world| {
        let b = Bench::on(world, ThinMemory::new(16 << 30, BLOCK as u32, PAGE));
        let host = b.host(1).await;
        check(&host, "93 01 0000000000000000 00800000 00 00", &[], "good").await;
        check(&host, "93 01 0000000000000000 00800001 00 00", &[], "5/2400 cdb 10").await;
        check(&host, "93 01 0000000000000000 00000000 00 00", &[], "5/2400 cdb 10").await;
        // UNMAP: at most 1,048,576 blocks over all descriptors.
        check(&host, "42 00 0000000000 0028 00", &unmap_list(&[(0, 1 << 19), (1 << 20, 1 << 19)]), "good")
            .await;
        check(
            &host,
            "42 00 0000000000 0028 00",
            &unmap_list(&[(0, 1 << 20), (1 << 21, 1)]),
            "5/2600 list 32",
        )
        .await;
    });
}

#[test]
fn unmap_checks_the_whole_list_first() {
    bench(async |b| {
        let host = b.host(1).await;
        check(&host, "2a 00 00000000 00 0100 00", &pattern(1, 256), "good").await;
        check(&host, "42 00 0000000000 0028 00", &unmap_list(&[(0, 128), (BLOCKS, 1)]), "5/2100").await;
        assert_eq!(b.disk.pages_used(), 2, "nothing happened");
        check(&host, "42 00 0000000000 0028 00", &unmap_list(&[(0, 1), (BLOCKS, 0)]), "good").await;
        assert_eq!(check(&host, "28 00 00000000 00 0002 00", &[], "good").await[..BLOCK], [0; BLOCK]);
        check(&host, "42 00 0000000000 0028 00", &unmap_list(&[(0, 256), (0, 256)]), "good").await;
        assert_eq!(b.disk.pages_used(), 0);
        assert_eq!(b.lu.counters().reclaimed_bytes, 2 * PAGE);
        check(&host, "42 00 0000000000 0000 00", &[], "good").await;
        check(&host, "42 00 0000000000 0008 00", &unmap_list(&[]), "good").await;
        check(&host, "42 00 0000000000 0007 00", &[0; 7], "5/1a00").await;
        check(&host, "42 01 0000000000 0008 00", &unmap_list(&[]), "5/2400 cdb 1.0").await;
        check(&host, "42 00 0000000000 1018 00", &unmap_list(&[(0, 0); 257]), "5/2600 list 2").await;
        // A list that is cut in its second descriptor has one.
        check(&host, "42 00 0000000000 0020 00", &unmap_list(&[(0, 1), (BLOCKS + 5, 1)])[..32], "good").await;
    });
}

/// A guest that frees a file in pieces released nothing.
#[test]
fn descriptors_that_are_whole_pages_together_release_them() {
    bench(async |b| {
        let host = b.host(1).await;
        check(&host, "2a 00 00000000 00 0100 00", &pattern(1, 256), "good").await;
        check(&host, "2a 00 00000100 00 0100 00", &pattern(1, 256), "good").await;
        assert_eq!(b.disk.pages_used(), 4);
        // Two pages and a half in pieces of 64 and 40 blocks, in any order, some of them twice.
        let pieces = [(64, 64), (0, 64), (192, 40), (128, 64), (232, 88), (0, 10)];
        check(&host, "42 00 0000000000 0068 00", &unmap_list(&pieces), "good").await;
        assert_eq!(b.disk.pages_used(), 2);
        let left = check(&host, "28 00 00000000 00 0200 00", &[], "good").await;
        assert!(left[..320 * BLOCK].iter().all(|byte| *byte == 0), "all of them read as zeros");
        assert_eq!(left[320 * BLOCK..512 * BLOCK], pattern(1, 256)[64 * BLOCK..]);
    });
}

#[test]
fn a_thick_unit_has_no_provisioning() {
    Model::new(1).run(async |world| {
        let b = Bench::on(world, ThinMemory::thick(1 << 20, 4096));
        let host = b.host(1).await;
        check(&host, "42 00 0000000000 0018 00", &unmap_list(&[(0, 1)]), "5/2000 cdb 0").await;
        check(&host, "93 09 0000000000000000 00000001 00 00", &[], "5/2400 cdb 1.3").await;
        check(&host, "93 01 0000000000000000 00000001 00 00", &[], "good").await;
        let capacity = check(&host, "9e 10 0000000000000000 00000020 00 00", &[], "good").await;
        assert_eq!((&capacity[4..12], capacity[14]), (&[0, 0, 0, 255, 0, 0, 16, 0][..], 0));
        assert_eq!(check(&host, "12 01 b2 00ff 00", &[], "good").await, hex("00b20004 00000000"));
        check(&host, "4d 00 4c 00 00 0000 0100 00", &[], "5/2400 cdb 2.5").await;
        let status = check(&host, "9e 12 0000000000000001 00000018 00 00", &[], "good").await;
        assert_eq!(status[8..], hex("0000000000000001 000000ff 00 000000")[..]);
        check(&host, "2f 00 00000000 00 0100 00", &[], "good").await;
        // One command is in the list of the thin one only.
        assert_eq!(check(&host, "a3 0c 01 42 0000 00000100 00 00", &[], "good").await, hex("00010000"));
    });
}

#[test]
fn get_lba_status_begins_at_the_asked_block_and_merges_runs() {
    bench(async |b| {
        let host = b.host(1).await;
        check(&host, "2a 00 00000080 00 0100 00", &pattern(1, 256), "good").await;
        let status = check(&host, "9e 12 0000000000000003 00000100 00 00", &[], "good").await;
        let want = "00000034 00000000 0000000000000003 0000007d 01000000 0000000000000080 00000100 00000000 \
                    0000000000000180 0000fe80 01000000";
        assert_eq!(status, hex(want));
        let one = check(&host, "9e 12 0000000000000085 00000018 00 00", &[], "good").await;
        assert_eq!(one, hex("00000014 00000000 0000000000000085 000000fb 00000000"));
        check(&host, "9e 12 0000000000010000 00000018 00 00", &[], "5/2100").await;
        check(&host, "9e 12 ffffffffffffffff 00000018 00 00", &[], "5/2100").await;
    });
}

#[test]
fn faults_of_the_medium_have_their_sense() {
    bench(async |b| {
        let host = b.host(1).await;
        for (fault, want) in [
            (BlockError::Unreadable { at: 4096, cause: "x".into() }, "3/1100 info 8"),
            (BlockError::Failed { cause: "x".into() }, "4/0801"),
            (BlockError::Corrupt { place: "x".into(), cause: "y".into() }, "3/1101"),
            (BlockError::Poisoned { component: "x".into(), cause: "y".into() }, "4/4400"),
            (BlockError::NoSpace { pool: "x".into() }, "7/2707"),
        ] {
            b.disk.fail_with(Some(fault));
            check(&host, "28 00 00000000 00 0010 00", &[], want).await;
        }
        b.disk.fail_with(None);
        b.disk.pool().pages.set(1);
        check(&host, "2a 00 00000000 00 0080 00", &pattern(1, 128), "good").await;
        check(&host, "2a 00 00000080 00 0001 00", &pattern(1, 1), "7/2707").await;
        b.disk.pool().pages.set(2);
        check(&host, "2a 00 00000080 00 0001 00", &pattern(1, 1), "good").await;
    });
}

#[test]
fn data_is_durable_when_the_host_asks() {
    bench(async |b| {
        let host = b.host(1).await;
        check(&host, "2a 00 00000000 00 0001 00", &pattern(1, 1), "good").await;
        assert_eq!(b.disk.flushes(), 0, "WCE");
        check(&host, "2a 08 00000000 00 0001 00", &pattern(1, 1), "good").await;
        check(&host, "35 00 00000000 00 0000 00", &[], "good").await;
        check(&host, "91 02 0000000000000000 00000001 00 00", &[], "good").await;
        check(&host, "1b 00 00 00 00 00", &[], "good").await;
        assert_eq!(b.disk.flushes(), 4);
        let off = hex("00000000 0812 00 00 0000 0000 0000 0000 00 00 00 000000 0000");
        check(&host, "15 10 00 00 18 00", &off, "good").await;
        let flushes = b.disk.flushes();
        check(&host, "2a 00 00000000 00 0001 00", &pattern(1, 1), "good").await;
        check(&host, "41 00 00000000 00 0001 00", &[0; BLOCK], "good").await;
        assert_eq!(b.disk.flushes(), flushes + 2, "no write cache");
    });
}

/// A READ with FUA was answered with blocks that the next power cut could take back.
#[test]
fn fua_makes_its_own_blocks_durable_in_both_directions() {
    bench(async |b| {
        let host = b.host(1).await;
        check(&host, "2a 10 00000010 00 0001 00", &pattern(1, 1), "good").await;
        check(&host, "28 10 00000010 00 0001 00", &[], "good").await;
        assert_eq!((b.disk.flushes(), b.disk.synced()), (0, None), "DPO is a hint");
        check(&host, "28 08 00000010 00 0002 00", &[], "good").await;
        assert_eq!(b.disk.synced(), Some((0x10 * 512, 2 * 512)), "READ");
        check(&host, "8a 08 0000000000000020 00000001 00 00", &pattern(1, 1), "good").await;
        assert_eq!(b.disk.synced(), Some((0x20 * 512, 512)), "WRITE");
    });
}

#[test]
fn a_medium_with_a_journal_has_no_volatile_cache_unless_a_host_wants_one() {
    Model::new(1).run(async |world| {
        let disk = ThinMemory::new(1 << 20, BLOCK as u32, PAGE);
        disk.gets_journal();
        let b = Bench::on(world, disk);
        let (host, other) = (b.host(1).await, b.host(2).await);
        let write = "2a 00 00000000 00 0001 00";
        let wce = async |page: &str| check(&host, page, &[], "good").await[6] & 0x04 != 0;
        let (current, changeable, default) = ("1a 08 08 00 ff 00", "1a 08 48 00 ff 00", "1a 08 88 00 ff 00");
        assert!(!wce(current).await && wce(changeable).await && !wce(default).await);
        check(&host, write, &pattern(1, 1), "good").await;
        assert_eq!(b.disk.flushes(), 1, "each write is durable");
        let on = hex("00000000 0812 04 00 0000 0000 0000 0000 00 00 00 000000 0000");
        check(&host, "15 10 00 00 18 00", &on, "good").await;
        check(&other, "00", &[], "6/2a01").await;
        assert!(wce(current).await && !wce(default).await);
        check(&host, write, &pattern(1, 1), "good").await;
        assert_eq!(b.disk.flushes(), 1, "a host asked for it");
        let off = hex("00000000 0812 00 00 0000 0000 0000 0000 00 00 00 000000 0000");
        check(&host, "15 10 00 00 18 00", &off, "good").await;
        assert_eq!(b.disk.flushes(), 2, "what was volatile is durable with the change");
    });
}

#[test]
fn growth_is_told_and_usable() {
    bench(async |b| {
        let host = b.host(1).await;
        b.disk.grow(2 * BLOCKS * BLOCK as u64);
        check(&host, "28 00 00010000 00 0001 00", &[], "5/2100").await;
        b.lu.capacity_changed();
        check(&host, "28 00 00010000 00 0001 00", &[], "6/2a09").await;
        check(&host, "28 00 00010000 00 0001 00", &[], "good").await;
        assert_eq!(check(&host, "25", &[], "good").await, hex("0001ffff 00000200"));
        assert_eq!(b.lu.geometry(), b.disk.geometry());
    });
}

#[test]
fn an_atomic_write_happens_or_does_not() {
    const CDB: &str = "9c 00 0000000000000004 0000 0100 00 00";
    bench(async |b| {
        let host = b.host(1).await;
        let (old, new) = (pattern(1, 256), pattern(0x80, 256));
        check(&host, CDB, &old, "good").await;
        check(&host, "9c 00 0000000000000004 0000 0101 00 00", &[0; 257 * 512], "5/2400 cdb 12").await;
        check(&host, "9c 00 0000000000000004 0001 0001 00 00", &[0; 512], "5/2400 cdb 11.0").await;
        check(&host, CDB, &new[512..], "5/0e03").await;

        // The pool is full before the second page: the first one is written back.
        b.disk.pool().pages.set(4);
        check(&host, "2a 00 00000280 00 0001 00", &pattern(1, 1), "good").await;
        check(&host, "9c 00 0000000000000104 0000 0100 00 00", &new, "7/2707").await;
        let read = check(&host, "28 00 00000004 00 0200 00", &[], "good").await;
        assert!(read[..old.len()] == old && read[old.len()..] == [0; 256 * BLOCK]);
        assert_eq!(b.disk.load_record("atomic"), Some(vec![]));

        // The power fails at every record and in the middle of the write: what is there afterwards is all old
        // or all new.
        for records in 0..12 {
            let disk = b.disk.with_power_cut_after(records);
            let again = Bench::on(b.world.clone(), disk.clone());
            let host = again.host(2).await;
            let answer = Rc::new(std::cell::RefCell::new(String::new()));
            let (to, data) = (answer.clone(), new.clone());
            b.world.spawn(async move { *to.borrow_mut() = send(&host, 0, request(CDB, &data)).await.0 });
            b.world.sleep(std::time::Duration::from_millis(1)).await;
            let done = *answer.borrow() == "good";
            let after = Bench::on(b.world.clone(), disk.after_power_on());
            let host = after.fresh_host(3);
            send(&host, 0, request("00", &[])).await;
            let early = send(&host, 0, request("28 00 00000004 00 0100 00", &[])).await;
            b.world.sleep(std::time::Duration::from_millis(1)).await;
            let read = check(&host, "28 00 00000004 00 0100 00", &[], "good").await;
            assert_eq!(done, records >= 8, "three parts and the head, and all four removed");
            assert!(read == old && !done || read == new, "power cut at record {records}, answered {done}");
            assert!(early.0 == "2/0401" || early.1 == read, "{}", early.0);
        }
    });
}

#[test]
fn a_read_holds_no_more_than_the_host_can_accept() {
    bench(async |b| {
        let host = b.host(1).await;
        check(&host, "2a 00 00000000 00 0008 00", &pattern(1, 8), "good").await;
        for (data_in_max, len) in [(0, 0), (1, 512), (512, 512), (1300, 1536), (4096, 4096), (u32::MAX, 4096)]
        {
            let request = Request { data_in_max, ..request("28 00 00000000 00 0008 00", &[]) };
            let response = host.execute(Some(Lun(0)), request).await;
            assert_eq!((response.status, response.data_in_wanted), (Status::Good, 4096));
            assert_eq!(response.data_in.joined()[..], pattern(1, 8)[..len], "of {data_in_max}");
        }
        // The whole range is checked, whatever of it is read.
        for data_in_max in [0, 512] {
            let request = Request { data_in_max, ..request("28 00 0000ffff 00 0002 00", &[]) };
            assert_eq!(send(&host, 0, request).await.0, "5/2100");
        }
        let response = host.execute(Some(Lun(0)), request("12 00 00 0005 00", &[])).await;
        assert_eq!((response.data_in.len(), response.data_in_wanted), (5, 5));
    });
}
