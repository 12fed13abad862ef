//! Files, and modelled drives against what was measured and published.

use super::*;
use world_model::drives::{DriveParameters, HardDiskParameters, catalogue};

fn hard_disk(name: &str) -> HardDiskParameters {
    match load(name).expect("a drive of the catalogue") {
        DriveParameters::HardDisk(disk) => disk,
        DriveParameters::Flash(_) => panic!("{name} is no hard disk"),
    }
}

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
