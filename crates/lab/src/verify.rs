//! The table of verifications. The command line, `verify all`, the index and the overall tests derive from
//! it.

mod all;

use std::path::{Path, PathBuf};

use anyhow::{Result, bail, ensure};
use lab_core::claim::Claims;
use lab_core::record::{RunRecord, World};
use lab_core::verification::{self, Request, Sweep, Verification};

use verify_diskstress::Diskstress;
use verify_fileserver::Fileserver;
use verify_fileserver::real::Format;
use verify_qos::Qos;
use verify_run::Run;
use verify_sanboot::Sanboot;
use verify_sanboot::results::Layout;
use verify_vaai::Vaai;

pub use all::{Planned, Said, planned, run_all};

use {
    verify_diskstress as diskstress, verify_fileserver as fileserver, verify_qos as qos,
    verify_sanboot as sanboot, verify_vaai as vaai,
};

/// The options of the command line for single verifications; each takes its own.
#[derive(Clone, Debug, Default)]
#[expect(missing_docs, reason = "self-explanatory names")]
pub struct Asked {
    /// The quick form.
    pub quick: bool,
    pub world: World,
    /// Also a sweep over the ranges of the scenario, with so many points.
    pub sweep: Option<u32>,
    /// For sanboot: only these layouts; empty: all.
    pub layouts: Vec<Layout>,
    /// For a real fileserver: the formats of disks; empty: VHD.
    pub formats: Vec<Format>,
    /// For a real fileserver: the number of rounds; `None`: as in the scenario.
    pub repeats: Option<usize>,
    /// For a real fileserver: only the load, in this directory.
    pub directory: Option<PathBuf>,
    /// For a real diskstress: the directory of its image; `None`: the output folder.
    pub dir: Option<PathBuf>,
    /// For a real diskstress: the directory of the guest's kernel and initramfs.
    pub guest: Option<PathBuf>,
}

impl From<&Asked> for vaai::Options {
    fn from(asked: &Asked) -> Self {
        vaai::Options { quick: asked.quick, world: asked.world }
    }
}

impl From<&Asked> for qos::Options {
    fn from(asked: &Asked) -> Self {
        qos::Options { quick: asked.quick, world: asked.world }
    }
}

impl From<&Asked> for sanboot::Options {
    fn from(asked: &Asked) -> Self {
        let Asked { quick, world, .. } = *asked;
        sanboot::Options { quick, layouts: asked.layouts.clone(), world }
    }
}

impl From<&Asked> for fileserver::Options {
    fn from(asked: &Asked) -> Self {
        let Asked { quick, world, repeats, .. } = *asked;
        let (formats, directory) = (asked.formats.clone(), asked.directory.clone());
        fileserver::Options { quick, world, formats, repeats, directory }
    }
}

impl From<&Asked> for diskstress::Options {
    fn from(asked: &Asked) -> Self {
        let Asked { quick, world, .. } = *asked;
        diskstress::Options { quick, world, dir: asked.dir.clone(), guest: asked.guest.clone() }
    }
}

/// Those that are only told where they run.
impl From<&Asked> for World {
    fn from(asked: &Asked) -> Self {
        asked.world
    }
}

/// Those that are asked nothing of their own.
impl From<&Asked> for () {
    fn from(_: &Asked) -> Self {}
}

/// In which world a verification has an option of the command line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "self-explanatory names")]
pub enum In {
    Both,
    Model,
    Real,
}

/// An option that not all verifications have, and where one has it.
pub type Has = (&'static str, In);

/// An entry of the table.
#[derive(Debug)]
#[expect(missing_docs, reason = "self-explanatory names")]
pub struct Row {
    /// Its name on the command line.
    pub name: &'static str,
    pub question: &'static str,
    /// Runs it, writes its folder and prints the answer.
    pub run: fn(&Request, &Asked) -> Result<RunRecord>,
    /// The claims of its scenario: the built-in one, or a file that replaces it.
    pub claims: fn(Option<&Path>) -> Result<Claims>,
    /// The options that it has besides those that all have: seed, output folder, scenario, world.
    pub options: &'static [Has],
    /// What of a request for all of them is not for this one.
    in_all: fn(&mut Request, &mut Asked),
}

/// Options that a run of all verifications, most of them in the model, has no use for.
const NOT_IN_ALL: [&str; 4] = ["target", "destroy-data", "formats", "directory"];

/// What is wrong with options that were given, of one verification in a world, or of all of them.
///
/// # Errors
///
/// The first that would be ignored, and which verification has it.
pub fn check_options(which: Option<&Row>, world: World, given: &[&str]) -> Result<()> {
    const ALL: &[Row] = &VERIFICATIONS;
    for option in given {
        let of = |row: &Row| row.options.iter().find(|(name, _)| name == option).map(|(_, place)| *place);
        let Some(row) = which else {
            ensure!(!NOT_IN_ALL.contains(option), "--{option} requires the name of one verification");
            let alone = *option == "dir" && !given.contains(&"guest");
            ensure!(!alone, "--dir requires --guest, or the name of one verification");
            continue;
        };
        match (of(row), world) {
            (Some(In::Both), _) | (Some(In::Model), World::Model) | (Some(In::Real), World::Real) => {}
            (Some(In::Model), _) => bail!("--{option} of {} requires --world model", row.name),
            (Some(In::Real), _) => bail!("--{option} of {} requires --world real", row.name),
            (None, _) => {
                let others: Vec<&str> =
                    ALL.iter().filter(|row| of(row).is_some()).map(|row| row.name).collect();
                bail!("{} has no --{option}: it is an option of {}", row.name, others.join(", "))
            }
        }
    }
    Ok(())
}

impl Row {
    const fn of<V: Verification>(options: &'static [Has], in_all: fn(&mut Request, &mut Asked)) -> Row
    where
        V::Options: for<'a> From<&'a Asked>,
    {
        Row {
            name: V::NAME,
            question: V::QUESTION,
            run: |request, asked| {
                // The points of a sweep are many, and have the quick form.
                let form = (&Asked { quick: true, ..asked.clone() }).into();
                let sweep = asked.sweep.map(|points| Sweep { points, form: &form });
                verification::run_and_sweep::<V>(request, &asked.into(), sweep)
            },
            claims: |scenario| {
                let request =
                    Request { scenario: scenario.map(Path::to_owned), repeats: 1, ..Request::default() };
                let (scenario, _) = V::load(&request, &(&Asked::default()).into())?;
                Ok(V::stated(&scenario).clone())
            },
            options,
            in_all,
        }
    }

    /// A request for all verifications, adapted to this one.
    pub fn in_all(&self, request: &Request, asked: &Asked) -> (Request, Asked) {
        let (mut request, mut asked) = (request.clone(), asked.clone());
        (self.in_all)(&mut request, &mut asked);
        request.out = request.out.join(self.name);
        (request, asked)
    }
}

const SWEEP: Has = ("sweep", In::Model);
const QUICK: Has = ("quick", In::Both);
const SCALE: Has = ("scale", In::Real);
const REPEATS: Has = ("repeats", In::Real);
const TARGET: Has = ("target", In::Real);
const DESTROY_DATA: Has = ("destroy-data", In::Real);

const VAAI_HAS: &[Has] = &[TARGET, DESTROY_DATA, SCALE, REPEATS, QUICK, SWEEP];
const QOS_HAS: &[Has] = &[QUICK, SWEEP];
const SANBOOT_HAS: &[Has] = &[TARGET, DESTROY_DATA, SCALE, QUICK, SWEEP, ("layouts", In::Both)];
const FILESERVER_HAS: &[Has] =
    &[SCALE, REPEATS, QUICK, SWEEP, ("formats", In::Real), ("directory", In::Real)];
const DISKSTRESS_HAS: &[Has] = &[SCALE, QUICK, SWEEP, ("dir", In::Real), ("guest", In::Real)];
const RUN_HAS: &[Has] = &[TARGET, DESTROY_DATA, SWEEP];

/// Every verification there is.
pub const VERIFICATIONS: [Row; 6] = [
    // At the published size; its real form is a row of its own.
    Row::of::<Vaai>(VAAI_HAS, |request, asked| (request.scale, asked.world) = (None, World::Model)),
    // Its quick form has too few windows to judge by, and the whole one takes a minute or two.
    Row::of::<Qos>(QOS_HAS, |request, asked| (request.scale, asked.quick) = (None, false)),
    // The scale is that of what is really written.
    Row::of::<Sanboot>(SANBOOT_HAS, |request, _| request.scale = None),
    // In a row of all it is the model's, as it was published.
    Row::of::<Fileserver>(FILESERVER_HAS, |request, asked| {
        (request.scale, asked.world) = (None, World::Model)
    }),
    Row::of::<Diskstress>(DISKSTRESS_HAS, |request, _| request.scale = None),
    // The built-in scenario, where it is the same on every machine.
    Row::of::<Run>(RUN_HAS, |request, asked| (request.scale, asked.world) = (None, World::Model)),
];

/// The verification of that name.
pub fn named(name: &str) -> Option<&'static Row> {
    const ALL: &[Row] = &VERIFICATIONS;
    ALL.iter().find(|row| row.name == name)
}

/// Names and questions of all.
pub fn questions() -> Vec<(&'static str, &'static str)> {
    VERIFICATIONS.iter().map(|row| (row.name, row.question)).collect()
}

#[cfg(test)]
mod seventh;

#[cfg(test)]
mod tests {
    use lab_core::bound::{Bound, End};
    use lab_core::claim::{Kind, Measure, Outcome};
    use lab_core::inputs::{Input, InputKind, inputs};
    use lab_core::presentation::PRESENTATION;
    use lab_core::scenario::frame::Frame;
    use lab_core::stats::Estimate;
    use lab_core::verdict::{Standing, Verdict, exit_status, standing};

    use super::*;

    /// Those whose modelled run is a matter of seconds, run, and what they leave behind read again.
    #[test]
    fn what_a_quick_run_leaves_behind_keeps_to_the_schema() {
        let asked = Asked { quick: true, layouts: vec![Layout::Internal], ..Asked::default() };
        for name in ["diskstress", "sanboot"] {
            let dir = tempfile::tempdir().expect("a folder");
            let request = Request { out: dir.path().join("out"), repeats: 1, seed: 1, ..Request::default() };
            let record = (named(name).expect("a row").run)(&request, &asked).expect("the run ends");
            let text = std::fs::read_to_string(request.out.join("results.json")).expect("a record");
            let mut written: serde_json::Value = serde_json::from_str(&text).expect("JSON");
            assert_eq!(lab_core::schema::faults(&written), Vec::<String>::new(), "{name}");
            assert!(!record.claims.is_empty() && !record.metrics.is_empty(), "{name}");
            keeps_the_bar(name, &record);
            if name == "diskstress" {
                assert_eq!(undrawn(&request.out, &record), Vec::<String>::new());
            }
            // The check itself can fail.
            written["claims"][0]["verdict"] = "splendid".into();
            assert_eq!(lab_core::schema::faults(&written).len(), 1, "{name}");
        }
    }

    /// `verify qos --target URL` ran the model without a word.
    #[test]
    fn an_option_that_a_verification_does_not_have_is_refused() {
        let said = |which: &str, world: World, option: &str| {
            check_options(named(which), world, &[option]).err().map(|error| error.to_string())
        };
        for (which, option, expected) in [
            ("qos", "target", "qos has no --target: it is an option of vaai, sanboot, run"),
            ("diskstress", "layouts", "diskstress has no --layouts: it is an option of sanboot"),
            ("fileserver", "guest", "fileserver has no --guest: it is an option of diskstress"),
            (
                "run",
                "quick",
                "run has no --quick: it is an option of vaai, qos, sanboot, fileserver, diskstress",
            ),
            ("vaai", "target", "--target of vaai requires --world real"),
            ("all", "target", "--target requires the name of one verification"),
            ("all", "formats", "--formats requires the name of one verification"),
            ("all", "dir", "--dir requires --guest, or the name of one verification"),
        ] {
            assert_eq!(said(which, World::Model, option).as_deref(), Some(expected));
        }
        assert_eq!(
            said("qos", World::Real, "sweep").as_deref(),
            Some("--sweep of qos requires --world model")
        );
        for (which, world, option) in [
            ("vaai", World::Real, "target"),
            ("sanboot", World::Model, "layouts"),
            ("all", World::Model, "guest"),
            ("all", World::Model, "quick"),
        ] {
            assert_eq!(said(which, world, option), None, "{which} --{option}");
        }
    }

    /// One that lacks one of them fails here.
    #[test]
    fn each_verification_has_a_scenario_a_page_and_a_row_of_the_readme() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let readme = std::fs::read_to_string(root.join("README.md")).expect("a README");
        for row in &VERIFICATIONS {
            let scenario = root.join("scenarios").join(format!("{}.toml", row.name));
            assert!((row.claims)(Some(&scenario)).is_ok(), "{}", row.name);
            let page = format!("docs/verify_{}.md", row.name);
            assert!(root.join(&page).is_file(), "{page}");
            assert!(readme.contains(&page), "README.md does not name {page}");
            assert!(row.question.ends_with('?') && named(row.name).is_some_and(|own| own.name == row.name));
        }
    }

    /// Those whose chosen and calibrated inputs do not all have a range yet, or a reason why not. The list
    /// only shrinks: one that is done is removed from it.
    const WITHOUT_RANGES: [&str; 1] = ["run"];

    #[test]
    fn each_input_of_ours_has_a_range_or_says_why_it_has_none() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios");
        for row in &VERIFICATIONS {
            let path = root.join(format!("{}.toml", row.name));
            let text = std::fs::read_to_string(&path).expect("a scenario");
            let frame = Frame::read(&text, row.name).expect("its ranges fit it");
            let left = frame.without_range(&text);
            match WITHOUT_RANGES.contains(&row.name) {
                false => {
                    assert_eq!(left, Vec::<String>::new(), "{}: no [[range]], and no reason why", row.name)
                }
                true => assert!(!left.is_empty(), "{}: done; remove it from WITHOUT_RANGES", row.name),
            }
        }
    }

    /// Whether four of five claims or more could have failed.
    fn emerge(kinds: &[Kind]) -> bool {
        let emerging = kinds.iter().filter(|kind| **kind == Kind::Emerges).count();
        5 * emerging >= 4 * kinds.len()
    }

    fn calibrated(inputs: &[Input]) -> usize {
        inputs.iter().filter(|input| input.kind == InputKind::Calibrated).count()
    }

    /// What a run's own record says of its kinds and of its calibrated inputs.
    fn keeps_the_bar(name: &str, record: &RunRecord) {
        let kinds: Vec<Kind> = record.claims.iter().map(|claim| claim.kind).collect();
        assert!(emerge(&kinds), "{name}: {kinds:?}");
        assert!(calibrated(&record.inputs) <= 1, "{name}");
    }

    #[test]
    fn at_most_one_input_is_calibrated_and_four_of_five_claims_could_fail() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios");
        for row in &VERIFICATIONS {
            let text = std::fs::read_to_string(root.join(format!("{}.toml", row.name))).expect("a scenario");
            let calibrated = calibrated(&inputs(&text));
            assert!(calibrated <= 1, "{}: {calibrated} inputs are calibrated", row.name);
            let claims = (row.claims)(None).expect("built in");
            for world in [World::Model, World::Real] {
                let kinds = claims.kinds(world);
                assert!(emerge(&kinds), "{}, {world:?}: {kinds:?}", row.name);
            }
        }
    }

    /// The figures that the publications number, or that they describe: the requirements of this project.
    const PUBLISHED: [(&str, &[&str]); 6] = [
        ("vaai", &[]),
        ("qos", &["3", "5", "7"]),
        (
            "sanboot",
            &[
                "random read",
                "random write",
                "random 75/25",
                "sequential read",
                "sequential write",
                "sequential 75/25",
                "controller",
                "port",
            ],
        ),
        (
            "fileserver",
            &[
                "7-1", "7-2", "7-3", "7-4", "7-5", "7-6", "7-7", "7-8", "7-9", "7-10", "7-11", "7-12",
                "7-13", "7-14", "7-15", "7-16", "7-17", "7-18", "7-19", "7-20", "7-21", "7-22", "7-23",
            ],
        ),
        ("diskstress", &["speed", "processor"]),
        ("run", &[]),
    ];

    #[test]
    fn each_published_figure_is_answered_or_omitted_with_a_reason() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios");
        assert!(PUBLISHED.iter().map(|(name, _)| name).eq(VERIFICATIONS.iter().map(|row| &row.name)));
        for (name, numbers) in PUBLISHED {
            let text = std::fs::read_to_string(root.join(format!("{name}.toml"))).expect("a scenario");
            let frame = Frame::read(&text, name).expect("it reads");
            let listed: Vec<&str> = frame.published_figures.iter().map(|one| one.number.as_str()).collect();
            assert_eq!(listed, numbers, "{name}");
            assert!(frame.source.is_some() || name == "run", "{name}: who claimed it");
            assert!(!frame.cannot_say.is_empty(), "{name}: what no run of it can say");
        }
    }

    /// The figures that a run's scenario names and its page does not have.
    fn undrawn(out: &Path, record: &RunRecord) -> Vec<String> {
        let text = std::fs::read_to_string(out.join(PRESENTATION)).expect("a presentation");
        let shown: serde_json::Value = serde_json::from_str(&text).expect("JSON");
        let figures = shown["figures"].as_array().expect("figures");
        let scope = record.scope.as_ref().expect("every run has one");
        let named = scope.published_figures.iter().filter_map(|one| one.figure.as_deref());
        named.filter(|id| !figures.iter().any(|figure| figure["id"] == **id)).map(str::to_owned).collect()
    }

    /// Minutes, and vaai needs a quiet machine: `make soak`.
    #[test]
    #[ignore = "minutes: every verification in its quick form"]
    fn every_figure_that_a_scenario_names_is_drawn_and_every_record_keeps_the_bar() {
        for row in &VERIFICATIONS {
            let dir = tempfile::tempdir().expect("a folder");
            let request = Request { out: dir.path().to_owned(), repeats: 4, seed: 1, ..Request::default() };
            let asked = Asked { quick: true, ..Asked::default() };
            let record = (row.run)(&request, &asked).expect("the run ends");
            assert_eq!(undrawn(dir.path(), &record), Vec::<String>::new(), "{}", row.name);
            keeps_the_bar(row.name, &record);
        }
    }

    /// The verdicts of all claims that are judged, with what decides them.
    fn judged(
        claims: &Claims,
        world: World,
        outcome: impl Fn(&Bound) -> Outcome,
        disturbed: bool,
    ) -> Vec<(Bound, Verdict)> {
        let all = claims.judge(world, &[], false).into_iter();
        let measures = all.map(|claim| {
            let bound = claim.bound.unwrap_or_else(|| Bound::at_most(1.0));
            Measure::new(&claim.id, outcome(&bound)).bound(bound)
        });
        let all = claims.judge(world, &measures.collect::<Vec<_>>(), disturbed).into_iter();
        all.filter_map(|claim| Some((claim.bound?, claim.verdict))).collect()
    }

    fn end(bound: &Bound) -> End {
        bound.lower.or(bound.upper).expect("a bound has an end")
    }

    /// The same "no difference shown" once made a run fail in one verification, doubtful in two and pass in
    /// another.
    #[test]
    fn undecided_not_measured_and_at_the_bound_are_the_same_in_every_verification() {
        let across = |b: &Bound| {
            let mean = end(b).value;
            Outcome::Estimate(Estimate { mean, low: mean - 1e-6, high: mean + 1e-6 })
        };
        let at = |b: &Bound| Outcome::Estimate(Estimate::exact(end(b).value));
        let none = |_: &Bound| Outcome::NotMeasured("the run was stopped".into());
        let never = |_: &Bound| Outcome::Never("it never happened".into());
        for row in &VERIFICATIONS {
            let claims = (row.claims)(None).expect("built in");
            for world in [World::Model, World::Real] {
                let all = |verdict: Verdict, judged: Vec<(Bound, Verdict)>| {
                    assert!(!judged.is_empty() || (row.name, world) == ("vaai", World::Model));
                    assert!(judged.iter().all(|(_, v)| *v == verdict), "{}: {judged:?}", row.name);
                };
                all(Verdict::Undecided, judged(&claims, world, across, false));
                all(Verdict::NotJudged, judged(&claims, world, none, true));
                all(Verdict::NotHeld, judged(&claims, world, never, false));
                for (bound, verdict) in judged(&claims, world, at, false) {
                    let held = if end(&bound).strict { Verdict::NotHeld } else { Verdict::Held };
                    assert_eq!(verdict, held, "{}: {bound:?}", row.name);
                }
                // A run without a single measure is judged by nobody, whatever it claims.
                let silent = claims.judge(world, &[], false);
                assert_eq!((standing(&silent, false), exit_status(&silent, false)), (Standing::NotJudged, 3));
                assert_eq!((standing(&silent, true), exit_status(&silent, true)), (Standing::InDoubt, 3));
            }
        }
    }
}
