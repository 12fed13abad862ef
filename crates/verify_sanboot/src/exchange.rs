//! What if the drives were others: how many times as fast they do what a pattern asks of them, by their
//! models.

use anyhow::{Context, Result};
use world_model::drives::{DriveModel, DriveParameters, Kind};

use super::results::{Pattern, Results};
use lab_tools::drives::{Load, load, measure};
use lab_tools::predict::{Change, WhatIf};

/// Requests of a measurement: their mean scatters by less than a hundredth.
const REQUESTS: u64 = 4000;
/// What a drive has to sort: of reads what a server keeps outstanding, of writes what an array destages at
/// once.
const READS_AT_ONCE: u64 = 4;
const WRITES_AT_ONCE: u64 = 32;

/// What is asked for as factors for one pattern.
pub fn changes(results: &Results, pattern: Pattern, asked: &[WhatIf]) -> Result<Vec<Change>> {
    let change = |one: &WhatIf| match one {
        WhatIf::Change(change) => Ok(change.clone()),
        WhatIf::Drive(name) => {
            let stated = results.conditions.iter().find(|condition| condition.name == "array.drive");
            let stated = stated.context("the drives of the run are unknown; pass a factor")?;
            Ok(Change::Drives(times(pattern, &load(&stated.value)?, &load(name)?)?))
        }
    };
    asked.iter().map(change).collect()
}

/// How many times as fast `new` does what the pattern asks of drives as `old`, both on as much of them as the
/// smaller one has.
fn times(pattern: Pattern, old: &DriveParameters, new: &DriveParameters) -> Result<f64> {
    let within = DriveModel::new(old)?.len_blocks().min(DriveModel::new(new)?.len_blocks());
    let reads = f64::from(pattern.read_percent()) / 100.0;
    let each_s = |drive: &DriveParameters| -> Result<f64> {
        let mut sum = 0.0;
        for (kind, share, at_once) in
            [(Kind::Read, reads, READS_AT_ONCE), (Kind::Write, 1.0 - reads, WRITES_AT_ONCE)]
        {
            let load = match pattern.is_random() {
                true => Load { within: Some(within), ..Load::random_4k(kind, at_once, REQUESTS) },
                false => Load::stream(kind, 0.0),
            };
            sum += share / measure(drive, &load)?.per_s;
        }
        Ok(sum)
    };
    Ok(each_s(old)? / each_s(new)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_faster_drive_is_faster_in_what_its_sheet_says() {
        let of = |pattern, new: &str| {
            times(pattern, &load("savvio-10k1").expect("a drive"), &load(new).expect("a drive"))
                .expect("times")
        };
        assert!((of(Pattern::RandomRead, "savvio-10k1") - 1.0).abs() < 1e-9);
        let (reads, streams) =
            (of(Pattern::RandomRead, "cheetah-15k5"), of(Pattern::SequentialRead, "cheetah-15k5"));
        assert!((1.2..1.7).contains(&reads), "15,000 over 10,000 turns, and shorter seeks: {reads}");
        assert!((1.7..2.1).contains(&streams), "125 over 65 MB/s: {streams}");
    }
}
