//! Configuration files of Iometer (`.icf`): their access specifications, outstanding I/Os, workers and times.
//!
//! A file is sections between `'NAME ====` and `'END name`; within them a line that begins with an apostrophe
//! says what the following lines are, and those are values, indented, separated by commas.

use std::time::Duration;

use super::access::{Access, Burst, Mix};
use super::job::{Job, Pace};
use super::written::{LeftOut, Written, WrittenError, each_line};

/// More access specifications than Iometer's list shows well.
const SPECS_MAX: usize = 10_000;
/// Iometer has 100 lines in one access specification.
const LINES_MAX: usize = 100;
/// Workers of one file.
const WORKERS_MAX: usize = 1024;

/// Reads a file. Each access specification becomes a job: Iometer runs those of a worker one after the other.
pub fn parse(text: &str) -> Result<Written, WrittenError> {
    let mut reader = Reader::default();
    each_line(text, |number, line| reader.line(number, line))?;
    reader.end()
}

/// What the values that follow are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Values {
    #[default]
    Unknown,
    RunTime,
    RampUp,
    SpecName,
    SpecLine,
    WorkerType,
    Outstanding,
    DiskSize,
    Target,
    TestType,
    /// Of no effect on what is done.
    Ignored,
}

/// An access specification that is being read.
struct Spec {
    name: String,
    line: usize,
    kinds: Vec<Access>,
}

#[derive(Default)]
struct Reader {
    values: Values,
    written: Written,
    specs: Vec<Spec>,
    workers: usize,
    is_disk: bool,
    outstanding: Option<u16>,
    sectors: Option<(u64, u64)>,
}

impl Reader {
    fn line(&mut self, number: usize, line: &str) -> Result<(), WrittenError> {
        let text = line.trim();
        if let Some(comment) = text.strip_prefix('\'') {
            self.comment(comment);
            return Ok(());
        }
        if text.is_empty() {
            return Ok(());
        }
        let wrong = |cause: &str| WrittenError::line(number, cause);
        match self.values {
            Values::RunTime => {
                let parts = numbers(text);
                let [Some(h), Some(m), Some(s)] = parts[..] else {
                    return Err(wrong("a run time is hours, minutes and seconds"));
                };
                let seconds = h.saturating_mul(3600).saturating_add(m.saturating_mul(60)).saturating_add(s);
                self.written.seconds = (seconds > 0).then_some(seconds as f64);
            }
            Values::RampUp => {
                let seconds = text.parse::<u32>().map_err(|_| wrong("a ramp-up time is whole seconds"))?;
                self.written.warm_up_seconds = Some(seconds.into());
            }
            Values::SpecName => self.spec_name(number, text)?,
            Values::SpecLine => self.spec_line(number, text)?,
            Values::WorkerType => {
                self.is_disk = text.eq_ignore_ascii_case("disk");
                if !self.is_disk {
                    self.left_out(number, text, "only disk workers are supported");
                } else if self.workers >= WORKERS_MAX {
                    return Err(WrittenError::TooMany { line: number, what: "workers", most: WORKERS_MAX });
                } else {
                    self.workers += 1;
                }
            }
            Values::Outstanding => self.outstanding(number, text)?,
            Values::DiskSize => self.disk_size(number, text)?,
            Values::Target => self.left_out(number, text, "the target is the one of the command line"),
            Values::TestType => {
                if !text.eq_ignore_ascii_case("normal") {
                    self.left_out(
                        number,
                        text,
                        "cycling is not supported: each access specification is a separate job",
                    );
                }
            }
            Values::Unknown => {
                if !text.to_ascii_lowercase().starts_with("version") {
                    self.left_out(number, text, "is of no effect here");
                }
            }
            Values::Ignored => {}
        }
        Ok(())
    }

    fn left_out(&mut self, line: usize, text: &str, why: &str) {
        self.written.left_out.push(LeftOut::new(line, text, why));
    }

    /// A line with an apostrophe: what follows.
    fn comment(&mut self, comment: &str) {
        let lower = comment.trim().to_ascii_lowercase();
        let is = |start: &str| lower.starts_with(start);
        self.values = if is("run time") {
            Values::RunTime
        } else if is("ramp up time") {
            Values::RampUp
        } else if is("access specification name") {
            Values::SpecName
        } else if is("size,") {
            Values::SpecLine
        } else if is("worker type") {
            Values::WorkerType
        } else if is("number of outstanding ios") {
            Values::Outstanding
        } else if is("disk maximum size") {
            Values::DiskSize
        } else if is("target") && !is("target type") && !is("target assignments") {
            Values::Target
        } else if is("worker cycling") || is("disk cycling") || is("queue depth cycling") {
            // Only a test type that cycles makes anything of it.
            Values::Ignored
        } else if is("test type") {
            Values::TestType
        } else if is("hours ") || is("hours\t") || is("start") {
            // A second line about the same values.
            return;
        } else {
            Values::Ignored
        };
    }

    fn spec_name(&mut self, number: usize, text: &str) -> Result<(), WrittenError> {
        if self.specs.len() >= SPECS_MAX {
            return Err(WrittenError::TooMany {
                line: number,
                what: "access specifications",
                most: SPECS_MAX,
            });
        }
        // The last field is the default assignment; names may hold commas.
        let name = text.rsplit_once(',').map_or(text, |(name, _)| name).trim().to_owned();
        self.specs.push(Spec { name, line: number, kinds: Vec::new() });
        Ok(())
    }

    /// size, % of size, % reads, % random, delay, burst, align, reply.
    fn spec_line(&mut self, number: usize, text: &str) -> Result<(), WrittenError> {
        let fields = numbers(text);
        let [Some(size), Some(share), Some(read), Some(random), Some(delay), Some(burst), rest @ ..] =
            &fields[..]
        else {
            return Err(WrittenError::line(number, "an access specification is eight numbers"));
        };
        let percent = |value: u64| u32::try_from(value).unwrap_or(u32::MAX);
        let align = match rest.first() {
            // Sector boundaries.
            Some(Some(0)) | None => super::access::ALIGN_MIN,
            Some(Some(align)) => *align,
            Some(None) => return Err(WrittenError::line(number, "the alignment is not a number")),
        };
        if let Some(Some(reply)) = rest.get(1)
            && *reply > 0
        {
            self.left_out(number, text, "replies are those of network workers");
        }
        let burst = (*delay > 0).then(|| Burst {
            length: u32::try_from(*burst).unwrap_or(u32::MAX),
            delay: Duration::from_millis(*delay),
        });
        let kind = Access {
            share_percent: percent(*share),
            size: *size,
            read_percent: percent(*read),
            random_percent: percent(*random),
            align,
            burst,
        };
        let Some(spec) = self.specs.last_mut() else {
            return Err(WrittenError::line(number, "an access specification without a name"));
        };
        if spec.kinds.len() >= LINES_MAX {
            return Err(WrittenError::TooMany {
                line: number,
                what: "lines of one access specification",
                most: LINES_MAX,
            });
        }
        spec.kinds.push(kind);
        Ok(())
    }

    /// Outstanding I/Os, and what only network workers have. Workers may differ in it; the most of them holds
    /// for all.
    fn outstanding(&mut self, number: usize, text: &str) -> Result<(), WrittenError> {
        let first = text.split(',').next().unwrap_or("").trim();
        let depth = first
            .parse::<u16>()
            .map_err(|_| WrittenError::line(number, "the number of outstanding I/Os is not a number"))?;
        if self.outstanding.is_some_and(|before| before != depth) {
            self.left_out(number, text, "workers differ in outstanding I/Os: the most of them holds for all");
        }
        self.outstanding = Some(self.outstanding.map_or(depth, |before| before.max(depth)));
        Ok(())
    }

    /// Disk maximum size and starting sector, in sectors of 512 bytes.
    fn disk_size(&mut self, number: usize, text: &str) -> Result<(), WrittenError> {
        let fields = numbers(text);
        let [Some(most), Some(first), ..] = fields[..] else {
            return Err(WrittenError::line(
                number,
                "a disk's maximum size and starting sector are two numbers",
            ));
        };
        if self.sectors.is_some_and(|before| before != (most, first)) {
            self.left_out(
                number,
                text,
                "workers differ in the part of the disk: that of the first holds for all",
            );
        }
        self.sectors.get_or_insert((most, first));
        Ok(())
    }

    fn end(mut self) -> Result<Written, WrittenError> {
        let (most, first) = self.sectors.unwrap_or_default();
        let bytes = |sectors: u64| sectors.saturating_mul(512);
        let workers = self.workers.max(1);
        let mut refused = None;
        for spec in std::mem::take(&mut self.specs) {
            // Iometer comes with an entry "Idle" and others without I/O.
            if spec.kinds.iter().all(|kind| kind.size == 0) {
                self.left_out(spec.line, &spec.name, "does no I/O");
                continue;
            }
            match Mix::new(spec.kinds) {
                Ok(mix) => self.written.jobs.push(Job {
                    name: spec.name,
                    mix,
                    outstanding: self.outstanding.unwrap_or(1),
                    pace: Pace::Closed,
                    workers,
                    from: bytes(first),
                    span: (most > 0).then(|| bytes(most)),
                }),
                Err(cause) => {
                    self.left_out(spec.line, &spec.name, &cause.to_string());
                    refused.get_or_insert(WrittenError::line(spec.line, cause));
                }
            }
        }
        match (self.written.jobs.is_empty(), refused) {
            (false, _) => Ok(self.written),
            (true, Some(why)) => Err(why),
            (true, None) => Err(WrittenError::Nothing("access specification")),
        }
    }
}

/// The fields of a line, which commas or blanks part.
fn numbers(text: &str) -> Vec<Option<u64>> {
    let fields = text.split(|c: char| c == ',' || c.is_whitespace()).filter(|field| !field.is_empty());
    fields.map(|field| field.parse().ok()).take(LINES_MAX).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Fuzzing begins with it, too.
    const FILE: &str = include_str!("../../../../fuzz/seeds/load_files/icf");

    #[test]
    fn a_file_of_iometer_maps() {
        let written = parse(FILE).expect("reads");
        assert_eq!((written.seconds, written.warm_up_seconds), (Some(150.0), Some(10.0)));
        let [writes, mixed] = &written.jobs[..] else { panic!("{:?}", written.jobs) };
        assert_eq!(writes.name, "512 KiB, random writes");
        assert_eq!(writes.mix.kinds(), [Access::new(512 << 10, 0, 100)]);
        assert_eq!((writes.outstanding, writes.workers), (1, 1));
        assert_eq!((writes.from, writes.span), (1 << 20, Some(1 << 30)));
        let burst = Some(Burst { length: 8, delay: Duration::from_millis(5) });
        let first = Access { share_percent: 60, align: 512, burst, ..Access::new(4096, 67, 100) };
        let second = Access { share_percent: 40, align: 512, ..Access::new(65536, 0, 0) };
        assert_eq!(mixed.mix.kinds(), [first, second]);
        let said: Vec<String> = written.left_out.iter().map(ToString::to_string).collect();
        let has = |part: &str| said.iter().any(|line| line.contains(part));
        assert!(has("Idle") && has("D: \"Data\"") && has("NETWORK"), "{said:#?}");
        assert!(has("CYCLE"), "what is not done is said: {said:#?}");
    }

    #[test]
    fn what_is_no_such_file_is_refused_with_its_line() {
        for (text, expected) in [
            ("", "missing access specification"),
            ("'size,\n 1,2,3", "line 2: "),
            ("'size,\n 4096,100,100,100,0,1,0,0", "without a name"),
            ("'Access specification name,\n x,NONE\n'size,\n 4096,50,100,100,0,1,0,0", "50 %"),
            ("'Access specification name,\n x,NONE\n'size,\n 1000,100,100,100,0,1,0,0", "size 1000"),
            ("'Run Time\n 1 2", "line 2: "),
            ("'Run Time\n 18446744073709551615 18446744073709551615 1\n", "missing access"),
        ] {
            let said = parse(text).expect_err(text).to_string();
            assert!(said.contains(expected), "{text:?}: {said}");
        }
        assert_eq!(parse(&"x".repeat(crate::load::written::FILE_BYTES_MAX + 1)), Err(WrittenError::TooLong));
    }

    /// Any cut and any changed byte gives a job list or one line, never a panic.
    #[test]
    fn broken_files_do_no_harm() {
        let mut rng = world::Rng::with_seed(1);
        for _ in 0..2000 {
            let mut bytes = FILE.as_bytes().to_vec();
            for _ in 0..rng.usize(1..20) {
                let at = rng.usize(..bytes.len());
                match rng.u8(..3) {
                    0 => bytes[at] = rng.u8(..),
                    1 => bytes.truncate(at.max(1)),
                    _ => bytes.insert(at, b"0123456789,'-\n"[rng.usize(..14)]),
                }
            }
            if let Err(error) = parse(&String::from_utf8_lossy(&bytes)) {
                assert!(!error.to_string().contains('\n'), "{error}");
            }
        }
    }
}
