//! The published experiment at its own size, in virtual time.
//!
//! ```text
//!   run ──> Bed (the array with the template, thick and thin) ──> Piece: one operation on a fresh copy of it
//!            host (its code) ──> ModelledPort: processors, 1 GbE ──> the array's own code on modelled drives
//! ```

mod bed;
pub(crate) mod inputs;
mod piece;
pub(crate) mod sizes;

use std::sync::Mutex;

use anyhow::Result;
use lab_core::interrupt::Stop;
use lab_core::parallel;
use lab_core::progress::Progress;
use lab_core::verification::Request;

use crate::Options;
use crate::measures::Faults;
use crate::record::Record;
use crate::recording::Recording;
use crate::scenario::Vaai;
use bed::{Bed, Space};
use piece::{Piece, Stand};
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
    let stand = Stand { vaai, sizes: &sizes, thick, thin, seed: request.seed };
    let product = Mutex::new(String::new());
    let work = |index: usize, begins: &dyn Fn(String)| {
        begins(pieces[index].words());
        let found = stand.play(pieces[index])?;
        product.lock().expect("nothing panics with it").clone_from(&found.product);
        anyhow::Ok(found)
    };
    let done = parallel::run((pieces.len(), parallel::cores()), stop, work, |text| progress.step(&text))?;
    progress.end();
    let (mut record, mut faults) = (Record { repeats: 1, ..Record::default() }, Faults::default());
    for (_, found) in done {
        record.append(found.record);
        faults.owners.extend(found.violations);
    }
    let not_filled = "the model fills no pool: the real form does";
    record.not_judged.insert("thin", not_filled.into());
    let product = product.into_inner().expect("nothing panics with it");
    Ok(Recording { record, faults, product, stopped: stop.is_asked(), ..stopped() })
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
