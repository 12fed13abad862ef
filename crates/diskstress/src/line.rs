//! The words of the command line.

use std::path::PathBuf;
use std::str::FromStr;

use crate::outcome::{Outcome, json, table};
use crate::pattern::{Direction, Pattern, PatternError, published};
use crate::run::{Plan, StressError, TRANSFER_BYTES, prepare, run};
use crate::target::Target;

/// What `--help` prints; PROGRAM is its name.
pub const HELP: &str = "\
Files written and read side by side, one thread each, in order and past the page cache; reports MB/s

Usage: PROGRAM [OPTIONS] <DIRECTORY|DRIVE|IMAGE>

In a directory files are made and removed again; on a drive or in an image they are stretches of it, from its beginning on.
What is read was written before, and every block of 4 KiB is checked. A pattern that reads writes its files first, untimed,
unless the pattern before has.

Options:
  --patterns LIST    W1,R1,W2,R2,W3,R3,W4,R4 (all of them: 64 x 128, 32 x 256, 16 x 512, 8 x 1024 MB, each 8 GB),
                     or any number and size: W16x100,R16x100
  --scale SHARE      files of this share of their size, as in 0.01
  --repeats N        the whole list so often [1]
  --transfer KIB     one read or write [256]
  --cpu N            all threads on processor N
  --buffered         through the page cache
  --keep             leave the files
  --as-it-is         read what lies there: an earlier run has written it with this seed
  --seed N           of the content [1]
  --destroy-data     agree that a drive or image is overwritten
  --json             a line of JSON for each pattern
  -h, --help         this

MB of a file's size is 2^20 bytes, MB/s is 10^6 bytes per second. Machine CPU is of all processors together; own CPU is of one.
Exit status: 0 done, 1 what was read is not what was written, 2 bad input or failure.
";

/// What was asked for.
#[derive(Clone, Debug, PartialEq)]
pub struct Line {
    /// The directory, drive or image.
    pub path: PathBuf,
    /// In this order.
    pub patterns: Vec<Pattern>,
    /// How often.
    pub repeats: u32,
    /// Bytes of one transfer.
    pub transfer_bytes: u64,
    /// All on this one.
    pub cpu: Option<usize>,
    /// Through the page cache.
    pub buffered: bool,
    /// Files stay.
    pub keep: bool,
    /// Nothing is written before it is read.
    pub as_it_is: bool,
    /// Of the content.
    pub seed: u64,
    /// A drive may be overwritten.
    pub destroy_data: bool,
    /// For a program.
    pub json: bool,
}

/// What is wrong with the words.
#[derive(Debug, thiserror::Error)]
pub enum LineError {
    /// Nobody knows it.
    #[error("{0}: no such option; --help lists them")]
    Unknown(String),
    /// Something must follow.
    #[error("{0}: its value is missing")]
    Missing(&'static str),
    /// It does not read.
    #[error("{option} {value}: {cause}")]
    Value {
        /// The option.
        option: &'static str,
        /// What was said.
        value: String,
        /// What it must be.
        cause: String,
    },
    /// Where?
    #[error("say a directory, a drive or an image; --help tells more")]
    NoPath,
    /// One is enough.
    #[error("{0}: one directory, drive or image is enough")]
    TwoPaths(String),
}

/// Reads the words; `None` where help is asked for.
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
                scale = number("--scale", value("--scale")?, "over 0 and at most 1", is_share)?;
            }
            "--repeats" => {
                let few = |n: &u32| (1..=1000).contains(n);
                line.repeats = number("--repeats", value("--repeats")?, "1 to 1000", few)?;
            }
            "--transfer" => {
                let kib: u64 =
                    number("--transfer", value("--transfer")?, "KiB, 4 to 65536, a multiple of 4", |n| {
                        (4..=65_536).contains(n) && n % 4 == 0
                    })?;
                line.transfer_bytes = kib << 10;
            }
            "--cpu" => line.cpu = Some(number("--cpu", value("--cpu")?, "a number", |_| true)?),
            "--seed" => line.seed = number("--seed", value("--seed")?, "a number", |_| true)?,
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
    /// Runs it and prints what came of it. Gives the blocks that were not what was written.
    pub fn run(&self) -> Result<u64, StressError> {
        let place = |cause| StressError::Place { path: self.path.display().to_string(), cause };
        let target = Target::at(&self.path).map_err(place)?;
        if matches!(target, Target::Image(_)) && !self.destroy_data {
            return Err(place(std::io::Error::other("would be overwritten: say --destroy-data to agree")));
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
                "{path}: its file system has no direct I/O: the speeds are those of the page cache, too"
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
            ("--json", "say a directory, a drive or an image; --help tells more"),
            ("/d --scale 2", "--scale 2: over 0 and at most 1"),
            ("/d --scale", "--scale: its value is missing"),
            (
                "/d --patterns R9",
                "--patterns R9: \"R9\" is no pattern: R1 to R4, W1 to W4, or as in R16x512 for 16 files of 512 MB",
            ),
            ("/d --transfer 3", "--transfer 3: KiB, 4 to 65536, a multiple of 4"),
            ("/d --repeat 3", "--repeat: no such option; --help lists them"),
            ("/d /e", "/e: one directory, drive or image is enough"),
        ] {
            assert_eq!(line(words).expect_err("refused").to_string(), text);
        }
    }
}
