//! The inputs that nobody published, one at a time around what the scenario has: which orderings come out for
//! which.

use anyhow::Result;
use lab_core::scenario::ScenarioFile;

use super::bed::Bed;
use super::claims;
use super::inputs::{Touches, Variation, variations};
use super::results::{Layout, Pattern, Point};
use super::run::{Job, results_of, run_jobs};
use super::scenario::Sanboot;
use super::survey::Survey;
use super::which::Which;
use lab_core::claim::JudgedClaim;
use lab_core::interrupt::Stop;
use lab_core::progress::Progress;
use lab_core::record::World;
use lab_core::report::{Column, Table, Value};
use lab_core::verdict::Verdict;
use lab_core::words::value;

/// The points that the orderings are judged by.
const POINTS: [(Pattern, Layout, &[u32]); 13] = [
    (Pattern::RandomRead, Layout::Raid5x4, &[5, 6, 8]),
    (Pattern::RandomRead, Layout::Raid1x8, &[5, 8]),
    (Pattern::RandomWrite, Layout::Raid5x4, &[5, 8]),
    (Pattern::SequentialRead, Layout::Raid5x4, &[1, 8]),
    (Pattern::SequentialRead, Layout::Raid1x8, &[1, 8]),
    (Pattern::SequentialWrite, Layout::Raid5x4, &[1, 8]),
    (Pattern::SequentialWrite, Layout::Raid1x8, &[1, 8]),
    (Pattern::SequentialMix, Layout::Raid1x8, &[8, 9]),
    (Pattern::RandomRead, Layout::Internal, &[1]),
    (Pattern::RandomWrite, Layout::Internal, &[1]),
    (Pattern::SequentialRead, Layout::Internal, &[1]),
    (Pattern::SequentialWrite, Layout::Internal, &[1]),
    (Pattern::SequentialMix, Layout::Internal, &[1]),
];

/// The orderings of the published experiment: the claim, and the head of its column.
const ORDERINGS: [(&str, &str); 10] = [
    ("random_read.raid5", "random reads, 8: RAID5 below internal"),
    ("random_read.crossing", "RAID5 below internal from"),
    ("random_read.raid1", "random reads, 8: RAID1 not below"),
    ("random_write.fall", "random writes: RAID5 falls from 5 to 8"),
    ("random_write.least", "random writes: RAID5 never below internal"),
    ("sequential_read.least", "sequential reads far above internal"),
    ("sequential_write.least", "sequential writes far above internal"),
    ("sequential_mix.own", "sequential 75/25, 8: RAID1 fine"),
    ("sequential_mix.ninth", "sequential 75/25: the 9th costs"),
    ("layouts", "random reads, 8: RAID1 above RAID5"),
];

/// What a variation gave.
pub(crate) struct Row {
    input: String,
    value: String,
    /// What of the published text speaks against it.
    against: Option<&'static str>,
    /// In the order of [`ORDERINGS`].
    judged: Vec<Option<JudgedClaim>>,
}

impl Row {
    /// The orderings that were seen not to hold.
    fn fails(&self) -> usize {
        self.judged.iter().flatten().filter(|j| j.verdict == Verdict::NotHeld).count()
    }
}

/// What is run of a variation.
struct Tried {
    variation: Variation,
    sanboot: Sanboot,
    beds: Vec<Bed>,
}

/// Runs the default and every variation of it.
pub(crate) fn sweep(base: &Sanboot, (seed, threads): (u64, usize), stop: &Stop) -> Result<Vec<Row>> {
    let tried = variations().into_iter().map(|variation| tried(base, variation, seed));
    let tried = tried.collect::<Result<Vec<Tried>>>()?;
    let mut owners = Vec::new();
    let mut jobs = Vec::new();
    for (owner, one) in tried.iter().enumerate() {
        for (pattern, layout, servers) in POINTS {
            let Some(bed) = one.beds.iter().find(|bed| bed.layout == layout) else { continue };
            for &servers in servers {
                owners.push(owner);
                jobs.push(Job {
                    sanboot: &one.sanboot,
                    bed,
                    which: Which::in_turn(pattern, layout, servers),
                });
            }
        }
    }
    let progress = Progress::new(tried.len() as u64);
    let done = run_jobs(&jobs, (seed, threads), stop, |index| {
        if index == 0 || owners[index] != owners[index - 1] {
            progress.step(&tried[owners[index]].variation.words());
        }
    })?;
    progress.end();
    let mut points: Vec<Vec<Point>> = vec![Vec::new(); tried.len()];
    for (index, (point, _)) in done {
        points[owners[index]].push(point);
    }
    Ok(rows(&tried, &points, seed))
}

/// A variation with the arrays and disks that it changes; the first has all.
fn tried(base: &Sanboot, variation: Variation, seed: u64) -> Result<Tried> {
    let mut sanboot = base.clone();
    (variation.change)(&mut sanboot);
    let sanboot = sanboot.checked(&variation.words())?;
    let layouts = Layout::MODELLED.into_iter().filter(|layout| variation.touches.has(*layout));
    let beds = layouts.map(|layout| Bed::make(&sanboot, layout, seed)).collect::<Result<Vec<Bed>>>()?;
    Ok(Tried { variation, sanboot, beds })
}

/// Judged are the variation's own points, and where it changes nothing those of the first.
fn rows(tried: &[Tried], points: &[Vec<Point>], seed: u64) -> Vec<Row> {
    let each = tried.iter().zip(points);
    each.map(|(one, own)| {
        let is_own = |p: &&Point| one.variation.touches.has(p.layout);
        let all = own.iter().chain(points[0].iter().filter(|p| !is_own(p))).cloned().collect();
        let results = results_of(&one.sanboot, seed, all);
        let measures = claims::orderings(&Survey::of_points(&results));
        let mut judged = one.sanboot.claims.judge(World::Model, &measures, false);
        let of = |(id, _): &(&str, &str)| {
            let place = judged.iter().position(|claim| claim.id == *id)?;
            Some(judged.swap_remove(place))
        };
        Row {
            input: one.variation.input.into(),
            value: (one.variation.value)(&one.sanboot),
            against: one.variation.against,
            judged: ORDERINGS.iter().map(of).collect(),
        }
    })
    .collect()
}

/// The rows as a table of the report.
pub(crate) fn table(rows: &[Row]) -> Table {
    let text = |name: &str| Column { name: name.into(), unit: None, numeric: false };
    let columns = ["input", "value", "published against it"]
        .into_iter()
        .chain(ORDERINGS.map(|(_, head)| head))
        .map(text);
    let cell = |judged: &Option<JudgedClaim>| {
        Value::Text(judged.as_ref().map_or("–".into(), |j| {
            let measured = j.interval().map_or("never".into(), |e| format!("{} {}", value(&e), j.unit));
            format!("{}: {measured}", j.verdict.words())
        }))
    };
    let row = |row: &Row| {
        let head = [&row.input, &row.value, row.against.unwrap_or("–")];
        head.map(|text| Value::Text(text.into())).into_iter().chain(row.judged.iter().map(cell)).collect()
    };
    Table {
        id: "sweep".into(),
        title: summary(rows),
        columns: columns.collect(),
        rows: rows.iter().map(row).collect(),
    }
}

/// How many of the orderings hold for how many of the choices, and of those that the published text leaves
/// open.
pub(crate) fn summary(rows: &[Row]) -> String {
    let open: Vec<&Row> = rows.iter().filter(|row| row.against.is_none()).collect();
    let whole = |rows: &[&Row]| rows.iter().filter(|row| row.fails() == 0).count();
    let always = (0..ORDERINGS.len()).filter(|at| {
        let has_failed = |row: &&Row| row.judged[*at].as_ref().is_some_and(|j| j.verdict == Verdict::NotHeld);
        !open.iter().any(has_failed)
    });
    format!(
        "Inputs that are not published, one at a time: all orderings hold for {} of {} choices that the published text leaves open, {} of {} orderings for every one of them; with {} choices that it contradicts, all hold for {} of {}",
        whole(&open),
        open.len(),
        always.count(),
        ORDERINGS.len(),
        rows.len() - open.len(),
        whole(&rows.iter().collect::<Vec<_>>()),
        rows.len()
    )
}

/// One line for each choice: which orderings it breaks.
pub(crate) fn lines(rows: &[Row]) -> Vec<String> {
    let broken = |row: &Row| -> Vec<String> {
        let failed = row.judged.iter().zip(ORDERINGS);
        let failed = failed.filter_map(|(j, (_, head))| Some((j.as_ref()?, head)));
        let failed = failed.filter(|(j, _)| j.verdict == Verdict::NotHeld);
        failed
            .map(|(j, head)| {
                let measured = j.interval().map_or("never".into(), |e| format!("{} {}", value(&e), j.unit));
                format!("not \"{head}\" ({measured})")
            })
            .collect()
    };
    rows.iter()
        .map(|row| {
            let broken = broken(row);
            let words = if broken.is_empty() { "all hold".into() } else { broken.join("; ") };
            let against = row.against.map_or(String::new(), |text| format!(" (published: {text})"));
            format!("{:<26} {:<18} {words}{against}", row.input, row.value)
        })
        .collect()
}

impl Touches {
    /// Whether it changes what is measured of a layout.
    fn has(self, layout: Layout) -> bool {
        match self {
            Touches::All => true,
            Touches::Array => layout != Layout::Internal,
            Touches::Raid5 => layout == Layout::Raid5x4,
            Touches::Internal => layout == Layout::Internal,
        }
    }
}
