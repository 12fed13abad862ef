//! The command line.

use std::path::PathBuf;
use std::str::FromStr;

use crate::outcome::{Outcome, json, table};
use crate::pattern::{Direction, Pattern, PatternError, published};
use crate::run::{Plan, StressError, TRANSFER_BYTES, prepare, run};
use crate::target::Target;

/// The text of `--help`; PROGRAM is replaced by the program's name.
pub const HELP: &str = "\
Concurrent sequential I/O on files, one thread per file, bypassing the page cache; reports MB/s

Usage: PROGRAM [OPTIONS] <DIRECTORY|DRIVE|IMAGE>

In a directory, files are created and removed again; on a drive or in an image, the files are consecutive ranges from its
beginning. Every 4 KiB block that is read is compared with what was written. A pattern that reads writes its files first,
untimed, unless the previous pattern wrote them.

Options:
  --patterns LIST    W1,R1,W2,R2,W3,R3,W4,R4 (all of them: 64 x 128, 32 x 256, 16 x 512, 8 x 1024 MB, 8 GB in total each),
                     or any number and size: W16x100,R16x100
  --scale SHARE      scale the file sizes by this factor, in (0, 1]
  --repeats N        repeat the whole list N times [1]
  --transfer KIB     size of one read or write [256]
  --cpu N            run all threads on processor N
  --buffered         use the page cache
  --keep             keep the files
  --as-it-is         read existing files, written by an earlier run with the same seed
  --seed N           seed of the content [1]
  --destroy-data     confirm that a drive or image is overwritten
  --json             print one line of JSON per pattern
  -h, --help         print this help

File sizes: 1 MB is 2^20 bytes. Speeds: 1 MB/s is 10^6 bytes per second. Machine CPU is the load of all processors together;
100 % own CPU is one processor.
Exit status: 0 done, 1 read data differ from written data, 2 bad input or failure.
";

/// The parsed command line.
#[derive(Clone, Debug, PartialEq)]
#[expect(missing_docs, reason = "self-explanatory names")]
pub struct Line {
    /// The directory, drive or image.
    pub path: PathBuf,
    /// Patterns, in this order.
    pub patterns: Vec<Pattern>,
    /// Number of repeats of the whole list.
    pub repeats: u32,
    pub transfer_bytes: u64,
    /// Run all threads on this processor.
    pub cpu: Option<usize>,
    /// Use the page cache.
    pub buffered: bool,
    /// Keep the files.
    pub keep: bool,
    /// Read existing content without writing it first.
    pub as_it_is: bool,
    /// Seed of the content.
    pub seed: u64,
    /// A drive or image may be overwritten.
    pub destroy_data: bool,
    /// Print JSON.
    pub json: bool,
}

/// Why a command line was refused.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "self-explanatory names")]
pub enum LineError {
    /// An unknown option.
    #[error("unknown option {0}; see --help")]
    Unknown(String),
    /// An option without its value.
    #[error("{0} requires a value")]
    Missing(&'static str),
    /// An invalid value.
    #[error("invalid {option} {value}: {cause}")]
    Value {
        option: &'static str,
        /// The given value.
        value: String,
        /// The valid values.
        cause: String,
    },
    /// No path was given.
    #[error("missing directory, drive or image; see --help")]
    NoPath,
    /// More than one path was given.
    #[error("unexpected {0}: only one directory, drive or image can be given")]
    TwoPaths(String),
}

/// Parses the command line; `None` if help was requested.
pub fn read(words: &[String]) -> Result<Option<Line>, LineError> {
    let mut line = Line {
        path: PathBuf::new(),
        patterns: published(),
        repeats: 1,
        transfer_bytes: TRANSFER_BYTES,
        cpu: None,
        buffered: false,
        keep: false,
        as_it_is: false,
        seed: 1,
        destroy_data: false,
        json: false,
    };
    let mut scale = 1.0;
    let mut rest = words.iter();
    while let Some(word) = rest.next() {
        let (name, inline) = match word.split_once('=') {
            Some((name, value)) if name.starts_with("--") => (name, Some(value.to_owned())),
            _ => (word.as_str(), None),
        };
        let mut value =
            |option| inline.clone().or_else(|| rest.next().cloned()).ok_or(LineError::Missing(option));
        match name {
            "-h" | "--help" => return Ok(None),
            "--patterns" => line.patterns = patterns(&value("--patterns")?)?,
            "--scale" => {
                let is_share = |scale: &f64| *scale > 0.0 && *scale <= 1.0;
                scale = number("--scale", value("--scale")?, "must be in (0, 1]", is_share)?;
            }
            "--repeats" => {
                let few = |n: &u32| (1..=1000).contains(n);
                line.repeats = number("--repeats", value("--repeats")?, "must be 1 to 1000", few)?;
            }
            "--transfer" => {
                let kib: u64 = number(
                    "--transfer",
                    value("--transfer")?,
                    "must be a multiple of 4, from 4 to 65536 (KiB)",
                    |n| (4..=65_536).contains(n) && n % 4 == 0,
                )?;
                line.transfer_bytes = kib << 10;
            }
            "--cpu" => {
                line.cpu = Some(number("--cpu", value("--cpu")?, "must be a processor number", |_| true)?)
            }
            "--seed" => line.seed = number("--seed", value("--seed")?, "must be a number", |_| true)?,
            "--buffered" => line.buffered = true,
            "--keep" => line.keep = true,
            "--as-it-is" => line.as_it_is = true,
            "--destroy-data" => line.destroy_data = true,
            "--json" => line.json = true,
            other if other.starts_with('-') && other.len() > 1 => {
                return Err(LineError::Unknown(word.clone()));
            }
            _ if line.path.as_os_str().is_empty() => line.path = word.into(),
            _ => return Err(LineError::TwoPaths(word.clone())),
        }
    }
    if line.path.as_os_str().is_empty() {
        return Err(LineError::NoPath);
    }
    line.patterns = line.patterns.iter().map(|pattern| pattern.scaled(scale)).collect();
    Ok(Some(line))
}

fn number<T: FromStr>(
    option: &'static str,
    value: String,
    cause: &str,
    fits: impl Fn(&T) -> bool,
) -> Result<T, LineError> {
    let read = value.parse().ok().filter(fits);
    read.ok_or_else(|| LineError::Value { option, value, cause: cause.into() })
}

fn patterns(list: &str) -> Result<Vec<Pattern>, LineError> {
    let wrong =
        |e: PatternError| LineError::Value { option: "--patterns", value: list.into(), cause: e.to_string() };
    list.split(',').map(str::parse).collect::<Result<Vec<Pattern>, PatternError>>().map_err(wrong)
}

impl Line {
    /// Runs the load and prints the outcome. Returns the number of blocks with wrong content.
    pub fn run(&self) -> Result<u64, StressError> {
        let place = |cause| StressError::Place { path: self.path.display().to_string(), cause };
        let target = Target::at(&self.path).map_err(place)?;
        if matches!(target, Target::Image(_)) && !self.destroy_data {
            return Err(place(std::io::Error::other(
                "refusing to overwrite it; pass --destroy-data to confirm",
            )));
        }
        let plan = Plan {
            target,
            transfer_bytes: self.transfer_bytes,
            cpu: self.cpu,
            buffered: self.buffered,
            seed: self.seed,
        };
        let outcome = self.repeat(&plan);
        if !self.keep {
            self.patterns.iter().for_each(|pattern| plan.target.remove(pattern));
        }
        outcome
    }

    fn repeat(&self, plan: &Plan) -> Result<u64, StressError> {
        let (mut all, mut wrong) = (Vec::<Outcome>::new(), 0);
        for _ in 0..self.repeats {
            for (number, pattern) in self.patterns.iter().enumerate() {
                let before = number.checked_sub(1).map(|before| &self.patterns[before]);
                let written = before.is_some_and(|b| {
                    let same = b.files == pattern.files && b.file_bytes == pattern.file_bytes;
                    same && pattern.direction == Direction::Read
                });
                if !written && !self.as_it_is {
                    prepare(plan, pattern)?;
                }
                let outcome = run(plan, pattern)?;
                if self.json {
                    println!("{}", json(&outcome));
                }
                wrong += outcome.wrong;
                let next = self.patterns.get(number + 1);
                let is_last =
                    next.is_none_or(|n| n.files != pattern.files || n.file_bytes != pattern.file_bytes);
                if is_last && !self.keep {
                    plan.target.remove(pattern);
                }
                all.push(outcome);
            }
        }
        if !self.json {
            print!("{}", table(&all));
        }
        if !self.buffered && all.iter().any(|outcome| !outcome.direct) {
            let path = self.path.display();
            eprintln!(
                "warning: the file system of {path} does not support direct I/O; speeds include the page cache"
            );
        }
        Ok(wrong)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(words: &str) -> Result<Option<Line>, LineError> {
        read(&words.split(' ').map(String::from).collect::<Vec<_>>())
    }

    #[test]
    fn words_say_what_is_run() {
        let all = line("/d --scale 0.5").expect("reads").expect("a load");
        assert_eq!((all.patterns.len(), all.patterns[0].file_bytes), (8, 64 << 20));
        let own = line("--patterns=R2x3,w1 --cpu 1 --transfer 64 /d --json").expect("reads").expect("a load");
        assert_eq!(own.patterns[0].to_string(), "2 × 3 MB");
        assert_eq!((own.cpu, own.transfer_bytes, own.json), (Some(1), 65_536, true));
        assert_eq!(line("/d --help").expect("reads"), None);
    }

    #[test]
    fn what_does_not_read_gets_a_sentence() {
        for (words, text) in [
            ("--json", "missing directory, drive or image; see --help"),
            ("/d --scale 2", "invalid --scale 2: must be in (0, 1]"),
            ("/d --scale", "--scale requires a value"),
            (
                "/d --patterns R9",
                "invalid --patterns R9: unknown pattern \"R9\" (expected R1 to R4, W1 to W4, or e.g. R16x512 for 16 files of 512 MB)",
            ),
            ("/d --transfer 3", "invalid --transfer 3: must be a multiple of 4, from 4 to 65536 (KiB)"),
            ("/d --repeat 3", "unknown option --repeat; see --help"),
            ("/d /e", "unexpected /e: only one directory, drive or image can be given"),
        ] {
            assert_eq!(line(words).expect_err("refused").to_string(), text);
        }
    }
}
