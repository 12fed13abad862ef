//! The page: one file that loads nothing, light and dark, wide and narrow, on paper.

use super::{Entry, Standing};
use lab_core::machine::now_rfc3339;

const STYLE: &str = include_str!("style.css");

/// Claims named on a card; the report has all.
const OPEN_MAX: usize = 4;

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

/// Class, sign and words of a standing: told apart by more than a colour.
fn badge(standing: Standing) -> (&'static str, &'static str, &'static str) {
    match standing {
        Standing::Held => ("good", "✓", "Held"),
        Standing::NotHeld => ("bad", "✕", "Not held"),
        Standing::InDoubt => ("warn", "!", "In doubt"),
        Standing::Failed => ("bad", "✕", "Could not be run"),
        Standing::NotRun => ("open", "–", "Not run"),
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
pub(super) fn page(entries: &[Entry], answer: &str, command: &str) -> String {
    let cards: String = entries.iter().map(card).collect();
    let rows: String = entries.iter().map(row).collect();
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">\n\
         <title>Verifications · masu</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n<main>\n\
         <div class=\"bar\"><span><b>masu</b> verifications</span><span class=\"when\">{}</span></div>\n\
         <header><h1>{}</h1></header>\n\
         <table><thead><tr><th>Verification</th><th>Claims held</th><th>Verdict</th></tr></thead><tbody>\n{rows}</tbody></table>\n\
         {cards}\
         <footer><code>{}</code><span>This page is complete in itself: it loads nothing and sends nothing.</span></footer>\n\
         </main>\n</body>\n</html>\n",
        time(&now_rfc3339()),
        escaped(answer),
        escaped(command),
    )
}

fn row(entry: &Entry) -> String {
    let (class, sign, words) = badge(entry.standing);
    let held = match entry.judged {
        0 => "–".to_owned(),
        judged => format!("{} of {judged}", entry.held),
    };
    format!(
        "<tr><td><a href=\"#{0}\">{0}</a></td><td class=\"number\">{held}</td><td><span class=\"verdict {class}\"><i aria-hidden=\"true\">{sign}</i>{words}</span></td></tr>\n",
        escaped(&entry.name)
    )
}

fn card(entry: &Entry) -> String {
    let (class, sign, words) = badge(entry.standing);
    let mut facts = Vec::new();
    if entry.judged > 0 {
        facts.push(format!("{} of {} claims held", entry.held, entry.judged));
    }
    if entry.not_judged > 0 {
        facts.push(format!("{} not judged in this form", entry.not_judged));
    }
    match entry.world.as_str() {
        "model" => facts.push("modelled, virtual time".into()),
        "real" => facts.push("real run".into()),
        _ => {}
    }
    if !entry.generated.is_empty() {
        facts.push(time(&entry.generated));
    }
    let open: String = entry
        .open
        .iter()
        .take(OPEN_MAX)
        .map(|claim| format!("<li><b>{}:</b> {}</li>", escaped(&claim.verdict), escaped(&claim.name)))
        .collect();
    let more = match entry.open.len().saturating_sub(OPEN_MAX) {
        0 => String::new(),
        n => format!("<li>and {n} more</li>"),
    };
    let open = if open.is_empty() { open } else { format!("<ul class=\"claims\">{open}{more}</ul>") };
    let doubts: String = entry
        .doubts
        .iter()
        .take(1)
        .map(|d| format!("<p class=\"doubt\"><b>Doubt:</b> {}</p>", escaped(d)))
        .collect();
    let link = entry.link.as_ref().map_or(String::new(), |link| {
        format!(
            "<p class=\"link\"><a href=\"{}\">Open the report<span aria-hidden=\"true\"> →</span></a></p>",
            escaped(link)
        )
    });
    format!(
        "<section id=\"{name}\" class=\"card\">\n<div class=\"side\"><span class=\"badge {class}\"><i aria-hidden=\"true\">{sign}</i>{words}</span><span class=\"name\">{name}</span></div>\n\
         <div class=\"text\"><p class=\"question\">{}</p><h2>{}</h2><p class=\"facts\">{}</p>{open}{doubts}{link}</div>\n</section>\n",
        escaped(&entry.question),
        escaped(&entry.answer),
        escaped(&facts.join(" · ")),
        name = escaped(&entry.name),
    )
}
