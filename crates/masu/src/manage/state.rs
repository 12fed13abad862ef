//! `masu status`: problems first.

use admin::{Drive, Status, Trouble};

use lab_core::console::lines;

use super::nouns::{DRIVE, GROUP, HEALTH, IMAGE, JOB, POOL, PORT, SESSION};
use crate::stdout;
use crate::table::{Look, part};

/// Minimum width of a terminal.
const COLUMNS: usize = 80;
/// Events at the end of the status.
const EVENTS_SHOWN: usize = 10;
/// Most changes take less.
const CHANGE_SHOWN_MS: u64 = 1000;

pub(super) fn print(s: &Status, look: Look) {
    let busy = |l: &admin::Load| format!("{:.0} %", 100.0 * l.busy_ms as f64 / l.up_ms.max(1) as f64);
    let busy = s.loads.iter().map(busy).collect::<Vec<_>>().join(", ");
    let up = time(s.uptime_s);
    println!("{}  masu {}, up {up}, {} controller(s), busy {busy}\n", s.target, s.version, s.controllers);
    // Without a successor it is a trouble.
    if let Some(failover) = s.failover.as_ref().filter(|failover| !failover.successors.is_empty()) {
        println!("{}\n", failover.text);
    }
    match s.trouble.is_empty() {
        true => println!("No problems.\n"),
        false => {
            println!("TROUBLE");
            s.trouble.iter().for_each(print_trouble);
            println!();
        }
    }
    if let Some(change) = s.under_way.as_ref().filter(|change| change.for_ms >= CHANGE_SHOWN_MS) {
        let text = format!(
            "A change is being made for {}: {}. Others wait for it; what is declared is shown as before it.",
            time(change.for_ms / 1000),
            change.what
        );
        wrapped(&text, "", "");
        println!();
    }
    if !s.jobs.is_empty() {
        section("JOBS", || part(&JOB, &s.jobs, look));
    }
    if !s.images.is_empty() {
        section("IMAGES", || part(&IMAGE, &s.images, look));
    }
    section("POOLS", || part(&POOL, &s.pools, look));
    section("GROUPS", || part(&GROUP, &s.groups, look));
    section("DRIVES", || part(&DRIVE, &s.drives, look));
    let reporting: Vec<Drive> = s.drives.iter().filter(|d| d.health.is_some()).cloned().collect();
    if !reporting.is_empty() {
        section("HEALTH OF DRIVES", || part(&HEALTH, &reporting, look));
    }
    section("PORTS", || part(&PORT, &s.ports, look));
    if let Some(line) = unprotected(s) {
        wrapped(&line, "", "");
        println!();
    }
    println!("SESSIONS");
    part(&SESSION, &s.sessions, look);
    if !s.events.is_empty() {
        println!("\nEVENTS (masu events shows all of them, with times)");
        let skipped = s.events.len().saturating_sub(EVENTS_SHOWN);
        s.events.iter().skip(skipped).for_each(|e| println!("{e}"));
    }
}

fn section(title: &str, print: impl FnOnce()) {
    println!("{title}");
    print();
    println!();
}

/// Limit of unprotected hosts named in the status.
const UNPROTECTED_SHOWN: usize = 8;

/// The hosts without a secret, in one line; none if all have one.
fn unprotected(s: &Status) -> Option<String> {
    let open = s.hosts.iter().filter(|h| h.authentication == "none");
    let names: Vec<String> = open.map(|h| format!("{} ({})", h.name, h.initiator)).collect();
    let text = "unprotected (no CHAP; any initiator with the name is the host): ";
    let more = match names.len().saturating_sub(UNPROTECTED_SHOWN) {
        0 => String::new(),
        n => format!(" and {n} more: masu host list"),
    };
    let shown = names[..names.len().min(UNPROTECTED_SHOWN)].join(", ");
    (!names.is_empty()).then(|| format!("{text}{shown}{more}"))
}

/// A problem: what, since when, and what to do, within 80 columns if words are short enough.
fn print_trouble(trouble: &Trouble) {
    let Trouble { severity, object, text, to_do, since_ms, .. } = trouble;
    println!("{:<8} {object}, since {}", severity.to_uppercase(), crate::table::moment::time(*since_ms));
    wrapped(text, "         ", "         ");
    wrapped(&format!("→ {to_do}"), "         ", "         ");
}

/// Prints words in lines of 80 columns: `first`, which may have a colour, begins the first one, `indent` all
/// others.
pub(super) fn wrapped(text: &str, first: &str, indent: &str) {
    let (mut line, mut begin) = (String::new(), first);
    for word in text.split(' ') {
        if !line.is_empty() && indent.len() + line.chars().count() + 1 + word.chars().count() > COLUMNS {
            stdout::print(&format!("{begin}{}\n", lines(&line)));
            begin = indent;
            line.clear();
        }
        if !line.is_empty() {
            line.push(' ');
        }
        line.push_str(word);
    }
    stdout::print(&format!("{begin}{}\n", lines(&line)));
}

/// Seconds as text: the two largest units.
pub(super) fn time(seconds: u64) -> String {
    let (days, hours, minutes) = (seconds / 86_400, seconds / 3600 % 24, seconds / 60 % 60);
    match (days, hours, minutes) {
        (0, 0, 0) => format!("{seconds} s"),
        (0, 0, m) => format!("{m} min {} s", seconds % 60),
        (0, h, m) => format!("{h} h {m} min"),
        (d, h, _) => format!("{d} d {h} h"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_two_units() {
        assert_eq!(
            [time(7), time(61), time(3_700), time(200_000)],
            ["7 s", "1 min 1 s", "1 h 1 min", "2 d 7 h"]
        );
    }
}
