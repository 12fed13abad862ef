//! The page: one file that loads nothing, light and dark, wide and narrow, on paper.

use super::read::open;
use super::{Entry, State, tally};
use crate::machine::now_rfc3339;
use crate::record::{RunRecord, World};
use crate::verdict::{Counts, Standing};

const STYLE: &str = include_str!("style.css");

/// While runs are still to come the page is read again after so many seconds.
const RELOAD_S: u32 = 5;

/// Claims named on a card; the report has all.
const OPEN_MAX: usize = 4;

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

/// Class, sign and words of a state: told apart by more than a colour.
fn badge(state: &State) -> (&'static str, &'static str, &'static str) {
    match state {
        State::Run(record) => match record.verdict.standing {
            Standing::Held => ("good", "✓", "Held"),
            Standing::NotHeld => ("bad", "✕", "Not held"),
            Standing::NotReproduced => ("open", "≠", "Not reproduced"),
            Standing::Undecided => ("warn", "?", "Undecided"),
            Standing::InDoubt => ("warn", "!", "In doubt"),
            Standing::NotJudged => ("open", "–", "Not judged"),
        },
        State::Failed(_) => ("bad", "✕", "Could not be run"),
        State::NotRun => ("open", "–", "Not run"),
    }
}

/// "2026-11-20 14:05 UTC".
fn time(rfc3339: &str) -> String {
    match rfc3339.get(..16) {
        Some(text) => text.replacen('T', " ", 1) + " UTC",
        None => rfc3339.into(),
    }
}

/// The whole page.
pub(super) fn page(entries: &[Entry], answer: &str, (command, to_come): (&str, usize)) -> String {
    let (reload, under_way) = match to_come {
        0 => (String::new(), String::new()),
        _ => {
            let are = if to_come == 1 { "run is" } else { "runs are" };
            let under_way = format!(
                "<p class=\"counts\">{to_come} {are} still to come; this page reloads itself meanwhile.</p>"
            );
            (format!("<meta http-equiv=\"refresh\" content=\"{RELOAD_S}\">\n"), under_way)
        }
    };
    let cards: String = entries.iter().map(card).collect();
    let rows: String = entries.iter().map(row).collect();
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">\n\
         {reload}<title>Verifications · masu</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n<main>\n\
         <div class=\"bar\"><span><b>masu</b> verifications</span><span class=\"when\">{}</span></div>\n\
         <header><h1>{}</h1><p class=\"counts\">{}</p>{under_way}</header>\n\
         <table><thead><tr><th>Verification</th><th>Promises held</th><th>Published reproduced</th><th>Verdict</th></tr></thead><tbody>\n{rows}</tbody></table>\n\
         {cards}\
         <footer><code>{}</code><span>This page is complete in itself: it loads nothing and sends nothing.</span></footer>\n\
         </main>\n</body>\n</html>\n",
        time(&now_rfc3339()),
        escaped(answer),
        escaped(&tally(entries).words()),
        escaped(command),
    )
}

/// "31 of 31", "52 reproduced, 6 not".
fn counts(entry: &Entry) -> [String; 2] {
    let none = || "–".to_owned();
    let Some(tally) = entry.tally() else { return [none(), none()] };
    let of = |counts: &Counts| match counts.judged() {
        0 => none(),
        judged => format!("{} of {judged}", counts.held),
    };
    [of(&tally.promises), of(&tally.published)]
}

fn row(entry: &Entry) -> String {
    let (class, sign, words) = badge(&entry.state);
    let [promises, published] = counts(entry);
    format!(
        "<tr><td><a href=\"#{0}\">{0}</a></td><td class=\"number\">{promises}</td><td class=\"number\">{published}</td><td><span class=\"verdict {class}\"><i aria-hidden=\"true\">{sign}</i>{words}</span></td></tr>\n",
        escaped(&entry.name)
    )
}

/// Beside the verdict, as large as it: where it was run.
fn world(state: &State) -> String {
    let words = match state {
        State::Run(record) => match record.world {
            World::Model => "Modelled, virtual time",
            World::Real => "Real run",
        },
        State::Failed(_) | State::NotRun => return String::new(),
    };
    format!("<span class=\"badge world\">{words}</span>")
}

fn card(entry: &Entry) -> String {
    let (class, sign, words) = badge(&entry.state);
    let rest = match &entry.state {
        State::Run(record) => of_record(record, &entry.name),
        State::Failed(_) | State::NotRun => String::new(),
    };
    format!(
        "<section id=\"{name}\" class=\"card\">\n<div class=\"side\"><span class=\"badge {class}\"><i aria-hidden=\"true\">{sign}</i>{words}</span>{world}<span class=\"name\">{name}</span></div>\n\
         <div class=\"text\"><p class=\"question\">{}</p><h2>{}</h2>{rest}</div>\n</section>\n",
        escaped(&entry.question),
        escaped(&entry.answer()),
        name = escaped(&entry.name),
        world = world(&entry.state),
    )
}

/// Counts, what is not held, the first doubt, the way to the report.
fn of_record(record: &RunRecord, name: &str) -> String {
    let facts = [record.verdict.tally.words(), time(&record.environment.generated)].join(" · ");
    let all = open(record);
    let some = all.iter().take(OPEN_MAX);
    let some = some.map(|(verdict, claim)| format!("<li><b>{verdict}:</b> {}</li>", escaped(claim)));
    let more = match all.len().saturating_sub(OPEN_MAX) {
        0 => String::new(),
        n => format!("<li>and {n} more</li>"),
    };
    let list = some.collect::<String>() + &more;
    let list = if list.is_empty() { list } else { format!("<ul class=\"claims\">{list}</ul>") };
    let doubts = record.environment.doubts.iter().take(1);
    let doubts = doubts.map(|d| format!("<p class=\"doubt\"><b>Doubt:</b> {}</p>", escaped(&d.text)));
    format!(
        "<p class=\"facts\">{}</p>{list}{}<p class=\"link\"><a href=\"{}/report.html\">Open the report<span aria-hidden=\"true\"> →</span></a></p>",
        escaped(&facts),
        doubts.collect::<String>(),
        escaped(name)
    )
}
