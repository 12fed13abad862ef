//! `masu top`: a live view of the array.
//!
//! ```text
//!   status, histograms ──sample──> between two of them ──board──> rows ──view──> lines
//! ```

#![expect(
    clippy::disallowed_methods,
    reason = "rates are by the time of the machine on which they are shown"
)]

mod blame;
mod board;
mod sample;
#[cfg(test)]
mod tests;
mod view;

use std::io::IsTerminal;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use admin::Client;
use anyhow::{Context, Result, bail};
use clap::Args;
use lab_core::words::visible;
use ratatui::DefaultTerminal;
use ratatui::crossterm::event::{self, Event};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc;

use self::board::Tab;
use self::sample::{Between, Sample, between};
use self::view::{Ended, Shown, View, headline, problems};
use super::request::{Where, client, wait};
use crate::{stdout, table};

pub(super) const HELP: &str = "\
Keys: 1 to 5 tabs, s sort, r reverse, / filter, p pause, ? help, q quit.

Example: the hosts and what holds them up, once, for a script
  masu top --once --tab hosts --sort -iops";

/// The shortest interval, so that the array is not asked all the time, and the longest.
const INTERVALS: std::ops::RangeInclusive<Duration> = Duration::from_millis(100)..=Duration::from_secs(3600);
/// An answer is waited for so long.
const ANSWER_MAX: Duration = Duration::from_secs(10);
/// How often the thread that waits for keys looks whether the view has ended.
const KEYS_PAUSE: Duration = Duration::from_millis(100);
/// The exit statuses of a process that was interrupted or ended: 128 and the signal, as shells expect it.
const INTERRUPTED: u8 = 130;
const TERMINATED: u8 = 143;

#[derive(Args)]
pub(crate) struct TopCommand {
    /// Print one tab of one interval as text, and end
    #[arg(long)]
    once: bool,
    /// How often the array is asked, from 100ms to 1h
    #[arg(long, default_value = "2s", value_parser = interval)]
    interval: Duration,
    /// The tab to begin with
    #[arg(long, value_enum, default_value_t = Tab::Waits)]
    tab: Tab,
    /// Sort by this column; -COLUMN: descending
    #[arg(long, value_name = "COLUMN", allow_hyphen_values = true)]
    sort: Option<String>,
    /// Only objects whose name contains this
    #[arg(long, value_name = "TEXT", default_value = "")]
    filter: String,
}

fn interval(text: &str) -> Result<Duration, String> {
    let found = units::parse_duration(text)?;
    match INTERVALS.contains(&found) {
        true => Ok(found),
        false => Err(format!("invalid interval {text:?}: must be from 100ms to 1h")),
    }
}

pub(super) fn run(what: &TopCommand, at: &Where) -> Result<ExitCode> {
    if !at.form.is_plain() {
        bail!("invalid --output: masu top is for people; use masu status --output json");
    }
    let mut view = View::new(what.tab, what.filter.clone());
    if let Some(sort) = &what.sort {
        view.sort_by(sort).map_err(anyhow::Error::msg)?;
    }
    let client = client(at);
    if what.once {
        return wait(once(&client, what, &view))?;
    }
    if !std::io::stdout().is_terminal() || !std::io::stdin().is_terminal() {
        bail!("masu top needs a terminal: use --once");
    }
    wait(live(client, what.interval, view))?
}

/// Asks the array.
async fn sample(client: &Client, begun: Instant) -> Result<Sample> {
    let asked = async {
        let status = client.status().await?;
        let at = begun.elapsed();
        Ok::<_, anyhow::Error>(Sample { at, status, histograms: client.latencies().await? })
    };
    tokio::time::timeout(ANSWER_MAX, asked).await.context("the array has not answered for 10 s")?
}

async fn once(client: &Client, what: &TopCommand, view: &View) -> Result<ExitCode> {
    let begun = Instant::now();
    let first = sample(client, begun).await?;
    tokio::time::sleep(what.interval).await;
    let second = sample(client, begun).await?;
    let between = between(&first, &second);
    let shown = Shown { status: &second.status, between: &between, error: None };
    let table = view.table(&view.rows(&shown), table::width());
    let above = [headline(&shown), problems(&shown).0, String::new()].map(|line| visible(&line));
    let lines = above.into_iter().chain(table.lines);
    stdout::print(&lines.map(|line| line + "\n").collect::<String>());
    Ok(ExitCode::SUCCESS)
}

/// The terminal while the view has it; whichever way it ends, the terminal is as before.
struct Screen(DefaultTerminal);

impl Screen {
    fn new() -> Result<Screen> {
        // Also sets a panic hook that restores the terminal before the message is printed.
        Ok(Screen(ratatui::try_init().context("cannot use the terminal")?))
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        ratatui::restore();
    }
}

/// Keys and changes of the size; ends when nobody listens.
fn events() -> mpsc::Receiver<Event> {
    let (sender, receiver) = mpsc::channel(64);
    tokio::task::spawn_blocking(move || {
        while !sender.is_closed() {
            let event = match event::poll(KEYS_PAUSE) {
                Ok(false) => continue,
                Ok(true) => event::read(),
                Err(error) => Err(error),
            };
            // The terminal is gone, or the view.
            let Ok(event) = event else { return };
            if sender.blocking_send(event).is_err() {
                return;
            }
        }
    });
    receiver
}

/// Samples, one each interval.
fn samples(client: Client, begun: Instant, interval: Duration) -> mpsc::Receiver<Result<Sample>> {
    let (sender, receiver) = mpsc::channel(1);
    tokio::spawn(async move {
        loop {
            tokio::time::sleep(interval).await;
            if sender.send(sample(&client, begun).await).await.is_err() {
                return;
            }
        }
    });
    receiver
}

/// The newest sample, what happened before it, and why there is no newer one.
struct Known {
    newest: Sample,
    between: Between,
    error: Option<String>,
}

impl Known {
    fn take(&mut self, answer: Result<Sample>) {
        match answer {
            Ok(sample) => {
                self.between = between(&self.newest, &sample);
                (self.newest, self.error) = (sample, None);
            }
            Err(error) => self.error = Some(format!("{error:#}")),
        }
    }
}

async fn live(client: Client, interval: Duration, mut view: View) -> Result<ExitCode> {
    let begun = Instant::now();
    let newest = sample(&client, begun).await?;
    let mut known = Known { newest, between: Between::default(), error: None };
    let [mut term, mut int, mut hup] =
        [signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?, signal(SignalKind::hangup())?];
    let mut samples = samples(client, begun, interval);
    let mut screen = Screen::new()?;
    let mut events = events();
    let code = loop {
        let Known { newest, between, error } = &known;
        let shown = Shown { status: &newest.status, between, error: error.as_deref() };
        screen.0.draw(|frame| view.draw(frame, &shown)).context("cannot draw on the terminal")?;
        tokio::select! {
            event = events.recv() => match event {
                Some(Event::Key(key)) => match view.key(key) {
                    Some(Ended::Quit) => break ExitCode::SUCCESS,
                    Some(Ended::Interrupted) => break ExitCode::from(INTERRUPTED),
                    None => {}
                },
                // Drawn anew, in the new size.
                Some(_) => {}
                None => break ExitCode::SUCCESS,
            },
            Some(answer) = samples.recv() => if !view.is_paused { known.take(answer) },
            _ = term.recv() => break ExitCode::from(TERMINATED),
            _ = int.recv() => break ExitCode::from(INTERRUPTED),
            _ = hup.recv() => break ExitCode::from(TERMINATED),
        }
    };
    drop(screen);
    Ok(code)
}
