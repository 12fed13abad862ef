//! INQUIRY, VPD, mode and log pages, and the REPORT commands.

use world_model::Model;

use super::*;
use crate::host_view::{Elsewhere, HostView};
use crate::opcode::TABLE;

fn number(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0, |n, &b| n << 8 | u64::from(b))
}

#[test]
fn standard_inquiry_data_and_every_cut_of_it() {
    bench(async |b| {
        let host = b.host(1).await;
        let full = check(&host, "12 00 00 0200 00", &[], "good").await;
        assert_eq!(full[..8], [0, 0, 6, 0x12, (full.len() - 5) as u8, 0x18, 0x10, 0x02]);
        assert_eq!(&full[8..36], b"MASU    Virtual Disk    0001");
        assert_eq!(full[58..70], hex("00a0 0960 0460 04c0 05c0 0600"));
        for len in 0..=full.len() {
            assert_eq!(check(&host, &format!("12 00 00 {len:04x} 00"), &[], "good").await, full[..len]);
        }
        check(&host, "12 00 83 00ff 00", &[], "5/2400 cdb 2").await;
        check(&host, "12 01 77 00ff 00", &[], "5/2400 cdb 2").await;
        check(&host, "12 02 00 00ff 00", &[], "5/2400 cdb 1.1").await;
        let (text, nothing) = send(&host, 5, request("12 00 00 0024 00", &[])).await;
        assert_eq!((text.as_str(), nothing[0]), ("good", 0x7f));
        assert_eq!(send(&host, 5, request("28 00 00000000 00 0001 00", &[])).await.0, "5/2500");
        let (_, sense) = send(&host, 5, request("03 00 00 00 20 00", &[])).await;
        assert_eq!(sense_text(&sense), "5/2500");
    });
}

#[test]
fn vpd_pages_are_listed_and_well_formed() {
    bench(async |b| {
        let host = b.host(1).await;
        let list = check(&host, "12 01 00 00ff 00", &[], "good").await;
        assert_eq!(list[4..], hex("00 80 83 86 8f b0 b1 b2")[..]);
        for &page in &list[4..] {
            let bytes = check(&host, &format!("12 01 {page:02x} 0400 00"), &[], "good").await;
            assert_eq!((bytes[1], number(&bytes[2..4]) as usize), (page, bytes.len() - 4));
        }
        let serial = check(&host, "12 01 80 00ff 00", &[], "good").await;
        assert_eq!(serial[4..], b"0000123456789abc00000007"[..]);
        let limits = check(&host, "12 01 b0 0040 00", &[], "good").await;
        let field = |at: usize, len: usize| number(&limits[at..at + len]);
        assert_eq!((limits.len(), limits[4], limits[5]), (64, 0, 128));
        assert_eq!((field(6, 2), field(8, 4), field(12, 4), field(16, 4)), (1, 65_536, 2048, 65_536));
        assert_eq!(
            (field(20, 4), field(24, 4), field(28, 4), field(32, 4)),
            (1 << 20, 256, 128, 0x8000_0000)
        );
        assert_eq!((field(36, 8), field(44, 4), field(48, 8), field(56, 8)), (8 << 20, 256, 0, 0));
        assert_eq!(check(&host, "12 01 b1 0008 00", &[], "good").await, hex("00b1003c 0001 0040"));
        b.disk.pool().pages.set(1000);
        assert_eq!(check(&host, "12 01 b2 00ff 00", &[], "good").await, hex("00b20004 07e40200"));
        let id = check(&host, "12 01 83 00ff 00", &[], "good").await;
        assert_eq!(id[4..24], hex("01030010 60000123456789ab c000000000000007")[..]);
        assert!(id.len() <= 255);
    });
}

#[test]
fn capacity_in_both_lengths() {
    bench(async |b| {
        let host = b.host(1).await;
        assert_eq!(check(&host, "25", &[], "good").await, hex("0000ffff 00000200"));
        let full = check(&host, "9e 10 0000000000000000 00000020 00 00", &[], "good").await;
        assert_eq!(full[..16], hex("000000000000ffff 00000200 00 00 c000")[..]);
        for len in 0..32 {
            let cut = check(&host, &format!("9e 10 0000000000000000 {len:08x} 00 00"), &[], "good").await;
            assert_eq!(cut, full[..len]);
        }
        assert_eq!(check(&host, "37 00 18 00000000 0020 00", &[], "good").await, hex("00180000"));
        assert_eq!(check(&host, "b7 18 00000000 00000020 00 00", &[], "good").await, hex("0018000000000000"));
    });
}

#[test]
fn mode_pages_are_read_changed_and_told_to_the_others() {
    bench(async |b| {
        let (host, other) = (b.host(1).await, b.host(2).await);
        let all = check(&host, "1a 00 3f 00 ff 00", &[], "good").await;
        assert_eq!(all[0] as usize, all.len() - 1);
        assert_eq!(all[1..12], hex("00 10 08 00010000 00 000200")[..]);
        let ten = check(&host, "5a 10 3f ff 000000 1000 00", &[], "good").await;
        assert_eq!(number(&ten[..2]) as usize, ten.len() - 2);
        assert_eq!(ten[2..24], hex("00 10 01 00 0010 0000000000010000 00000000 00000200")[..]);
        let control = check(&host, "1a 08 0a 00 ff 00", &[], "good").await;
        assert_eq!(control, hex("0f 00 10 00 0a0a 00 10 00 00 0000 0000 0000"));
        let mask = check(&host, "1a 08 4a 00 ff 00", &[], "good").await;
        assert_eq!(mask[4..], hex("0a0a 04 00 08 40 0000 0000 0000")[..]);
        let threshold = check(&host, "1a 08 1c 02 ff 00", &[], "good").await;
        assert_eq!(threshold[4..8], hex("5c02 0014")[..]);
        check(&host, "1a 08 0a 00 04 00", &[], "good").await;
        check(&host, "1a 08 ca 00 ff 00", &[], "5/3900").await;
        check(&host, "1a 08 11 00 ff 00", &[], "5/2400 cdb 2.5").await;
        check(&host, "1a 08 0a 05 ff 00", &[], "5/2400 cdb 3").await;

        let mut swp = hex("00000000 0a0a 00 10 08 00 0000 0000 0000");
        check(&host, "15 10 00 00 10 00", &swp, "good").await;
        check(&host, "2a 00 00000000 00 0001 00", &[0; BLOCK], "7/2702").await;
        check(&other, "28 00 00000000 00 0001 00", &[], "6/2a01").await;
        check(&other, "28 00 00000000 00 0001 00", &[], "good").await;
        check(&other, "93 08 0000000000000000 00000001 00 00", &[], "7/2702").await;
        assert_eq!(check(&host, "1a 08 0a 00 ff 00", &[], "good").await[2], 0x90, "WP");
        swp[8] = 0;
        check(&host, "15 10 00 00 10 00", &swp, "good").await;
        check(&host, "2a 00 00000000 00 0001 00", &[0; BLOCK], "good").await;
        check(&host, "15 10 00 00 10 00", &swp, "good").await;
        check(&other, "00", &[], "6/2a01").await;
        check(&other, "00", &[], "good").await;

        swp[7] = 0x20;
        check(&host, "15 10 00 00 10 00", &swp, "5/2600 list 7.5").await;
        check(&host, "15 00 00 00 10 00", &swp, "5/2400 cdb 1.4").await;
        check(&host, "15 10 00 00 03 00", &swp[..3], "5/1a00").await;
        check(&host, "15 10 00 00 0f 00", &swp[..15], "5/1a00").await;
        check(&host, "15 10 00 00 00 00", &[], "good").await;
        let short = hex("00000000 0a08 00 10 08 00 0000 0000");
        check(&host, "15 10 00 00 0e 00", &short, "5/2600 list 5").await;
        let with_descriptor = hex("00000008 00010000 00000200 0a0a 04 10 00 00 0000 0000 0000");
        check(&host, "15 10 00 00 18 00", &with_descriptor, "good").await;
        check(&host, "88 00 ffffffffffffffff 00000001 00 00", &[], "5/2100 descriptor").await;
        let wrong_block = hex("00000008 00010000 00001000");
        check(&host, "15 10 00 00 0c 00", &wrong_block, "5/2600 descriptor").await;
    });
}

/// WCE of the caching mode page: current, default, saved. A unit attention is heard first.
async fn wce(host: &View<ThinMemory>) -> (bool, bool, bool) {
    let page = async |control: &str| {
        let page = check(host, &format!("1a 08 {control} 00 ff 00"), &[], "good").await;
        assert_eq!(page[4..6], hex("8812")[..], "it says that it can be saved");
        page[6] & 0x04 != 0
    };
    (page("08").await, page("88").await, page("c8").await)
}

#[test]
fn what_a_host_saves_of_the_write_cache_is_there_after_a_reset_and_a_restart() {
    Model::new(1).run(async |world| {
        let caching = |wce: bool| {
            hex(&format!("00000000 0812 0{} 00 0000 0000 0000 0000 00 00 00 000000 0000", u8::from(wce) * 4))
        };
        let b = Bench::on(world.clone(), ThinMemory::new(1 << 20, BLOCK as u32, PAGE));
        let host = b.host(1).await;
        assert_eq!(wce(&host).await, (true, true, true), "nothing was saved: the default");
        check(&host, "15 10 00 00 18 00", &caching(false), "good").await;
        assert_eq!(wce(&host).await, (false, true, true), "not asked to save");
        check(&host, "15 11 00 00 18 00", &caching(false), "good").await;
        assert_eq!(wce(&host).await, (false, true, false));
        check(&host, "15 10 00 00 18 00", &caching(true), "good").await;
        host.manage(crate::TaskFunction::LunReset(Lun(0))).await;
        check(&host, "00", &[], "6/2903").await;
        assert_eq!(wce(&host).await, (false, true, false), "a reset");
        check(&host, "15 10 00 00 18 00", &caching(true), "good").await;

        let b = Bench::on(world, b.disk.after_power_on());
        let host = b.host(1).await;
        assert_eq!(wce(&host).await, (false, true, false), "a restart");
        check(&host, "2a 00 00000000 00 0001 00", &pattern(1, 1), "good").await;
        assert_eq!(b.disk.flushes(), 1, "each write is durable");
        check(&host, "15 10 00 00 18 00", &caching(true), "good").await;
        check(&host, "15 11 00 00 00 00", &[], "good").await;
        assert_eq!(wce(&host).await, (true, true, true), "an empty list saves what is");
        let all = check(&host, "1a 08 ff 00 ff 00", &[], "good").await;
        assert_eq!(all, check(&host, "1a 08 bf 00 ff 00", &[], "good").await, "of the rest the default");
    });
}

#[test]
fn log_pages() {
    bench(async |b| {
        let host = b.host(1).await;
        check(&host, "2a 00 00000000 00 0100 00", &pattern(1, 256), "good").await;
        assert_eq!(
            check(&host, "4d 00 40 00 00 0000 0100 00", &[], "good").await,
            hex("0000 0006 0002030c192f")
        );
        let both = check(&host, "4d 00 40 ff 00 0000 0100 00", &[], "good").await;
        assert_eq!(both[..8], hex("40ff 000e 0000 00ff")[..]);
        b.disk.pool().pages.set(100);
        let provisioning = check(&host, "4d 00 4c 00 00 0000 0100 00", &[], "good").await;
        assert_eq!(provisioning, hex("0c00 0018 0001 0308 00000062 02000000 0002 0308 00000002 01000000"));
        let from = check(&host, "4d 00 4c 00 00 0002 0100 00", &[], "good").await;
        assert_eq!(from, hex("0c00 000c 0002 0308 00000002 01000000"));
        check(&host, "4d 00 4c 00 00 0003 0100 00", &[], "5/2400 cdb 5").await;
        check(&host, "4d 00 0c 00 00 0000 0100 00", &[], "5/2400 cdb 2.7").await;
        check(&host, "4d 00 7e 00 00 0000 0100 00", &[], "5/2400 cdb 2.5").await;
        let performance = check(&host, "4d 00 59 00 00 0000 0100 00", &[], "good").await;
        assert_eq!(performance[..8], hex("1900 005c 0001 0340"));
        // One write of 256 blocks, and no read.
        assert_eq!([8, 16, 24, 32].map(|at| number(&performance[at..at + 8])), [0, 1, 256, 0]);
        assert_eq!(performance[72..], hex("0002 0308 0000000000000000 0003 0308 0000000000000000"));
        let written = check(&host, "4d 00 42 00 00 0005 0100 00", &[], "good").await;
        assert_eq!(number(&written[8..16]), 256 * BLOCK as u64);
        check(&host, "4c 02 00 00 00 00 00 0000 00", &[], "good").await;
    });
}

#[test]
fn supported_operation_codes_are_those_of_the_table() {
    bench(async |b| {
        let host = b.host(1).await;
        check(&host, "a4 0a 00000000 00000000 00 00", &[], "5/2400 cdb 1.4").await;
        b.lu.moved_by(Box::new(Moves));
        let all = check(&host, "a3 0c 80 00 0000 0000ffff 00 00", &[], "good").await;
        assert_eq!(number(&all[..4]) as usize, all.len() - 4);
        assert_eq!(all.len() - 4, 20 * TABLE.len());
        assert_eq!(
            check(&host, "a3 0c 00 00 0000 0000ffff 00 00", &[], "good").await.len() - 4,
            8 * TABLE.len()
        );
        for descriptor in all[4..].chunks(20) {
            let (opcode, action, flags, len) = (descriptor[0], descriptor[3], descriptor[5], descriptor[7]);
            assert_eq!((flags & 2, &descriptor[8..10]), (2, &[0, 10][..]));
            let refused = "5/2400 cdb 2.2";
            let (one, two) = if flags & 1 != 0 { (refused, "good") } else { ("good", refused) };
            check(&host, &format!("a3 0c 01 {opcode:02x} 0000 00000400 00 00"), &[], one).await;
            check(&host, &format!("a3 0c 02 {opcode:02x} 00{action:02x} 00000400 00 00"), &[], two).await;
            let usage =
                check(&host, &format!("a3 0c 83 {opcode:02x} 00{action:02x} 00000400 00 00"), &[], "good")
                    .await;
            assert_eq!((usage[1], usage[3], usage[4]), (0x83, len, opcode));
            assert_eq!(usage.len(), 4 + usize::from(len) + 12);
        }
        assert_eq!(check(&host, "a3 0c 01 fe 0000 00000400 00 00", &[], "good").await, hex("00010000"));
        check(&host, "a3 0c 04 12 0000 00000400 00 00", &[], "5/2400 cdb 2.2").await;
        let read = check(&host, "a3 0c 01 28 0000 00000400 00 00", &[], "good").await;
        assert_eq!(read, hex("00 03 000a 28 18 ffffffff 3f ffff 00"));
    });
}

/// A host that logged in with several LUNs mapped had to be told twice on each before its first command went
/// through.
#[test]
fn a_new_nexus_hears_one_unit_attention_however_many_luns_it_sees() {
    bench(async |b| {
        let host = b.fresh_host(1);
        for number in 1..4u16 {
            let lu = LogicalUnit::new(b.world.clone(), Identity::of(1, number.into()), b.disk.clone());
            host.map(Lun(number), lu);
        }
        for number in 0..4u16 {
            assert_eq!(send(&host, number, request("00", &[])).await.0, "6/2900");
            assert_eq!(send(&host, number, request("00", &[])).await.0, "good");
        }
    });
}

#[test]
fn hosts_hear_of_mappings_and_see_no_others() {
    bench(async |b| {
        let host = b.host(1).await;
        let second = LogicalUnit::new(b.world.clone(), Identity::of(1, 2), b.disk.clone());
        assert_eq!(
            check(&host, "a0 00 00 000000 00000100 00 00", &[], "good").await,
            hex("00000008 00000000 0000000000000000")
        );
        host.map(Lun(300), second);
        host.set_elsewhere(vec![Elsewhere { lun: Lun(2), key: 7, block_bytes: 512, owner: None }]);
        check(&host, "00", &[], "6/3f0e").await;
        let luns = check(&host, "a0 00 02 000000 00000100 00 00", &[], "good").await;
        assert_eq!(luns, hex("00000018 00000000 0000000000000000 0002000000000000 412c000000000000"));
        assert_eq!(
            send(&host, 300, request("00", &[])).await.0,
            "6/2900",
            "REPORT LUNS cleared the other one"
        );
        assert_eq!(send(&host, 300, request("00", &[])).await.0, "good");
        host.unmap(Lun(300));
        // REPORT LUNS is answered in spite of the condition, and clears it.
        check(&host, "a0 00 00 000000 00000100 00 00", &[], "good").await;
        check(&host, "00", &[], "good").await;
        assert_eq!(send(&host, 300, request("00", &[])).await.0, "5/2500");
        assert_eq!(check(&host, "a0 00 01 000000 00000100 00 00", &[], "good").await, [0; 8]);
        check(&host, "a0 00 11 000000 00000100 00 00", &[], "5/2400 cdb 2").await;
        let groups = check(&host, "a3 0a 00000000 00000100 00 00", &[], "good").await;
        assert_eq!(groups, hex("00000018 800b0001 00000001 00000001 010b0002 00000001 00000002"));
        assert_eq!(check(&host, "a3 0d 00000000 00000100 00 00", &[], "good").await, hex("da000000"));
    });
}

#[test]
fn a_read_only_unit_says_so_before_anything_else() {
    Model::new(1).run(async |world| {
        let mut b = Bench::on(world, ThinMemory::new(1 << 20, BLOCK as u32, PAGE));
        let identity = Identity { read_only: true, physical_block_exponent: 3, ..Identity::of(1, 1) };
        b.lu = LogicalUnit::new(b.world.clone(), identity, b.disk.clone());
        let host = b.host(1).await;
        for cdb in [
            "0a 000000 01 00",
            "2a",
            "8a",
            "aa",
            "41",
            "93",
            "93 08",
            "89",
            "8b",
            "9c",
            "42",
            "2e",
            "ae",
            "8e",
        ] {
            check(&host, cdb, &[], "7/2700").await;
        }
        assert_eq!(check(&host, "1a 08 0a 00 ff 00", &[], "good").await[2], 0x90);
        assert_eq!(check(&host, "9e 10 0000000000000000 00000020 00 00", &[], "good").await[13], 3);
        check(&host, "28 00 00000000 00 0001 00", &[], "good").await;
    });
}
