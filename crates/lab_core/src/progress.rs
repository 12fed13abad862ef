//! How far a run is: a bar on a terminal, a line per step elsewhere.

use std::io::IsTerminal;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};

use crate::words::visible;
use crate::{console, parallel};

/// The progress of a run, on standard error. A part of a larger run tells nothing.
pub struct Progress {
    bar: Option<ProgressBar>,
    is_silent: bool,
    steps: std::cell::Cell<u64>,
    done: std::cell::Cell<u64>,
}

impl Progress {
    /// Of so many steps.
    pub fn new(steps: u64) -> Progress {
        let is_silent = parallel::is_within();
        let bar = (!is_silent && std::io::stderr().is_terminal()).then(|| {
            let style = ProgressStyle::with_template("{bar:24.cyan/dim} {pos:>3}/{len} {elapsed:>4}  {msg}");
            let bar =
                ProgressBar::new(steps).with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
            bar.enable_steady_tick(Duration::from_millis(200));
            bar
        });
        Progress { bar, is_silent, steps: std::cell::Cell::new(steps), done: std::cell::Cell::new(0) }
    }

    /// So many steps in all, now that it is known.
    pub fn expect(&self, steps: u64) {
        self.steps.set(steps);
        if let Some(bar) = &self.bar {
            bar.set_length(steps);
        }
    }

    /// A step begins.
    pub fn step(&self, text: &str) {
        self.done.set(self.done.get() + 1);
        match &self.bar {
            Some(bar) => {
                bar.set_position(self.done.get() - 1);
                bar.set_message(visible(text));
            }
            None if self.is_silent => {}
            None => console::note(&format!("{:>3}/{} {text}", self.done.get(), self.steps.get())),
        }
    }

    /// How far a step is: on a terminal only.
    pub fn note(&self, text: &str) {
        if let Some(bar) = &self.bar {
            bar.set_message(visible(text));
        }
    }

    /// The run has ended.
    pub fn end(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}
