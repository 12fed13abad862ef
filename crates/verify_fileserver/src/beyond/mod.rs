//! What the published experiment left out, one question a file.

mod growth;
mod ramp;
mod staged;
pub(super) mod vhdx;

use super::claims::Runs;
use super::model::Ran;
use super::scenario::Fileserver;
use lab_core::claim::Measure;
use lab_core::report::{Figure, Finding, Table};

/// What was measured for its claims.
pub(super) fn measures(ran: &Ran) -> Vec<Measure> {
    let runs = Runs::of(ran);
    let mut out = Vec::new();
    if let (Some(dynamic), Some(fixed), Some(vhdx)) = (runs.dynamic, runs.fixed, runs.vhdx) {
        out.extend(vhdx::measures(dynamic, fixed, vhdx));
    }
    if let Some(fixed) = runs.fixed {
        out.extend(ramp::measures(fixed, &ran.ramp));
    }
    out.extend(ran.growths.iter().flat_map(growth::measures));
    out.extend(ran.staged.iter().flat_map(staged::measures));
    out
}

/// The figures that show it.
pub(super) fn figures(scenario: &Fileserver, ran: &Ran) -> Vec<Figure> {
    let runs = Runs::of(ran);
    let mut out = Vec::new();
    if let (Some(dynamic), Some(fixed), Some(vhdx)) = (runs.dynamic, runs.fixed, runs.vhdx) {
        out.extend(vhdx::figures(scenario, &[dynamic, vhdx, fixed]));
    }
    if let Some(fixed) = runs.fixed.filter(|_| !ran.ramp.is_empty()) {
        out.push(ramp::figure(fixed, &ran.ramp));
    }
    out.extend(ran.growths.iter().map(growth::figure));
    out.extend(ran.staged.iter().map(staged::figure));
    out
}

/// What is better read as numbers.
pub(super) fn table(ran: &Ran) -> Table {
    staged::table(&ran.staged)
}

/// The resources that it speaks of.
pub(super) fn findings(scenario: &Fileserver, ran: &Ran) -> Vec<Finding> {
    let ramp = Runs::of(ran).fixed.and_then(|fixed| ramp::finding(scenario, fixed, &ran.ramp));
    ramp.into_iter().chain(ran.growths.iter().filter_map(growth::finding)).collect()
}
