//! Long commands on a disk that never makes them wait: they give way to the other tasks of the controller.

use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::task::{Context, Poll, Waker};

use super::*;

/// How often a command was polled until it ended: one more than the turns that it gave. It must succeed.
async fn polls(view: &View<ThinMemory>, cdb: &str, data_out: &[u8]) -> u32 {
    let mut polls = 0;
    let mut command = pin!(send(view, 0, request(cdb, data_out)));
    let (text, _) = poll_fn(|cx| {
        polls += 1;
        command.as_mut().poll(cx)
    })
    .await;
    assert_eq!(text, "good", "{cdb}");
    polls
}

/// 4 TiB in pages of 256 MiB, all of them unmapped.
fn large(test: impl AsyncFn(Bench)) {
    Model::new(1).run(async |world| {
        let disk = ThinMemory::new(4 << 40, BLOCK as u32, 256 << 20);
        disk.becomes_prompt();
        test(Bench::on(world, disk)).await;
    });
}

/// A list of WRITE USING TOKEN with the block device zero token.
fn zero_token_list(ranges: &[(u64, u32)]) -> Vec<u8> {
    let mut list = vec![0; 536];
    list[16..24].copy_from_slice(&hex("ffff0001 000001f8"));
    for (lba, blocks) in ranges {
        list.extend([&lba.to_be_bytes()[..], &blocks.to_be_bytes(), &[0; 4]].concat());
    }
    let len = list.len() as u16;
    list[..2].copy_from_slice(&(len - 2).to_be_bytes());
    list[534..536].copy_from_slice(&(len - 536).to_be_bytes());
    list
}

#[test]
fn long_commands_give_way_and_short_ones_do_not() {
    large(async |b| {
        let host = b.host(1).await;
        // Reads of 8 MiB, VERIFY of 16 MiB, 4 GiB of zeros, 16 descriptors.
        for (cdb, data) in [
            ("88 00 0000000000000000 00004000 00 00", vec![]),
            ("8f 00 0000000000000000 00008000 00 00", vec![]),
            ("93 08 0000000000000000 00800000 00 00", vec![0; BLOCK]),
            ("42 00 0000000000 0108 00", unmap_list(16)),
            ("83 11 00000000 00000001 00000228 00 00", zero_token_list(&[(0, 1 << 23)])),
        ] {
            assert_eq!(polls(&host, cdb, &data).await, 1, "{cdb}");
        }
        assert_eq!(
            polls(&host, "42 00 0000000000 1008 00", &unmap_list(256)).await,
            16,
            "256 steps of UNMAP"
        );
        let verify = polls(&host, "8f 00 0000000000000000 00010000 00 00", &[]).await;
        assert_eq!(verify, 2, "32 steps of VERIFY");
        // A pattern over 128 MiB: 128 steps.
        let b = Bench::on(b.world.clone(), ThinMemory::new(1 << 30, BLOCK as u32, 1 << 20));
        b.disk.becomes_prompt();
        let host = b.host(1).await;
        let fill = polls(&host, "93 00 0000000000000000 00040000 00 00", &[7; BLOCK]).await;
        assert_eq!(fill, 8, "128 steps of WRITE SAME");
    });
}

/// `count` descriptors of one block each.
fn unmap_list(count: u16) -> Vec<u8> {
    let mut list = [&(count * 16 + 6).to_be_bytes()[..], &(count * 16).to_be_bytes(), &[0; 4]].concat();
    for i in 0..u64::from(count) {
        list.extend([&(i * 8).to_be_bytes()[..], &1u32.to_be_bytes(), &[0; 4]].concat());
    }
    list
}

#[test]
fn a_copy_of_many_segments_gives_way() {
    Model::new(1).run(async |world| {
        let disk = ThinMemory::new(1 << 40, 4096, 16 << 20);
        disk.becomes_prompt();
        let b = Bench::on(world, disk);
        let host = b.host(1).await;
        // 64 segments of 65,535 blocks of 4 KiB within the LU (index FFFFh): 16 pieces each.
        let mut list = [&[0, 0x18, 0, 0, 0, 0, 0, 0][..], &(64u32 * 28).to_be_bytes(), &[0; 4]].concat();
        for i in 0..64u64 {
            list.extend([0x02, 0, 0, 24, 0xff, 0xff, 0xff, 0xff, 0, 0, 0xff, 0xff]);
            list.extend((i << 16).to_be_bytes());
            list.extend(((i + 64) << 16).to_be_bytes());
        }
        let len = list.len();
        let turns = polls(&host, &format!("83 00 0000000000000000 {len:08x} 00 00"), &list).await - 1;
        assert!(turns >= 64 * 16 / 16 / 4, "{turns} turns in 1024 pieces");
    });
}

#[test]
fn the_zero_token_takes_no_more_than_a_token_of_data() {
    large(async |b| {
        let host = b.host(1).await;
        let cdb = "83 11 00000000 00000001 00000228 00 00";
        check(&host, cdb, &zero_token_list(&[(0, 1 << 23)]), "good").await;
        check(&host, cdb, &zero_token_list(&[(0, (1 << 23) + 1)]), "5/2600 list 536").await;
        check(&host, cdb, &zero_token_list(&[(0, u32::MAX)]), "5/2600 list 536").await;
    });
}

#[test]
fn verify_takes_no_more_than_a_transfer() {
    large(async |b| {
        let host = b.host(1).await;
        for byte_check in ["00", "06"] {
            let data = if byte_check == "06" { vec![0; BLOCK] } else { vec![] };
            let cdb = |blocks: u32| format!("8f {byte_check} 0000000000000000 {blocks:08x} 00 00");
            check(&host, &cdb(65_536), &data, "good").await;
            check(&host, &cdb(65_537), &data, "5/2400 cdb 10").await;
            check(&host, &cdb(u32::MAX), &data, "5/2400 cdb 10").await;
        }
        check(&host, "af 00 00000000 00010001 00 00", &[], "5/2400 cdb 6").await;
    });
}

#[test]
fn hosts_are_served_during_a_block_erase() {
    large(async |b| {
        let host = b.host(1).await;
        check(&host, "48 82 00 00 00 00 00 0000 00", &[], "good").await;
        let mut seen = Vec::new();
        for _ in 0..4000 {
            let sense = check(&host, "03 00 00 00 ff 00", &[], "good").await;
            if sense_text(&sense) == "0/0000" {
                break;
            }
            seen.push(u16::from_be_bytes([sense[16], sense[17]]));
            world::yield_now().await;
        }
        assert!(seen.iter().any(|done| (1000..64_000).contains(done)), "progress in between: {seen:?}");
        check(&host, "00", &[], "good").await;
    });
}

#[test]
fn get_lba_status_asks_once_for_all_descriptors_of_an_extent() {
    Model::new(1).run(async |world| {
        let b = Bench::on(world, ThinMemory::new(64 << 40, BLOCK as u32, 16 << 40));
        let host = b.host(1).await;
        let status = check(&host, "9e 12 0000000000000003 00010000 00 00", &[], "good").await;
        assert_eq!(b.disk.extents_asked(), 4);
        // 2^37 blocks in descriptors of at most 2^32 - 1.
        let (runs, _) = status[8..].as_chunks::<16>();
        let mut next = 3;
        for run in runs {
            assert_eq!((run[..8].to_vec(), run[12]), (u64::to_be_bytes(next).to_vec(), 1));
            next += u64::from(u32::from_be_bytes(run[8..12].try_into().expect("four bytes")));
        }
        assert_eq!((next, runs.len()), (1 << 37, 33));
        // Without room for all: the first two, full.
        let two = check(&host, "9e 12 0000000000000003 00000028 00 00", &[], "good").await;
        assert_eq!(two[8..], status[8..40]);
    });
}

#[test]
fn get_lba_status_over_many_extents_gives_way() {
    bench(async |b| {
        let host = b.host(1).await;
        // 512 pages, each of which is an extent of this disk.
        let turns = polls(&host, "9e 12 0000000000000000 00010000 00 00", &[]).await - 1;
        assert_eq!(turns, 512 / 16);
        assert_eq!(polls(&host, "9e 12 000000000000fc00 00010000 00 00", &[]).await, 1, "8 of them");
    });
}

#[test]
fn few_verify_commands_without_data_run_at_once() {
    bench(async |b| {
        let host = Rc::new(b.host(1).await);
        let ended = Rc::new(std::cell::RefCell::new(Vec::new()));
        // Each of them 1 MiB, without data and with the block to compare.
        for i in 0..200u64 {
            let (host, ended) = (host.clone(), ended.clone());
            b.world.spawn(async move {
                let byte_check = ["00", "06"][(i % 2) as usize];
                let data = vec![0; if i % 2 == 1 { BLOCK } else { 0 }];
                let cdb = format!("8f {byte_check} {:016x} 00000800 00 00", i % 32 * 2048);
                let (text, _) = send(&host, 0, request(&cdb, &data)).await;
                ended.borrow_mut().push(text);
            });
        }
        while ended.borrow().len() < 200 {
            world::yield_now().await;
        }
        assert!(b.disk.reading_most() <= 64, "{} reads at once", b.disk.reading_most());
        let good = ended.borrow().iter().filter(|text| *text == "good").count();
        let full = ended.borrow().iter().filter(|text| *text == "TaskSetFull").count();
        assert!(good >= 64 && good + full == 200, "{good} good, {full} refused");
        // All of them have ended.
        check(&host, "8f 00 0000000000000000 00000800 00 00", &[], "good").await;
    });
}

/// The limit is the host's, too: with a hundred LUs it would otherwise have a hundred times as much memory.
#[test]
fn few_patterns_of_a_host_are_in_memory_at_once_on_all_its_units() {
    bench(async |b| {
        let (host, second) = (b.host(1).await, b.host(2).await);
        let other = LogicalUnit::new(b.world.clone(), Identity::of(0x1234_5678_9abc, 8), b.disk.clone());
        for host in [&host, &second] {
            host.map(Lun(1), other.clone());
            while send(host, 1, request("00", &[])).await.0 != "good" {}
        }
        let same = |lun| request_of(&host, lun);
        let mut waiting: Vec<_> = (0..128).map(|i| Box::pin(same(i / 64))).collect();
        // All of the same blocks: one of each unit runs, and the others wait for it.
        let answers: Vec<_> = waiting.iter_mut().map(poll_once).collect();
        assert_eq!(answers.iter().flatten().map(|text| &text[..]).collect::<Vec<_>>(), ["Busy"; 64]);
        let others = poll_once(&mut Box::pin(request_of(&second, 1)));
        assert_eq!(others, None, "it is not another host's limit");
    });
}

async fn request_of(host: &View<ThinMemory>, lun: u16) -> String {
    send(host, lun, request("93 00 0000000000000000 00001000 00 00", &[0x5a; BLOCK])).await.0
}

fn poll_once(future: &mut Pin<Box<impl Future<Output = String>>>) -> Option<String> {
    match future.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(text) => Some(text),
        Poll::Pending => None,
    }
}

#[test]
fn few_patterns_are_in_memory_at_once() {
    bench(async |b| {
        let host = Rc::new(b.host(1).await);
        let ended = Rc::new(std::cell::RefCell::new(Vec::new()));
        for _ in 0..200 {
            let (host, ended) = (host.clone(), ended.clone());
            b.world.spawn(async move {
                // All of the same blocks: one runs, and the others wait for it.
                let same = request("93 00 0000000000000000 00001000 00 00", &[0x5a; BLOCK]);
                let (text, _) = send(&host, 0, same).await;
                ended.borrow_mut().push(text);
            });
        }
        while ended.borrow().len() < 200 {
            world::yield_now().await;
        }
        let good = ended.borrow().iter().filter(|text| *text == "good").count();
        let full = ended.borrow().iter().filter(|text| *text == "TaskSetFull").count();
        assert!(good >= 64 && full > 0 && good + full == 200, "{good} good, {full} refused");
        check(&host, "93 00 0000000000000000 00001000 00 00", &[0x5a; BLOCK], "good").await;
    });
}
