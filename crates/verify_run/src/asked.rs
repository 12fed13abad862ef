//! What the claims of a scenario ask for: which quantity, of which load, in which phase, on which array.

use std::collections::BTreeMap;

use lab_core::bound::Bound;
use lab_core::claim::{ClaimSpec, Claims, Compares, Kind};
use lab_core::record::World;
use lab_core::toml_text::TomlFileError;

use super::lines::Text;
use super::names::Names;
use super::plan::{ArrayPlan, LoadPlan, PhasePlan};
use super::scenario::{ClaimTable, Quantity, Written};

/// Where something is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct At {
    /// None: all loads that run.
    pub(super) load: Option<usize>,
    pub(super) phase: usize,
    /// None: each array.
    pub(super) array: Option<usize>,
}

/// What a claim asks for.
#[derive(Clone, Debug)]
pub(super) struct Asked {
    pub(super) id: String,
    pub(super) quantity: Quantity,
    pub(super) at: At,
    /// Divided by the same there.
    pub(super) compared_with: Option<At>,
    /// Only in this world.
    pub(super) world: Option<World>,
}

/// The most volumes of a load with which a bound holds.
#[derive(Clone, Debug)]
pub(super) struct Search {
    pub(super) load: usize,
    pub(super) quantity: Quantity,
    pub(super) at: At,
    pub(super) bound: Bound,
}

/// What can be asked for.
pub(super) struct Places<'a> {
    arrays: Names,
    loads: Names,
    phases: Names,
    load_plans: &'a [LoadPlan],
    phase_plans: &'a [PhasePlan],
}

impl<'a> Places<'a> {
    pub(super) fn new(
        arrays: &[ArrayPlan],
        load_plans: &'a [LoadPlan],
        phase_plans: &'a [PhasePlan],
    ) -> Places<'a> {
        Places {
            arrays: Names::of(arrays.iter().map(|array| array.name.as_str())),
            loads: Names::of(load_plans.iter().map(|load| load.name.as_str())),
            phases: Names::of(phase_plans.iter().map(|phase| phase.name.as_str())),
            load_plans,
            phase_plans,
        }
    }

    /// The place of these names; a key and a cause where there is none.
    fn find(&self, load: Option<&str>, phase: Option<&str>, array: Option<&str>) -> Result<At, Wrong> {
        let one = |names: &Names, key: &'static str, name: Option<&str>| {
            name.map(|name| names.one(key, name)).transpose().map_err(|cause| (key, cause))
        };
        let load = one(&self.loads, "load", load)?;
        let phase = match (one(&self.phases, "phase", phase)?, self.phase_plans) {
            (Some(phase), _) => phase,
            (None, [_]) => 0,
            (None, _) => return Err(("phase", "missing phase: the scenario has several".into())),
        };
        let plan = &self.phase_plans[phase];
        if let Some(load) = load.filter(|load| !plan.loads.contains(load)) {
            let name = &self.load_plans[load].name;
            return Err(("load", format!("load {name:?} does not run in phase {:?}", plan.name)));
        }
        let array = one(&self.arrays, "array", array)?;
        Ok(At { load, phase, array })
    }
}

type Wrong = (&'static str, String);

/// `[search]`, where there is one.
pub(super) fn search(
    written: &Written,
    places: &Places<'_>,
    at: Text<'_>,
) -> Result<Option<Search>, TomlFileError> {
    let Some(table) = &written.search else { return Ok(None) };
    let wrong = |key: &str, cause: String| at.wrong(&[("search", 0)], key, cause);
    let load = places.loads.one("load", &table.load).map_err(|cause| wrong("load", cause))?;
    let of = table.of.as_deref().unwrap_or(&table.load);
    let place =
        places.find(Some(of), table.phase.as_deref(), None).map_err(|(key, cause)| wrong(key, cause))?;
    let bound = table.bound();
    if table.metric.is_of_array() || table.metric == Quantity::Failed {
        return Err(wrong("metric", "invalid metric: must be one of a load that is timed".into()));
    }
    if bound.lower.iter().chain(&bound.upper).any(|end| !end.value.is_finite()) {
        return Err(wrong("metric", "invalid bound: must be a finite number".into()));
    }
    if bound.lower.is_some() == bound.upper.is_some() {
        return Err(wrong("metric", "missing bound: at_least or at_most".into()));
    }
    Ok(Some(Search { load, quantity: table.metric, at: place, bound }))
}

/// The claims of the scenario, and what each asks for.
pub(super) fn claims(
    written: &Written,
    places: &Places<'_>,
    has_search: bool,
    at: Text<'_>,
) -> Result<(Vec<Asked>, Claims), TomlFileError> {
    let (mut asked, mut specs, mut lines) = (Vec::new(), Vec::new(), BTreeMap::new());
    for (n, table) in written.claims.iter().enumerate() {
        let wrong =
            |(key, cause): Wrong| at.wrong(&[("claim", n)], key, format!("claim {:?}: {cause}", table.id));
        asked.push(what(table, places, has_search).map_err(wrong)?);
        specs.push(spec(table));
        lines.insert(table.id.as_str(), n);
        // Each by itself, and those before it: so the message has the line of the one that is wrong.
        let ids: Vec<&str> = lines.keys().copied().collect();
        let claims: Claims = specs.iter().cloned().collect();
        if let Some(cause) = claims.fault(&ids) {
            return Err(at.wrong(&[("claim", n)], "id", cause));
        }
    }
    match specs.is_empty() {
        true => Err(at.wrong(&[], "claim", "missing [[claim]]: add at least one claim")),
        false => Ok((asked, specs.into_iter().collect())),
    }
}

fn what(table: &ClaimTable, places: &Places<'_>, has_search: bool) -> Result<Asked, Wrong> {
    let phase = match table.metric {
        // What is of the whole run is found at its end, whichever phase that is.
        Quantity::RebuildTime | Quantity::LargestCount if table.phase.is_none() => {
            places.phase_plans.last().map(|phase| phase.name.as_str())
        }
        _ => table.phase.as_deref(),
    };
    let at = places.find(table.load.as_deref(), phase, table.array.as_deref())?;
    let quantity = table.metric;
    if quantity.is_of_array() && table.load.is_some() {
        return Err(("load", format!("{} is of an array: leave out load", quantity.name())));
    }
    if quantity == Quantity::LargestCount && !has_search {
        return Err(("metric", "largest_count requires [search]".into()));
    }
    if quantity == Quantity::RebuildTime && places.phase_plans.iter().all(|phase| phase.pull.is_empty()) {
        return Err(("metric", "rebuild_time requires a phase with pull".into()));
    }
    if table.compared_with.is_some() && matches!(quantity, Quantity::LargestCount | Quantity::RebuildTime) {
        return Err((
            "compared_with",
            format!("{} is not compared: leave out compared_with", quantity.name()),
        ));
    }
    if let Some(key) = cannot_fail(table) {
        let cause = format!("invalid bound: {} is never less, so the claim cannot fail", quantity.name());
        return Err((key, cause));
    }
    if let Some(key) = cannot_hold(table) {
        let cause = format!("invalid bound: {} is never less, so the claim cannot hold", quantity.name());
        return Err((key, cause));
    }
    let compared_with = table.compared_with.as_ref().map(|other| {
        let or = |own: &Option<String>, than: &Option<String>| own.clone().or_else(|| than.clone());
        let load = or(&other.load, &table.load);
        let (phase, array) = (other.phase.as_deref().or(phase), or(&other.array, &table.array));
        places.find(load.as_deref(), phase, array.as_deref())
    });
    let compared_with = compared_with.transpose().map_err(|(_, cause)| ("compared_with", cause))?;
    if compared_with == Some(at) {
        return Err(("compared_with", "compared_with is the same place".into()));
    }
    if compared_with.is_some_and(|other| other.array.is_some() && at.array.is_none()) {
        return Err(("compared_with", "missing array: the comparison requires one".into()));
    }
    Ok(Asked { id: table.id.clone(), quantity, at, compared_with, world: table.world })
}

/// The key of a bound that everything keeps to: no quantity, and no ratio of two, is below zero. Of a claim
/// that says itself that it could not have failed nothing is wrong.
fn cannot_fail(table: &ClaimTable) -> Option<&'static str> {
    if table.kind != Kind::Emerges || table.at_most.is_some() || table.below.is_some() || is_difference(table)
    {
        return None;
    }
    let at_least = table.at_least.filter(|least| *least <= 0.0).map(|_| "at_least");
    at_least.or_else(|| table.above.filter(|most| *most < 0.0).map(|_| "above"))
}

/// The key of a bound that nothing keeps to.
fn cannot_hold(table: &ClaimTable) -> Option<&'static str> {
    let at_most = table.at_most.filter(|most| *most < 0.0).map(|_| "at_most");
    let below = table.below.filter(|most| *most <= 0.0).map(|_| "below");
    at_most.or(below).filter(|_| !is_difference(table))
}

/// Whether it is about how much more there are, which can be less than none.
fn is_difference(table: &ClaimTable) -> bool {
    matches!(table.metric, Quantity::Failed) && table.compared_with.is_some()
}

fn spec(table: &ClaimTable) -> ClaimSpec {
    let ClaimTable { id, name, about, kind, published, source, world, note, .. } = table.clone();
    let unit = if table.compared_with.is_some() { "×" } else { table.metric.unit() };
    let counts = matches!(table.metric, Quantity::Failed) && table.compared_with.is_none();
    let compares = table.compared_with.is_some().then_some(match is_difference(table) {
        true => Compares::Difference,
        false => Compares::Ratio,
    });
    ClaimSpec {
        id,
        name,
        about,
        kind,
        unit: unit.into(),
        published,
        source,
        at_least: table.at_least,
        at_most: table.at_most,
        above: table.above,
        below: table.below,
        measured_bound: None,
        not_judged: None,
        world,
        counted: counts,
        compares,
        figure: None,
        note,
    }
}
