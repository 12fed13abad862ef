//! The published experiment at its own size, in virtual time.
//!
//! ```text
//!   run ──> Bed (the array with the template, thick and thin) ──> Piece: one operation on a fresh copy of it
//!    Piece: bulk operations, power-ons, and what else hosts leave to the array (`daily`)
//!            host (its code) ──> ModelledPort: processors, 1 GbE ──> the array's own code on modelled drives
//! ```

mod bed;
mod daily;
mod guest;
pub(crate) mod inputs;
mod piece;
pub(crate) mod sizes;

use std::sync::Mutex;

use anyhow::Result;
use lab_core::interrupt::{Stop, unless_abandoned};
use lab_core::parallel;
use lab_core::progress::Progress;
use lab_core::verification::Request;

use crate::Options;
use crate::measures::Faults;
use crate::record::Record;
use crate::recording::Recording;
use crate::scenario::Vaai;
use bed::{Bed, Space};
use piece::{Found, Piece, Stand};
use sizes::Sizes;

/// Every operation, each on the next free core.
pub(crate) fn run(vaai: &Vaai, request: &Request, own: &Options, stop: &Stop) -> Result<Recording> {
    let sizes = Sizes::of(vaai, own.quick);
    let pieces = Piece::all();
    let progress = Progress::new(pieces.len() as u64 + 1);
    progress.step("the array and its template are made");
    let beds = [Space::Thick, Space::Thin];
    let make = |index: usize, _: &dyn Fn(())| Bed::make(vaai, &sizes, beds[index], request.seed);
    let made = parallel::run((beds.len(), parallel::cores()), stop, make, |()| ())?;
    let beds: Vec<Bed> = made.into_iter().map(|(_, bed)| bed).collect();
    let [thick, thin] = &beds[..] else { return Ok(stopped()) };
    let daily = vaai.daily.of(own.quick);
    let stand = Stand { vaai, sizes: &sizes, daily, thick, thin, seed: request.seed, stop };
    let product = Mutex::new(String::new());
    let work = |index: usize, begins: &dyn Fn(String)| {
        begins(pieces[index].words());
        let Some(found) = unless_abandoned(stand.play(pieces[index]))? else { return anyhow::Ok(None) };
        product.lock().expect("nothing panics with it").clone_from(&found.product);
        Ok(Some(found))
    };
    let done = parallel::run((pieces.len(), parallel::cores()), stop, work, |text| progress.step(&text))?;
    progress.end();
    let done = done.into_iter().filter_map(|(index, found)| Some((pieces[index], found?))).collect();
    let (record, faults) = gathered(done, pieces.len());
    let product = product.into_inner().expect("nothing panics with it");
    Ok(Recording { record, faults, product, stopped: stop.is_asked(), ..stopped() })
}

/// What the pieces that were done came to, of so many.
fn gathered(done: Vec<(Piece, Found)>, pieces: usize) -> (Record, Faults) {
    // What is missing of a run that was stopped was not refused: it was not begun.
    let repeats = usize::from(done.len() == pieces);
    let (mut record, mut faults) = (Record { repeats, ..Record::default() }, Faults::default());
    for (piece, found) in done {
        record.append(found.record);
        faults.power_ons += u64::from(matches!(piece, Piece::PowerOn(_)));
        faults.owners.extend(found.violations);
        faults.daily.extend(found.wrong);
    }
    let not_filled = "the model fills no pool: the real form does";
    record.not_judged.insert("thin", not_filled.into());
    (record, faults)
}

/// One that has nothing.
fn stopped() -> Recording {
    Recording {
        record: Record::default(),
        faults: Faults::default(),
        place: format!("masu {} on modelled drives", env!("CARGO_PKG_VERSION")),
        product: String::new(),
        is_embedded: true,
        is_model: true,
        stopped: true,
    }
}

#[cfg(test)]
mod tests {
    use lab_core::scenario::ScenarioFile;
    use lab_core::verdict::{Verdict, exit_status};
    use lab_core::world::World;

    use super::*;
    use crate::bulk::{Bulk, Way};
    use crate::measures::measures;
    use crate::power_on::Crowd;

    /// Ctrl-C once made a promise *not held* of every operation that had not begun, and held that no lock had
    /// two owners after no power-on at all.
    #[test]
    fn what_a_stopped_run_did_not_begin_is_not_judged() {
        let (vaai, _) = Vaai::load(None).expect("built in");
        let mut zeroed = Record::default();
        zeroed.add("zeroing", "off", 1, "time_s", 1092.0);
        let off = (Piece::Bulk(Bulk::Zeroing, Way::Off, Space::Thick), zeroed);
        let alone = (Piece::PowerOn(Crowd::Alone), Record::default());
        let judged = |done: &[&(Piece, Record)], id: &str| {
            let of = |(piece, record): &(Piece, Record)| {
                (*piece, Found { record: record.clone(), ..Found::default() })
            };
            let done = done.iter().map(|done| of(done)).collect();
            let (record, faults) = gathered(done, Piece::all().len());
            let claims = vaai.claims.judge(World::Model, &measures(&vaai, &record, &faults), false);
            assert_eq!(exit_status(&claims, true), 3);
            claims.into_iter().find(|claim| claim.id == id).expect("a claim").verdict
        };
        for id in ["zeroing.thick.time", "locking.saving", "locking.owners"] {
            assert_eq!(judged(&[&off], id), Verdict::NotJudged, "{id}");
        }
        assert_eq!(judged(&[&off], "zeroing.off.time"), Verdict::Held);
        assert_eq!(judged(&[&off, &alone], "locking.owners"), Verdict::Held);
    }

    /// Zero, less than nothing, beyond any machine, no number, nothing: each number of the scenario, one at a
    /// time.
    #[test]
    fn every_number_at_its_extremes_is_refused_or_played() {
        use lab_core::scenario::extremes::play_all;
        let (refused, played) = play_all(Vaai::BUILT_IN.0, |text| {
            let Ok(scenario) = Vaai::parse(text, "x.toml") else { return false };
            let request = Request { seed: 1, ..Request::default() };
            let own = Options { world: World::Model, quick: true };
            drop(run(&scenario, &request, &own, &Stop::after_looks(0)));
            true
        });
        assert!(refused > 50 && played > 10, "{refused} refused, {played} played");
    }
}
