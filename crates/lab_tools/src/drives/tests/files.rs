//! Drive files: what is wrong with them is said with file, line and cause, and none is a panic.

use super::*;
use world::Rng;
use world_model::drives::{Completion, DriveModel, Kind, Request, catalogue};

#[test]
fn all_files_of_the_catalogue_read() {
    for (name, _) in CATALOGUE {
        if let Err(e) = load(name) {
            panic!("{e}");
        }
    }
}

#[test]
fn the_constants_of_the_model_say_what_the_files_say() {
    assert_eq!(hard_disk("cheetah-15k5"), catalogue::CHEETAH_15K5);
    assert_eq!(load("sata-ssd").unwrap(), DriveParameters::Flash(catalogue::SATA_SSD.clone()));
    assert_eq!(load("nvme-ssd").unwrap(), DriveParameters::Flash(catalogue::NVME_SSD.clone()));
}

fn text_of(name: &str) -> &'static str {
    CATALOGUE.iter().find(|(found, _)| *found == name).expect("a drive of the catalogue").1
}

/// A file of the catalogue with one change, and what must be in the message.
fn check_refuses(name: &str, from: &str, to: &str, parts: &[&str]) {
    let text = text_of(name);
    assert!(text.contains(from), "{from:?} is not in {name}");
    let changed = text.replacen(from, to, 1);
    let message = match parse(&changed, "mine.toml") {
        Ok(_) => panic!("{to:?} was taken"),
        Err(e) => e.to_string(),
    };
    let line = 1 + text[..text.find(from).unwrap_or_default()].matches('\n').count();
    for part in parts {
        let part = part.replace("LINE", &line.to_string());
        assert!(message.contains(&part), "{part:?} is not in {message:?}");
    }
}

#[test]
fn a_file_that_cannot_be_is_refused_with_place_and_cause() {
    let check = |from, to, parts: &[&str]| check_refuses("cheetah-15k5", from, to, parts);
    check("rpm = 15000", "rpm = ", &["mine.toml:LINE:"]);
    check("rpm = 15000", "rpm = \"fast\"", &["mine.toml:LINE:", "fast"]);
    check("rpm = 15000", "rpm = 0", &["mine.toml:LINE:", "invalid rpm 0", "60 to 1000000"]);
    check("rpm = 15000", "rpm = nan", &["mine.toml:", "invalid rpm NaN"]);
    check("heads = 4", "head = 4", &["mine.toml:LINE:", "unknown key `head`"]);
    check("heads = 4", "heads = 0", &["mine.toml:", "0 for the number of heads", "1 to 64"]);
    check("full_us = 7900", "full_us = 9e9", &["mine.toml:LINE:", "invalid full_us 9000000000"]);
    check("average_us = 3500", "average_us = 100", &["seek times", "must ascend"]);
    check("average_us = 3500", "", &["mine.toml:", "either single_us, average_us and full_us"]);
    check("[7801, 14200,", "[7800, 14200,", &["mine.toml:", "zone 1", "do not follow"]);
    check("heads = 4", "heads = 4\nlen_blocks = 999999999999", &["invalid size of 999999999999 blocks"]);
    check("bus_mb_per_s = 300", "", &["either bus_mb_per_s or bus_us_per_block"]);
    check("policy = \"sptf\"", "policy = \"elevator\"", &["mine.toml:", "elevator"]);
    check("[hard_disk]", "[disk]", &["mine.toml:"]);
    check("name = \"Cheetah 15K.5 146 GB\"", "name = \"\"", &["mine.toml:LINE:", "empty name"]);
    // Reads have this key, too, and nan is equal to nothing.
    check("full_us = 7900", "full_us = nan", &["mine.toml:LINE:", "invalid full_us NaN"]);
    check_refuses("sata-ssd", "units = 8", "units = 0", &["0 for the number of units"]);
    check_refuses("sata-ssd", "units = 8", "units = -8", &["mine.toml:LINE:"]);
    let empty = parse("", "mine.toml").expect_err("nothing is no drive").to_string();
    assert!(empty.contains("one table, [hard_disk] or [flash]"), "{empty}");
}

#[test]
fn a_name_that_is_neither_in_the_catalogue_nor_a_file_is_told_what_there_is() {
    let message = load("cheetah-16k").expect_err("there is none").to_string();
    assert!(message.contains("cheetah-16k: ") && message.contains("cheetah-15k5"), "{message}");
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("long.toml");
    std::fs::write(&path, " ".repeat((1 << 20) + 1)).expect("written");
    let message = load(path.to_str().expect("a path")).expect_err("too long").to_string();
    assert!(message.contains("longer than 1048576 bytes"), "{message}");
    std::fs::write(&path, text_of("savvio-10k1")).expect("written");
    assert_eq!(load(path.to_str().expect("a path")).expect("a drive"), load("savvio-10k1").expect("a drive"));
}

/// Changes some characters, mostly digits.
fn spoiled(text: &str, rng: &mut Rng) -> String {
    let mut bytes = text.as_bytes().to_vec();
    for _ in 0..=rng.usize(..3) {
        let digits: Vec<usize> = (0..bytes.len()).filter(|i| bytes[*i].is_ascii_digit()).collect();
        let at = if rng.u8(..4) > 0 { digits[rng.usize(..digits.len())] } else { rng.usize(..bytes.len()) };
        match rng.u8(..4) {
            0 => drop(bytes.remove(at)),
            1 => bytes.insert(at, b"0123456789-.e[]=#\n"[rng.usize(..18)]),
            2 => drop(bytes.splice(at..at, *b"999999999999")),
            _ => bytes[at] = b'0' + rng.u8(..10),
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[test]
fn spoiled_files_are_refused_or_make_drives_that_work() {
    let (mut refused, mut worked) = (0, 0);
    for seed in 0..2000 {
        let mut rng = Rng::with_seed(seed);
        let text = spoiled(CATALOGUE[seed as usize % CATALOGUE.len()].1, &mut rng);
        let Ok(parameters) = parse(&text, "spoiled.toml") else {
            refused += 1;
            continue;
        };
        worked += 1;
        if worked % 8 > 0 {
            continue;
        }
        let mut drive = DriveModel::new(&parameters).expect("it was checked");
        let mut done: Vec<Completion> = Vec::new();
        for (token, kind) in [Kind::Read, Kind::Write, Kind::Read].into_iter().enumerate() {
            let block = rng.u64(..drive.len_blocks());
            drive.submit(0, Request { token: token as u64, kind, block, blocks: 1 }, &mut done);
        }
        while let Some(due_ns) = drive.due_ns() {
            drive.wake(due_ns, &mut done);
        }
        assert_eq!(done.len(), 3, "seed {seed}");
    }
    assert!(worked > 100 && refused > 100, "{worked} worked, {refused} were refused");
}

/// `drive measure` wrote a file with the link of 1,774,240 MB/s, which masu then refused.
#[test]
fn no_drive_file_is_written_that_cannot_be_read() {
    let DriveParameters::Flash(flash) = load("nvme-ssd").expect("a drive") else { panic!("it has no arm") };
    let text = |rate: u64| {
        let flash = world_model::drives::FlashParameters { link_write_bytes_per_s: rate, ..flash.clone() };
        checked_text(&DriveParameters::Flash(flash), &["about".into()]).map_err(|error| error.to_string())
    };
    assert!(text(1_000_000_000_000).is_ok());
    let refused = text(1_774_240_000_000).expect_err("beyond any link");
    assert!(
        refused.contains("invalid link_write_mb_per_s 1774240: must be a number from 0.001"),
        "{refused}"
    );
}
