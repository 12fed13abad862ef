//! All verifications, one after the other, and the page over their reports: it is there when the first one
//! has ended, and fills.

use anyhow::Result;
use lab_core::index::{self, Entry};
use lab_core::interrupt::Stop;
use lab_core::record::World;
use lab_core::verification::Request;

use super::{Asked, Row, VERIFICATIONS, named};

/// This one is run in both worlds: at the published size in the model, and for real.
const ALSO_REAL: &str = "vaai";
/// With a guest, this one is also run natively and in the guest.
const WITH_GUEST: &str = "diskstress";

/// One of the runs.
#[derive(Debug)]
pub struct Planned<'a> {
    name: String,
    row: &'a Row,
    request: Request,
    asked: Asked,
}

/// What a request for all of them runs, in this order.
pub fn planned(request: &Request, asked: &Asked) -> Vec<Planned<'static>> {
    const ALL: &[Row] = &VERIFICATIONS;
    let in_model = ALL.iter().map(|row| {
        let (request, asked) = row.in_all(request, asked);
        Planned { name: row.name.into(), row, request, asked }
    });
    let with_guest = asked.guest.as_ref().map(|_| WITH_GUEST);
    let real = [Some(ALSO_REAL), with_guest].into_iter().flatten().filter_map(named).map(|row| {
        let name = format!("{}{}", row.name, index::REAL);
        let request = Request { out: request.out.join(&name), ..request.clone() };
        let asked = Asked { world: World::Real, ..asked.clone() };
        Planned { name, row, request, asked }
    });
    in_model.chain(real).collect()
}

/// What the caller hears.
#[derive(Debug)]
#[expect(missing_docs, reason = "self-explanatory names")]
pub enum Said<'a> {
    Begins { name: &'a str },
    Failed { name: &'a str, why: &'a str },
}

/// Runs one after the other, because all of them measure, and after each writes the page over the records
/// below `request.out`. A verification that cannot run does not stop the others; a request to stop ends the
/// one that runs, and no other begins. Returns what the last page shows of the verifications with these names
/// and questions.
///
/// # Errors
///
/// When the page cannot be written.
pub fn run_all(
    planned: &[Planned<'_>],
    (request, questions): (&Request, &[(&str, &str)]),
    stop: &Stop,
    mut hear: impl FnMut(Said<'_>),
) -> Result<Vec<Entry>> {
    let (mut failed, mut entries) = (Vec::new(), Vec::new());
    for (to_come, Planned { name, row, request: own, asked }) in (0..planned.len()).rev().zip(planned) {
        hear(Said::Begins { name });
        if let Err(error) = (row.run)(own, asked) {
            let why: Vec<String> = error.chain().map(ToString::to_string).collect();
            let why = why.join(": ");
            hear(Said::Failed { name, why: &why });
            failed.push((name.clone(), why));
        }
        let names: Vec<&str> = planned.iter().map(|one| one.name.as_str()).collect();
        entries = index::read_all(&request.out, questions, &names, &failed);
        let to_come = if stop.is_asked() { 0 } else { to_come };
        index::write(&request.out, &entries, (&request.command, to_come))?;
        if stop.is_asked() {
            break;
        }
    }
    Ok(entries)
}

#[cfg(test)]
mod tests {
    use super::super::seventh::ROW;
    use super::*;

    /// The record of an earlier run with a guest counted, and decided the exit status of one without.
    #[test]
    fn what_an_earlier_run_left_of_real_hardware_is_not_of_this_run() {
        let dir = tempfile::tempdir().expect("a folder");
        let names = |real: &[&str]| {
            let entries = index::read_all(dir.path(), &[("diskstress", "?")], real, &[]);
            entries.into_iter().map(|entry| entry.name).collect::<Vec<_>>()
        };
        std::fs::create_dir(dir.path().join("diskstress-real")).expect("a folder");
        std::fs::write(dir.path().join("diskstress-real/results.json"), "{}").expect("a record");
        assert_eq!(names(&["diskstress"]), ["diskstress"]);
        assert_eq!(names(&["diskstress", "diskstress-real"]), ["diskstress", "diskstress-real"]);
    }

    #[test]
    fn the_page_is_there_when_the_first_has_ended_and_fills() {
        let dir = tempfile::tempdir().expect("a folder");
        let request = Request { out: dir.path().to_owned(), ..Request::default() };
        let one = |name: &str, scenario: Option<&str>| Planned {
            name: name.into(),
            row: &ROW,
            request: Request {
                out: dir.path().join(name),
                scenario: scenario.map(Into::into),
                ..Request::default()
            },
            asked: Asked::default(),
        };
        // The middle one cannot run.
        let planned = [one("first", None), one("second", Some("no/such/file.toml")), one("third", None)];
        let questions = [("first", "1?"), ("second", "2?"), ("third", "3?")];
        let page = || std::fs::read_to_string(dir.path().join("index.html")).ok();
        let mut seen = Vec::new();
        let entries = run_all(&planned, (&request, &questions), &Stop::default(), |said| match said {
            Said::Begins { .. } => seen.push(page()),
            Said::Failed { name, .. } => assert!(["first", "second", "third"].contains(&name), "{name}"),
        })
        .expect("the pages are written");
        let pages: Vec<String> = seen.into_iter().flatten().chain(page()).collect();
        // None before the first has ended, and one after each.
        assert_eq!(pages.len(), 3);
        let count = |of: &str| pages.iter().map(|page| page.matches(of).count()).collect::<Vec<_>>();
        assert_eq!(count("No answer yet"), [2, 1, 0]);
        assert_eq!(count("2 runs are still to come"), [1, 0, 0]);
        assert_eq!(count("1 run is still to come"), [0, 1, 0]);
        assert_eq!(count("http-equiv=\"refresh\""), [1, 1, 0]);
        let stop = Stop::default();
        stop.ask();
        let mut begun = 0;
        run_all(&planned, (&request, &questions), &stop, |said| {
            begun += usize::from(matches!(said, Said::Begins { .. }));
        })
        .expect("the page is written");
        assert_eq!(begun, 1, "none begins after the one that was stopped");
        assert!(page().is_some_and(|page| !page.contains("http-equiv=\"refresh\"")));
        // A build without the viewer writes everything of the others but their reports.
        assert_eq!(entries[1].words(), "could not be run");
    }

    #[test]
    fn all_are_planned_in_the_order_of_the_table_and_what_is_real_last() {
        let names = |asked: &Asked| {
            planned(&Request::default(), asked).into_iter().map(|run| run.name).collect::<Vec<_>>()
        };
        let table: Vec<&str> = VERIFICATIONS.iter().map(|row| row.name).collect();
        assert_eq!(names(&Asked::default()), [table.clone(), vec!["vaai-real"]].concat());
        let guest = Asked { guest: Some("guest".into()), ..Asked::default() };
        assert_eq!(names(&guest), [table, vec!["vaai-real", "diskstress-real"]].concat());
    }
}
