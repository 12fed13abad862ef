//! How fast controllers answer: each is asked every second, and one whose loop does not come round is trouble
//! before it is dead.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use array::{Control, ControllerHandle, Severity};
use tokio::time::Instant;

use crate::trouble::trouble;
use status::Trouble;

const ASK_INTERVAL: Duration = Duration::from_secs(1);
/// An answer takes microseconds, and some milliseconds under load. After so long every host of the controller
/// has noticed.
const SLOW: Duration = Duration::from_secs(2);
/// Then the watchdog speaks of it, too; some time later it ends the process.
const SILENT: Duration = Duration::from_secs(10);
/// A slow answer is trouble for so long.
const REMEMBERED: Duration = Duration::from_secs(60);

/// How the controllers answered lately.
#[derive(Default)]
pub(crate) struct Answers(Mutex<Vec<Answer>>);

#[derive(Default)]
struct Answer {
    /// A question that is open.
    asked: Option<Instant>,
    /// Slow answers: when they came, and how long they took.
    slow: VecDeque<(Instant, Duration)>,
}

impl Answers {
    /// Asks a controller again and again, until it has stopped.
    pub(crate) async fn ask(&self, handle: &ControllerHandle) {
        loop {
            tokio::time::sleep(ASK_INTERVAL).await;
            self.asked(handle.index, Instant::now());
            if handle.ask(Control::Ping).await.is_err() {
                return self.forget(handle.index);
            }
            self.answered(handle.index, Instant::now());
        }
    }

    fn all(&self) -> MutexGuard<'_, Vec<Answer>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn asked(&self, index: usize, now: Instant) {
        let mut all = self.all();
        if all.len() <= index {
            all.resize_with(index + 1, Answer::default);
        }
        all[index].asked = Some(now);
    }

    fn answered(&self, index: usize, now: Instant) {
        let mut all = self.all();
        let answer = &mut all[index];
        let took = answer.asked.take().map_or(Duration::ZERO, |asked| now - asked);
        answer.slow.retain(|(at, _)| now < *at + REMEMBERED);
        if took >= SLOW {
            answer.slow.push_back((now, took));
        }
    }

    /// It stops: no answer is none any more.
    fn forget(&self, index: usize) {
        self.all()[index] = Answer::default();
    }

    /// What is wrong with the controllers.
    pub(crate) fn trouble(&self, now: Instant) -> Vec<Trouble> {
        self.all().iter().enumerate().filter_map(|(index, answer)| answer.trouble(index, now)).collect()
    }
}

impl Answer {
    fn trouble(&self, index: usize, now: Instant) -> Option<Trouble> {
        let waiting = self.asked.map_or(Duration::ZERO, |asked| now - asked);
        let recent = self.slow.iter().filter(|(at, _)| now < *at + REMEMBERED);
        let slowest = recent.map(|(_, took)| *took).max().unwrap_or_default().max(waiting);
        let object = format!("controller {index}");
        let seconds = |time: Duration| format!("{:.1} s", time.as_secs_f64());
        if waiting >= SILENT {
            let text = format!("has not answered for {}: its hosts wait", seconds(waiting));
            let to_do = "see the log: it ends and is started again when it stays so";
            return Some(trouble(Severity::Error, object, "slow", text, to_do));
        }
        if slowest < SLOW {
            return None;
        }
        let text = format!("is slow: it took {} to answer within the last minute", seconds(slowest));
        let to_do = "see what else uses its processor (masu serve --pin-first), and masu events";
        Some(trouble(Severity::Warning, object, "slow", text, to_do))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(answers: &Answers, now: Instant, expected: &[(&str, &str)]) {
        let told = answers.trouble(now);
        let told: Vec<_> =
            told.iter().map(|t| (t.severity.as_str(), format!("{}: {}", t.object, t.text))).collect();
        let told: Vec<_> = told.iter().map(|(severity, text)| (*severity, text.as_str())).collect();
        assert_eq!(told, expected);
    }

    #[test]
    fn a_controller_that_answers_late_is_trouble_for_a_minute_and_one_that_does_not_at_all_is_worse() {
        let (answers, start) = (Answers::default(), Instant::now());
        let at = |ms: u64| start + Duration::from_millis(ms);
        answers.asked(1, at(0));
        check(&answers, at(1_900), &[]);
        check(
            &answers,
            at(2_500),
            &[("warning", "controller 1: is slow: it took 2.5 s to answer within the last minute")],
        );
        check(
            &answers,
            at(10_000),
            &[("error", "controller 1: has not answered for 10.0 s: its hosts wait")],
        );
        answers.answered(1, at(12_000));
        let slow = ("warning", "controller 1: is slow: it took 12.0 s to answer within the last minute");
        check(&answers, at(20_000), &[slow]);
        // Quick answers do not hide it before its time.
        answers.asked(1, at(30_000));
        answers.answered(1, at(30_001));
        check(&answers, at(71_900), &[slow]);
        check(&answers, at(72_000), &[]);
        answers.asked(1, at(80_000));
        answers.forget(1);
        check(&answers, at(100_000), &[]);
    }
}
