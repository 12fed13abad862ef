//! Progress of jobs on the terminal: a line that changes; without a terminal, a line for every tenth.

#![expect(clippy::disallowed_methods, reason = "a terminal shows rates in the system's time")]

use std::io::{IsTerminal, Write};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use admin::{Client, Progress, Status};
use anyhow::Result;
use config::format_bytes;
use lab_core::words::visible;

/// Interval of status requests.
const ASK_INTERVAL: Duration = Duration::from_millis(200);
/// How long the event that a job has ended is waited for.
const END_TOLD_MAX: Duration = Duration::from_secs(3);
/// The exit status of an interrupted command (128 + SIGINT), as shells expect it.
pub(super) const INTERRUPTED: u8 = 130;

/// Progress in percent, rounded down.
pub(crate) fn percent(progress: Progress) -> u64 {
    let all = u128::from(progress.total_bytes.max(1));
    (u128::from(progress.done_bytes) * 100 / all).min(100) as u64
}

/// One line of progress.
#[derive(Default)]
pub(crate) struct Line {
    what: String,
    shown: Option<u64>,
    width: usize,
    begun: Option<(Instant, u64)>,
}

impl Line {
    /// Shows the progress.
    pub(crate) fn show(&mut self, what: &str, progress: Progress) {
        if self.what != what {
            self.end();
            *self = Line { what: what.into(), ..Line::default() };
        }
        let (since, from_bytes) = *self.begun.get_or_insert_with(|| (Instant::now(), progress.done_bytes));
        let percent = percent(progress);
        let terminal = std::io::stderr().is_terminal();
        let step = if terminal { percent } else { percent / 10 * 10 };
        if !terminal && (self.shown == Some(step) || progress.total_bytes == 0) {
            return;
        }
        self.shown = Some(step);
        let mut text = match progress.total_bytes {
            0 => what.to_owned(),
            total => format!("{what}: {step} % of {}", format_bytes(total)),
        };
        let seconds = since.elapsed().as_secs_f64();
        if terminal && seconds >= 1.0 && progress.total_bytes > 0 {
            let rate = progress.done_bytes.saturating_sub(from_bytes) as f64 / seconds;
            text += &format!(", {}/s", format_bytes(rate as u64));
        }
        if terminal {
            let text = visible(&text);
            eprint!("\r{text:width$}", width = self.width);
            let _ = std::io::stderr().flush();
            self.width = text.chars().count();
        } else {
            eprintln!("{text}");
        }
    }

    /// Erases the line, for other output.
    pub(crate) fn end(&mut self) {
        if self.width > 0 {
            eprint!("\r{:width$}\r", "", width = self.width);
            self.width = 0;
        }
    }
}

/// How far a job is. A rebuild is one from the moment the drive is replaced, before its job begins.
fn progress(status: &Status, kind: &str, object: &str) -> Option<Progress> {
    let job = status.jobs.iter().find(|job| job.kind == kind && job.object == object);
    let group = || status.groups.iter().find(|group| kind == "rebuild" && group.name == object);
    job.map(|job| job.progress).or_else(|| group()?.rebuild)
}

/// Follows a job until it has ended. The array does the work: an interrupt stops only the display.
/// `events_before` is the number of events before the job began.
pub(super) async fn follow(
    client: &Client,
    (kind, object): (&str, &str),
    events_before: usize,
) -> Result<ExitCode> {
    let mut line = Line::default();
    let what = format!("{object}: {kind}");
    // Events while the job was last seen, and when it was first missed: how it ended is told a moment later.
    let (mut told, mut missed) = (0, None);
    loop {
        let status = client.status().await?;
        let about = |event: &&String| event.contains(&format!(" {object}"));
        let said: Vec<&String> = status.events.iter().skip(events_before).filter(about).collect();
        match progress(&status, kind, object) {
            Some(progress) => {
                (told, missed) = (said.len(), None);
                line.show(&what, progress);
            }
            None if said.len() <= told
                && missed.get_or_insert_with(Instant::now).elapsed() < END_TOLD_MAX => {}
            None => {
                line.end();
                said.iter().for_each(|event| println!("{event}"));
                if said.is_empty() {
                    println!("{what}: done");
                }
                return Ok(ExitCode::SUCCESS);
            }
        }
        tokio::select! {
            () = tokio::time::sleep(ASK_INTERVAL) => {}
            _ = tokio::signal::ctrl_c() => {
                line.end();
                eprintln!("{what} continues in the array; masu status shows its progress");
                return Ok(ExitCode::from(INTERRUPTED));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percents_reach_a_hundred_only_at_the_end() {
        let of = |done_bytes, total_bytes| percent(Progress { done_bytes, total_bytes });
        assert_eq!((of(0, 0), of(0, 7), of(999, 1000), of(7, 7), of(9, 7)), (0, 0, 99, 100, 100));
        assert_eq!(of(u64::MAX / 2, u64::MAX), 49);
    }
}
