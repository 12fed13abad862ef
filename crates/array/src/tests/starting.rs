//! The start-up matrix: what may have happened to drives between two lives of an array, on every level, to
//! one, some and all of them. After each case the bytes that were flushed are served, or the group is missing
//! and no byte on any medium has changed.

use std::borrow::Cow;

use crate::config::Level;
use world_model::{DiskSpec, Model};

use block::Pieces;

use super::rig::{DISK_BYTES, Host, declaration, group, model, start};
use crate::Array;
use crate::config::{Config, Made};

const ID: u8 = 50;
/// The copies of a label: at the start, and half a MiB behind it (docs/on_disk_format.md).
const COPIES: [usize; 2] = [0, 512 << 10];
/// Where the format stands in a label, and where the checksum.
const FORMAT_AT: usize = 8;
const CHECKSUM_AT: std::ops::Range<usize> = 12..16;
const LABEL_LEN: usize = 4096;

/// The content of all drives, by number.
type Media = Vec<Vec<u8>>;

/// What happened to a drive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    Missing,
    Blank,
    OtherFileSystem,
    OtherArray,
    Older,
    NewerFormat,
    DamagedCopy1,
    DamagedCopy2,
    DamagedBoth,
    Swapped,
    Smaller,
    ReadOnly,
}

const FATES: [Fate; 12] = [
    Fate::Missing,
    Fate::Blank,
    Fate::OtherFileSystem,
    Fate::OtherArray,
    Fate::Older,
    Fate::NewerFormat,
    Fate::DamagedCopy1,
    Fate::DamagedCopy2,
    Fate::DamagedBoth,
    Fate::Swapped,
    Fate::Smaller,
    Fate::ReadOnly,
];

/// What happens next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Next {
    /// The array is started, with what it kept.
    Restart,
    /// Another array, with nothing of its own, becomes the one that was: `masu config import` of what was
    /// exported before.
    Import,
    /// The declaration is given to an array that knows nothing of an earlier life: its data directory is
    /// lost.
    Declare,
}

/// An array after its first life.
struct Before {
    config: Config,
    made: Made,
    media: Media,
    /// The media at an earlier time: the first life of the same array, before the number on the volume was
    /// written.
    older: Media,
    /// The media of another array of the same kind.
    other: Media,
    number: u8,
}

fn media_of(model: &Model, drives: usize) -> Media {
    let disk = |i| model.disks().get(&format!("d{i}")).expect("it is there");
    (0..drives).map(|i| disk(i).peek(0, disk(i).spec().len_bytes as usize)).collect()
}

/// The part of a medium that is looked at at once.
const STEP: usize = 64 << 10;

/// A model with this content. Zeros are not written, so that content stays sparse.
fn model_with(media: &[impl AsRef<[u8]>]) -> Model {
    static ZEROS: [u8; STEP] = [0; STEP];
    let model = Model::new(7);
    for (i, content) in media.iter().enumerate() {
        let content = content.as_ref();
        let disk = model.disk(&format!("d{i}"), DiskSpec::new(content.len() as u64));
        for (n, step) in content.chunks(STEP).enumerate() {
            if *step != ZEROS[..step.len()] {
                disk.poke((n * STEP) as u64, step);
            }
        }
    }
    model
}

/// Whether the first disks have this content.
fn has(model: &Model, media: &[impl AsRef<[u8]>]) -> bool {
    media.iter().enumerate().all(|(i, content)| {
        let disk = model.disks().get(&format!("d{i}")).expect("it is there");
        let mut steps = content.as_ref().chunks(STEP).enumerate();
        steps.all(|(n, step)| disk.peek((n * STEP) as u64, step.len()) == *step)
    })
}

fn first_life(level: Level, width: usize, id: u8) -> Before {
    let model = model(id.into(), width);
    let config = Config {
        id: crate::config::ArrayId([id; 16]),
        ..declaration(ID, width, vec![group("g", level, 0..width)])
    };
    let mut older = Media::new();
    let mut made = Made::default();
    let mut number = 0;
    for _ in 0..2 {
        older = media_of(&model, width);
        model.run(async |world| {
            let mut array = start(&world);
            array.apply(config.clone()).await.expect("apply");
            let mut host = Host::log_in(&world, ID).await;
            host.number = number;
            host.fill().await;
            number = host.number;
            host.flush().await;
            host.log_out().await;
            array.stop().await.expect("stop");
            made = array.made().clone();
        });
    }
    let media = media_of(&model, width);
    Before { config, made, media, older, other: Media::new(), number }
}

fn checksum(label: &[u8]) -> [u8; 4] {
    (crc_fast::checksum(crc_fast::CrcAlgorithm::Crc32Iscsi, label) as u32).to_le_bytes()
}

/// The content of drive `i` after its fate.
fn suffer(before: &Before, fate: Fate, i: usize, victims: &[usize]) -> Vec<u8> {
    let mut content = before.media[i].clone();
    match fate {
        // The disk is there and does not answer, or takes no writes.
        Fate::Missing | Fate::ReadOnly => {}
        Fate::Blank => content.fill(0),
        Fate::OtherFileSystem => {
            content.fill(0);
            // The superblock of ext4: its magic, and a label.
            content[1024 + 56..1024 + 58].copy_from_slice(&0xef53_u16.to_le_bytes());
            content[1024 + 120..1024 + 128].copy_from_slice(b"precious");
        }
        Fate::OtherArray => content.clone_from(&before.other[i]),
        Fate::Older => content.clone_from(&before.older[i]),
        Fate::NewerFormat => {
            for at in COPIES {
                let label = &mut content[at..at + LABEL_LEN];
                label[FORMAT_AT] = 99;
                label[CHECKSUM_AT].fill(0);
                let sum = checksum(label);
                label[CHECKSUM_AT].copy_from_slice(&sum);
            }
        }
        Fate::DamagedCopy1 => content[COPIES[0] + 40] ^= 0x10,
        Fate::DamagedCopy2 => content[COPIES[1] + 40] ^= 0x10,
        Fate::DamagedBoth => COPIES.iter().for_each(|at| content[at + 40] ^= 0x10),
        Fate::Swapped => {
            let place = victims.iter().position(|v| *v == i).expect("a victim");
            content.clone_from(&before.media[victims[(place + 1) % victims.len()]]);
        }
        Fate::Smaller => content.truncate(DISK_BYTES as usize / 2),
    }
    content
}

/// The array as it was kept, or one with nothing that is given the same declaration.
async fn again(
    world: &world::World,
    before: &Before,
    next: Next,
) -> (Array, Result<Vec<String>, crate::ControlError>) {
    struct Nowhere;
    impl crate::Keeper for Nowhere {
        fn keep(&mut self, _: &Config, _: &Made) -> Result<(), String> {
            Ok(())
        }
    }
    let kept = (next == Next::Restart).then(|| (before.config.clone(), before.made.clone()));
    let mut array = start(world).kept_by(Box::new(Nowhere), kept);
    if next == Next::Import {
        array.adopt(Made::all_of(&before.config));
    }
    let applied = array.apply(before.config.clone()).await;
    (array, applied)
}

fn check(before: &Before, (level, next): (Level, Next), fate: Fate, victims: &[usize]) {
    let case = format!("{level}, {next:?}, {fate:?}, drives {victims:?}");
    let mut media: Vec<Cow<'_, [u8]>> = before.media.iter().map(|content| content.into()).collect();
    for i in victims {
        media[*i] = suffer(before, fate, *i, victims).into();
    }
    let model = model_with(&media);
    for i in victims {
        let disk = model.disks().get(&format!("d{i}")).expect("it is there");
        match fate {
            Fate::Missing => disk.kill(),
            Fate::ReadOnly => disk.set_read_only(true),
            _ => {}
        }
    }
    let all = victims.len() == media.len();
    // Who declares a group on blank drives asks for a new one.
    let is_new = next == Next::Declare && fate == Fate::Blank && all;
    let served = model.run(async |world| {
        let (array, applied) = again(&world, before, next).await;
        match (applied, next) {
            (Ok(_), _) => {}
            (Err(_), Next::Declare) => return false,
            (Err(e), _) => panic!("{case}: the array does not start: {e}"),
        }
        let status = array.status().await.expect("status");
        let served = status[0].missing.is_empty();
        if served {
            let mut host = Host::log_in(&world, ID).await;
            host.number = before.number;
            if !is_new {
                host.verify().await;
            }
            host.log_out().await;
        } else {
            let missing: Vec<_> =
                status[0].missing.iter().map(|m| (m.kind.as_str(), m.name.as_str())).collect();
            assert_eq!(missing, [("group", "g"), ("pool", "p"), ("volume", "v")], "{case}");
            let unusable =
                [Fate::Missing, Fate::Blank, Fate::OtherFileSystem, Fate::NewerFormat, Fate::DamagedBoth];
            let cause = &status[0].missing[0].cause;
            assert!(
                !unusable.contains(&fate) || cause.contains("\"d0\""),
                "{case}: no drive is named: {cause}"
            );
        }
        let stopped = array.stop().await;
        // What cannot be written cannot be closed.
        assert!(stopped.is_ok() || fate == Fate::ReadOnly, "{case}: {stopped:?}");
        served
    });
    if !served {
        assert!(has(&model, &media), "{case}: a medium has changed");
    }
    // What redundancy or order alone can bear must be served.
    let harmless = matches!(fate, Fate::Swapped | Fate::DamagedCopy1 | Fate::DamagedCopy2);
    assert!(served || !harmless, "{case}: nothing is lost, and it is not served");
    assert!(!served || harmless || !all || is_new, "{case}: served from nothing");
}

fn check_level(level: Level, width: usize) {
    let mut before = first_life(level, width, ID);
    before.other = first_life(level, width, ID + 1).media;
    for fate in FATES {
        for count in [1, 2, width] {
            let victims: Vec<usize> = (0..count.min(width)).collect();
            // All drives as they were earlier: nobody can tell.
            if fate == Fate::Older && count == width {
                continue;
            }
            for next in [Next::Restart, Next::Import, Next::Declare] {
                check(&before, (level, next), fate, &victims);
            }
        }
    }
}

#[test]
fn a_start_serves_what_was_flushed_or_leaves_the_media_alone_on_raid_0_and_1() {
    check_level(Level::Raid0, 2);
    check_level(Level::Raid1, 2);
}

#[test]
fn a_start_serves_what_was_flushed_or_leaves_the_media_alone_on_raid_10() {
    check_level(Level::Raid10, 4);
}

#[test]
fn a_start_serves_what_was_flushed_or_leaves_the_media_alone_on_raid_5_and_6() {
    check_level(Level::Raid5, 3);
    check_level(Level::Raid6, 4);
}

#[test]
fn a_group_that_comes_back_is_opened_and_its_volume_is_served() {
    let before = first_life(Level::Raid1, 2, ID);
    let model = model_with(&before.media);
    let disk = |i: usize| model.disks().get(&format!("d{i}")).expect("it is there");
    (0..2).for_each(|i| disk(i).kill());
    model.run(async |world| {
        let (mut array, applied) = again(&world, &before, Next::Restart).await;
        applied.expect("it starts without");
        assert_eq!(array.status().await.expect("status")[0].missing.len(), 3);
        (0..2).for_each(|i| disk(i).resume());
        array.apply(array.config().clone()).await.expect("again");
        assert!(array.status().await.expect("status")[0].missing.is_empty());
        let mut host = Host::log_in(&world, ID).await;
        host.number = before.number;
        host.verify().await;
    });
}

/// LOGICAL UNIT NOT SUPPORTED made ESXi take the device for lost, and Linux drop its paths.
#[test]
fn a_lu_whose_pool_is_not_open_is_not_ready_and_is_the_same_one_afterwards() {
    let before = first_life(Level::Raid1, 2, ID);
    let model = model_with(&before.media);
    let disk = |i: usize| model.disks().get(&format!("d{i}")).expect("it is there");
    let inquiry = |page: u8| [0x12, u8::from(page != 0), page, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    let mut read = [0; 16];
    (read[0], read[13]) = (0x88, 1);
    let report_luns = [0xa0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0];
    (0..2).for_each(|i| disk(i).kill());
    model.run(async |world| {
        let (mut array, applied) = again(&world, &before, Next::Restart).await;
        applied.expect("it starts without");
        let host = Host::log_in(&world, ID).await;
        let asked = async |cdb| host.raw(cdb, Pieces::new(), 512).await;
        assert_eq!(asked(read).await, (2, vec![]), "NOT READY");
        let luns = asked(report_luns).await;
        let (data, designators) = (asked(inquiry(0)).await, asked(inquiry(0x83)).await);
        assert_eq!(luns, (0, [&[0, 0, 0, 8][..], &[0; 12]].concat()));
        assert!(designators.0 == 0 && designators.1.len() > 20, "{designators:?}");
        (0..2).for_each(|i| disk(i).resume());
        array.apply(array.config().clone()).await.expect("again");
        assert_eq!(asked(read).await.0, 0);
        assert_eq!(asked(inquiry(0)).await, data);
        assert_eq!(asked(inquiry(0x83)).await, designators);
        assert_eq!(asked(report_luns).await, luns);
    });
}

#[test]
fn a_declaration_that_is_refused_leaves_no_label_no_name_and_no_open_drive() {
    let blank = vec![vec![0_u8; DISK_BYTES as usize]; 5];
    let mut media = blank.clone();
    media[4][1 << 20] = 1;
    let model = model_with(&media);
    model.run(async |world| {
        let mut array = start(&world);
        let config = declaration(ID, 2, vec![group("g", Level::Raid1, 0..2)]);
        array.apply(config.clone()).await.expect("apply");
        // A second group that can be made, and a third whose drive is not blank.
        let mut more = declaration(ID, 5, vec![group("g", Level::Raid1, 0..2)]);
        more.groups.push(group("h", Level::Raid0, 2..3));
        more.groups.push(group("k", Level::Raid1, 3..5));
        let refused = array.apply(more.clone()).await.expect_err("a drive is not blank");
        assert!(refused.to_string().contains("not blank"), "{refused}");
        assert_eq!(*array.config(), config);
        let status = array.status().await.expect("status");
        let names: Vec<&str> = status[0].drives.iter().map(|d| d.name.as_str()).collect();
        assert_eq!((names.as_slice(), status[0].groups.len()), (&["d0", "d1"][..], 1));
        // Without the culprit the same names are free.
        more.groups.pop();
        array.apply(more).await.expect("now it is made");
        assert_eq!(array.status().await.expect("status")[0].groups.len(), 2);
        array.stop().await.expect("stop");
    });
    let after = media_of(&model, 5);
    assert!(after[3] == media[3] && after[4] == media[4], "drives of the refused group are as they were");
    assert!(after[2] != media[2], "the group that was made in the end has its label");
}

#[test]
fn only_the_drives_that_are_named_are_overwritten() {
    let blank = vec![0_u8; DISK_BYTES as usize];
    let mut used = blank.clone();
    used[1 << 20] = 1;
    let media = vec![used.clone(), blank, used];
    let model = model_with(&media);
    let named = ["d0".to_owned()];
    model.run(async |world| {
        let mut array = start(&world);
        let config = declaration(ID, 3, vec![group("g", Level::Raid5, 0..3)]);
        let refused = array.apply_over(config, &named).await.expect_err("the third is not named").to_string();
        assert!(refused.contains("d2") && refused.contains("not named"), "{refused}");
    });
    assert!(has(&model, &media), "a medium has changed");
    model.run(async |world| {
        let mut array = start(&world);
        let config = declaration(ID, 2, vec![group("g", Level::Raid1, 0..2)]);
        array.apply_over(config, &named).await.expect("the one is named, the other blank");
        array.stop().await.expect("stop");
    });
    assert!(media_of(&model, 3)[2] == media[2]);
}

#[test]
fn a_device_that_is_another_one_now_is_not_opened_until_it_is_found() {
    let mut before = first_life(Level::Raid1, 2, ID);
    before.made.displaced = [("d0".to_owned(), "it is another device now".to_owned())].into();
    let model = model_with(&before.media);
    model.run(async |world| {
        let (mut array, applied) = again(&world, &before, Next::Restart).await;
        applied.expect("it starts without");
        let status = array.status().await.expect("status").remove(0);
        let told = |e: &crate::Event| e.text.contains("it is another device now");
        assert!(status.events.iter().any(told), "{:?}", status.events);
        // The other side of the mirror may be older: nobody can tell.
        assert_eq!((status.missing.len(), status.drives.iter().any(|d| d.name == "d0")), (3, false));
        assert!(has(&model, &before.media), "a medium has changed");
        array.set_displaced(std::collections::BTreeMap::new());
        array.apply(array.config().clone()).await.expect("again");
        assert!(array.status().await.expect("status")[0].missing.is_empty());
        array.stop().await.expect("stop");
    });
}
