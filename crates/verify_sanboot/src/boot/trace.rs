//! The trace of a boot: what a server reads and writes from power-on until its system runs, each command
//! after the answer that it waited for.
//!
//! ```text
//!   1 5384 R 2858 72     5,384 µs after the answer to the command before: read 72 blocks from block 2858 on
//!   1 31294 up           31,294 µs after the last answer: the system runs
//! ```

use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use lab_core::text_file::read_at_most;

use crate::front::Op;

/// The name of the trace that is built in.
const GUEST: &str = "guest";
const BUILT_IN: &str = include_str!("../../../../scenarios/sanboot_boot.txt");
/// The longest file: some 100,000 commands.
const FILE_BYTES_MAX: u64 = 4 << 20;
/// The most commands of a boot.
const STEPS_MAX: usize = 100_000;
/// Of its addresses.
const BLOCK_BYTES: u64 = 512;
/// One command moves at most so much: what a server of that time asks for at once, and more.
const TRANSFER_BYTES_MAX: u64 = 16 << 20;
/// The longest time between two commands.
const THINK_MAX: Duration = Duration::from_secs(3600);

/// A command of a boot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Step {
    /// The command whose answer it waits for; none: power-on.
    pub(crate) after: Option<usize>,
    /// What the server does between that and this.
    pub(crate) think: Duration,
    pub(crate) op: Op,
    pub(crate) bytes: u64,
}

/// A boot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Trace {
    pub(crate) steps: Vec<Step>,
    /// The command after whose answer, and how long after it, the system runs.
    pub(crate) up: (usize, Duration),
}

impl Trace {
    /// The one that is built in, or that of a file.
    ///
    /// # Errors
    ///
    /// No such file, or a line of it is not one of a trace.
    pub(crate) fn load(name_or_path: &str) -> Result<Trace> {
        if name_or_path == GUEST {
            return Trace::parse(BUILT_IN);
        }
        let text = read_at_most(Path::new(name_or_path), FILE_BYTES_MAX)
            .with_context(|| format!("{name_or_path}: no boot; {GUEST:?} is built in"))?;
        Trace::parse(&text).with_context(|| name_or_path.to_owned())
    }

    fn parse(text: &str) -> Result<Trace> {
        let (mut steps, mut up) = (Vec::new(), None);
        for (number, line) in (1..).zip(text.lines()) {
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let at = || format!("line {number}: {line:?}");
            ensure!(up.is_none(), "{}: after the line that says \"up\"", at());
            let words: Vec<&str> = line.split_ascii_whitespace().collect();
            let [back, think, rest @ ..] = &words[..] else { bail!("{}: missing fields", at()) };
            let back: usize = back.parse().with_context(at)?;
            let think = Duration::from_micros(think.parse().with_context(at)?);
            ensure!(think <= THINK_MAX, "{}: more than an hour between two commands", at());
            ensure!(back <= steps.len(), "{}: no command stands so many lines before", at());
            let after = (back > 0).then(|| steps.len() - back);
            match rest {
                ["up"] => up = Some((after.with_context(at)?, think)),
                [op @ ("R" | "W"), lba, blocks] => {
                    let (lba, blocks): (u64, u64) =
                        (lba.parse().with_context(at)?, blocks.parse().with_context(at)?);
                    let bytes = blocks.saturating_mul(BLOCK_BYTES);
                    ensure!(
                        (1..=TRANSFER_BYTES_MAX).contains(&bytes),
                        "{}: moves nothing, or more than {} MiB",
                        at(),
                        TRANSFER_BYTES_MAX >> 20
                    );
                    let at = lba.checked_mul(BLOCK_BYTES).with_context(at)?;
                    steps.push(Step { after, think, op: Op { at, reads: *op == "R" }, bytes });
                    ensure!(steps.len() <= STEPS_MAX, "more than {STEPS_MAX} commands");
                }
                _ => bail!("{}: must be AFTER THINK_US R|W LBA BLOCKS, or AFTER THINK_US up", at()),
            }
        }
        Ok(Trace { steps, up: up.context("no line says \"up\": it is not whole")? })
    }

    /// The longest command.
    pub(crate) fn bytes_max(&self) -> u64 {
        self.steps.iter().map(|step| step.bytes).max().unwrap_or(0)
    }

    /// The first byte that nothing of it reaches.
    pub(crate) fn end(&self) -> u64 {
        self.steps.iter().map(|step| step.op.at.saturating_add(step.bytes)).max().unwrap_or(0)
    }

    /// How long the server itself takes, between answers that take no time.
    #[cfg(test)]
    pub(crate) fn own_time(&self) -> Duration {
        let mut done: Vec<Duration> = Vec::new();
        for step in &self.steps {
            done.push(step.after.map_or(Duration::ZERO, |n| done[n]) + step.think);
        }
        done[self.up.0] + self.up.1
    }

    /// Bytes that it reads.
    pub(crate) fn read_bytes(&self) -> u64 {
        self.steps.iter().filter(|step| step.op.reads).map(|step| step.bytes).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_command_waits_for_the_answer_that_its_line_names() {
        let trace = Trace::parse("# a boot\n0 5 R 64 4\n1 10 W 0 1\n2 20 R 8 8\n1 7 up\n").expect("a trace");
        let afters: Vec<_> = trace.steps.iter().map(|step| step.after).collect();
        assert_eq!(afters, [None, Some(0), Some(0)]);
        assert_eq!(trace.steps[1].op, Op { at: 0, reads: false });
        assert_eq!((trace.up, trace.end()), ((2, Duration::from_micros(7)), 68 * 512));
        // 5 until the first, 20 until the third, 7 until it is up: the write is none of its way.
        assert_eq!(trace.own_time(), Duration::from_micros(32));
        assert_eq!((trace.read_bytes(), trace.bytes_max()), (12 * 512, 8 * 512));
    }

    #[test]
    fn a_line_that_says_nothing_of_a_boot_is_refused_by_its_number() {
        for (text, said) in [
            ("0 5 R 64 4\n", "no line says"),
            ("1 5 R 64 4\n0 1 up\n", "line 1"),
            ("0 5 R 64 0\n1 1 up\n", "moves nothing"),
            ("0 5 R 64 4\n1 5 X 64 4\n1 1 up\n", "line 2"),
            ("0 5 R 64 4\n1 1 up\n1 5 R 64 4\n", "after the line"),
            ("0 5 R 18446744073709551615 4\n1 1 up\n", "line 1"),
            ("0 5 R 64 18446744073709551615\n1 1 up\n", "moves nothing"),
            ("0 99999999999999 R 64 4\n1 1 up\n", "more than an hour"),
            ("0 5 up\n", "line 1"),
            ("5\n", "missing fields"),
        ] {
            let refused = format!("{:#}", Trace::parse(text).expect_err(text));
            assert!(refused.contains(said), "{text:?}: {refused}");
        }
    }

    /// The file that the scenario names: some 20 MB, nearly all of them read one after the other.
    #[test]
    fn the_built_in_boot_is_whole() {
        let trace = Trace::load(GUEST).expect("built in");
        assert_eq!(trace.steps.len(), 420);
        assert!((12 << 20..30 << 20).contains(&trace.read_bytes()), "{}", trace.read_bytes());
        assert!(trace.end() <= 128 << 20, "within the image");
        assert!((8..14).contains(&trace.own_time().as_secs()), "{:?}", trace.own_time());
        assert!(trace.steps.iter().any(|step| !step.op.reads), "the root file system is mounted to write");
    }
}
