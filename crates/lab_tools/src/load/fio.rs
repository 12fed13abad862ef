//! Job files of fio: what of them maps.
//!
//! A file is sections `[name]` with `key=value` lines; `[global]` holds for the sections after it. Sections
//! run side by side.

use std::time::Duration;

use super::access::{ALIGN_MIN, Access, Burst, Mix};
use super::job::{Arrivals, Job, Pace};
use super::written::{LeftOut, Written, WrittenError, each_line};

/// Sections of one file.
const SECTIONS_MAX: usize = 1024;
/// Sizes of one `bssplit`: as many as a mix has.
const SPLITS_MAX: usize = 100;

/// Reads a file.
pub fn parse(text: &str) -> Result<Written, WrittenError> {
    let mut reader = Reader::default();
    each_line(text, |number, line| reader.line(number, line))?;
    reader.end()
}

/// What a section says; [`Section::default`] is what fio does when nothing is said.
#[derive(Clone, Debug)]
struct Section {
    name: String,
    line: usize,
    read_percent: u32,
    /// `None`: as the kind of the load says.
    random_percent: Option<u32>,
    is_random: bool,
    is_mixed: bool,
    mix_read_percent: u32,
    /// Sizes and their shares.
    sizes: Vec<(u64, u32)>,
    align: Option<u64>,
    depth: u16,
    workers: usize,
    seconds: Option<f64>,
    warm_up_seconds: Option<f64>,
    rate: Option<f64>,
    arrivals: Arrivals,
    think: Duration,
    think_blocks: u32,
    from: u64,
    span: Option<u64>,
}

impl Default for Section {
    fn default() -> Section {
        Section {
            name: String::new(),
            line: 0,
            read_percent: 100,
            random_percent: None,
            is_random: false,
            is_mixed: false,
            mix_read_percent: 50,
            sizes: vec![(4096, 100)],
            align: None,
            depth: 1,
            workers: 1,
            seconds: None,
            warm_up_seconds: None,
            rate: None,
            arrivals: Arrivals::Even,
            think: Duration::ZERO,
            think_blocks: 1,
            from: 0,
            span: None,
        }
    }
}

#[derive(Default)]
struct Reader {
    global: Section,
    /// The one that lines belong to; none: the global one.
    current: Option<Section>,
    sections: Vec<Section>,
    left_out: Vec<LeftOut>,
    begun: bool,
}

impl Reader {
    fn line(&mut self, number: usize, line: &str) -> Result<(), WrittenError> {
        let text = line.trim();
        if text.is_empty() || text.starts_with(['#', ';']) {
            return Ok(());
        }
        if let Some(name) = text.strip_prefix('[') {
            let name = name.split(']').next().unwrap_or("").trim();
            return self.begin(number, name);
        }
        let (key, value) = text.split_once('=').unwrap_or((text, ""));
        let (key, value) = (key.trim().to_ascii_lowercase(), value.trim());
        if !self.begun {
            return Err(WrittenError::line(number, "stands before the first [section]"));
        }
        let section = self.current.as_mut().unwrap_or(&mut self.global);
        match section.set(&key, value) {
            Ok(None) => {}
            Ok(Some(why)) => self.left_out.push(LeftOut::new(number, text, why)),
            Err(cause) => return Err(WrittenError::line(number, format!("{key}={value}: {cause}"))),
        }
        Ok(())
    }

    fn begin(&mut self, number: usize, name: &str) -> Result<(), WrittenError> {
        self.begun = true;
        self.sections.extend(self.current.take());
        if self.sections.len() >= SECTIONS_MAX {
            return Err(WrittenError::TooMany { line: number, what: "sections", most: SECTIONS_MAX });
        }
        if !name.eq_ignore_ascii_case("global") {
            self.current = Some(Section { name: name.to_owned(), line: number, ..self.global.clone() });
        }
        Ok(())
    }

    fn end(mut self) -> Result<Written, WrittenError> {
        self.sections.extend(self.current.take());
        if self.sections.is_empty() {
            return Err(WrittenError::Nothing("job"));
        }
        let most = |of: fn(&Section) -> Option<f64>| {
            self.sections
                .iter()
                .filter_map(of)
                .fold(None, |most: Option<f64>, s| Some(most.map_or(s, |m| m.max(s))))
        };
        let (seconds, warm_up_seconds) = (most(|s| s.seconds), most(|s| s.warm_up_seconds));
        for section in &self.sections {
            if section.seconds.is_some() && section.seconds != seconds {
                let why = "sections differ in runtime: all run as long as the longest";
                self.left_out.push(LeftOut::new(section.line, &format!("[{}]", section.name), why));
            }
        }
        let jobs = self.sections.into_iter().map(Section::job).collect::<Result<Vec<Job>, _>>()?;
        Ok(Written { jobs, seconds, warm_up_seconds, left_out: self.left_out })
    }
}

type Set = Result<Option<&'static str>, &'static str>;

impl Section {
    /// Takes a line. `Some`: why it has no effect.
    fn set(&mut self, key: &str, value: &str) -> Set {
        match key {
            "rw" | "readwrite" => return self.kind(value),
            "rwmixread" => self.mix_read_percent = percent(value)?,
            "rwmixwrite" => self.mix_read_percent = 100 - percent(value)?,
            "percentage_random" => self.random_percent = Some(percent(value)?),
            "bs" | "blocksize" => {
                let (first, rest) = value.split_once(',').unwrap_or((value, ""));
                self.sizes = vec![(size(first)?, 100)];
                if !rest.is_empty() {
                    return Ok(Some("reads and writes have one size here: the first"));
                }
            }
            "bssplit" => return self.split(value),
            "ba" | "blockalign" => self.align = Some(size(value.split(',').next().unwrap_or(value))?),
            "iodepth" => self.depth = whole(value)?,
            "numjobs" => self.workers = usize::from(whole(value)?),
            "runtime" => self.seconds = Some(seconds(value)?),
            "ramp_time" => self.warm_up_seconds = Some(seconds(value)?),
            "rate_iops" => {
                self.rate = Some(f64::from(
                    value
                        .parse::<u32>()
                        .map_err(|_| "not a valid rate (expected I/Os per second, e.g. 500)")?,
                ))
            }
            "rate_process" if value == "poisson" => self.arrivals = Arrivals::Poisson,
            "rate_process" => self.arrivals = Arrivals::Even,
            "thinktime" => self.think = think(value)?,
            "thinktime_blocks" => self.think_blocks = u32::from(whole(value)?),
            "offset" => self.from = size(value)?,
            "size" | "io_size" if value.ends_with('%') => {
                return Ok(Some("a share of the target: all of it is used"));
            }
            "size" => self.span = Some(size(value)?),
            "name" => self.name = value.to_owned(),
            // So it is here anyway.
            "direct" if value == "1" => {}
            "time_based" | "group_reporting" | "norandommap" | "randrepeat" | "refill_buffers" | "thread" => {
            }
            _ => return Ok(Some(without_effect(key))),
        }
        Ok(None)
    }

    fn kind(&mut self, value: &str) -> Set {
        let (kind, rest) = value.split_once(':').unwrap_or((value, ""));
        (self.is_random, self.is_mixed, self.read_percent) = match kind {
            "read" => (false, false, 100),
            "write" => (false, false, 0),
            "randread" => (true, false, 100),
            "randwrite" => (true, false, 0),
            "rw" | "readwrite" => (false, true, 50),
            "randrw" => (true, true, 50),
            _ => return Err("is read, write, randread, randwrite, rw or randrw"),
        };
        Ok((!rest.is_empty()).then_some("places follow one another or are drawn, one by one"))
    }

    /// `4k/60:64k/40`.
    fn split(&mut self, value: &str) -> Set {
        let (first, rest) = value.split_once(',').unwrap_or((value, ""));
        let mut sizes = Vec::new();
        for part in first.split(':').take(SPLITS_MAX + 1) {
            let (bytes, share) = part.split_once('/').ok_or("is size/share:size/share")?;
            sizes.push((size(bytes)?, percent(share)?));
        }
        if sizes.len() > SPLITS_MAX {
            return Err("has more sizes than a mix takes");
        }
        self.sizes = sizes;
        Ok((!rest.is_empty()).then_some("reads and writes have one split here: the first"))
    }

    fn job(self) -> Result<Job, WrittenError> {
        let wrong = |cause: String| WrittenError::line(self.line, format!("[{}]: {cause}", self.name));
        let burst = (self.think > Duration::ZERO && self.rate.is_none())
            .then_some(Burst { length: self.think_blocks, delay: self.think });
        let random_percent = match (self.is_random, self.random_percent) {
            (_, Some(percent)) => percent,
            (true, None) => 100,
            (false, None) => 0,
        };
        let kinds = self.sizes.iter().map(|(size, share)| Access {
            share_percent: *share,
            size: *size,
            read_percent: if self.is_mixed { self.mix_read_percent } else { self.read_percent },
            random_percent,
            align: self.align.unwrap_or(*size).max(ALIGN_MIN),
            burst,
        });
        let mix = Mix::new(kinds.collect()).map_err(|e| wrong(e.to_string()))?;
        let pace = match self.rate {
            None => Pace::Closed,
            // fio's rate is that of each of its jobs.
            Some(rate) => Pace::Open { ios_per_s: rate * self.workers as f64, arrivals: self.arrivals },
        };
        Ok(Job {
            name: self.name,
            mix,
            outstanding: self.depth,
            pace,
            workers: self.workers,
            from: self.from,
            span: self.span,
        })
    }
}

fn without_effect(key: &str) -> &'static str {
    match key {
        "filename" | "directory" | "filename_format" => "the target is the one of the command line",
        "ioengine" => "I/O is asynchronous here, to a LU over iSCSI, to files and devices with io_uring",
        "direct" | "buffered" => "the page cache is never between",
        "stonewall" | "wait_for" | "startdelay" => "jobs run side by side: choose one with --job",
        "rate" => "the pace is set in I/Os per second: rate_iops",
        "verify" | "do_verify" => "content is compared with --verify",
        "randseed" | "allrandrepeat" => "the seed is the one of the command line",
        "random_distribution" => "random places are drawn evenly",
        _ => "is of no effect here",
    }
}

fn percent(value: &str) -> Result<u32, &'static str> {
    let number = value.trim_end_matches('%').parse::<u32>().ok().filter(|percent| *percent <= 100);
    number.ok_or("is 0 to 100")
}

fn whole(value: &str) -> Result<u16, &'static str> {
    value.parse::<u16>().map_err(|_| "is a whole number up to 65535")
}

/// A number and its unit.
fn parts(value: &str) -> Option<(u64, String)> {
    let at = value.find(|c: char| !c.is_ascii_digit()).unwrap_or(value.len());
    let (number, unit) = value.split_at(at);
    Some((number.parse().ok()?, unit.trim().to_ascii_lowercase()))
}

/// `4k`, `1m`, `2g`: powers of 1024, as fio counts them unless told otherwise.
fn size(value: &str) -> Result<u64, &'static str> {
    const WRONG: &str = "not a valid size (expected e.g. 4k, 1m, 2g)";
    let (number, unit) = parts(value).ok_or(WRONG)?;
    let shift = match unit.as_str() {
        "" | "b" => 0,
        "k" | "kb" | "kib" => 10,
        "m" | "mb" | "mib" => 20,
        "g" | "gb" | "gib" => 30,
        "t" | "tb" | "tib" => 40,
        _ => return Err(WRONG),
    };
    number.checked_mul(1 << shift).ok_or(WRONG)
}

fn seconds(value: &str) -> Result<f64, &'static str> {
    const WRONG: &str = "not a valid time (expected e.g. 30, 30s, 5m, 1h)";
    let (number, unit) = parts(value).ok_or(WRONG)?;
    let each = match unit.as_str() {
        "us" => 1e-6,
        "ms" => 1e-3,
        "" | "s" => 1.0,
        "m" => 60.0,
        "h" => 3600.0,
        "d" => 86_400.0,
        _ => return Err(WRONG),
    };
    Ok(number as f64 * each)
}

/// Microseconds unless told otherwise.
fn think(value: &str) -> Result<Duration, &'static str> {
    let number = value.bytes().all(|b| b.is_ascii_digit());
    let seconds = if number { seconds(&format!("{value}us"))? } else { seconds(value)? };
    Duration::try_from_secs_f64(seconds).map_err(|_| "is longer than any pause")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Fuzzing begins with it, too.
    const FILE: &str = include_str!("../../../../fuzz/seeds/load_files/fio");

    #[test]
    fn a_job_file_maps() {
        let written = parse(FILE).expect("reads");
        assert_eq!((written.seconds, written.warm_up_seconds), (Some(60.0), Some(5.0)));
        let [oltp, log, batch] = &written.jobs[..] else { panic!("{:?}", written.jobs) };
        assert_eq!(oltp.mix.kinds(), [Access::new(8192, 67, 100)]);
        assert_eq!((oltp.outstanding, oltp.workers, oltp.pace), (16, 4, Pace::Closed));
        let sizes: Vec<(u64, u32)> = log.mix.kinds().iter().map(|k| (k.size, k.share_percent)).collect();
        assert_eq!(sizes, [(4096, 60), (65536, 40)]);
        assert_eq!(log.pace, Pace::Open { ios_per_s: 100.0, arrivals: Arrivals::Poisson });
        assert_eq!((log.from, log.span), (1 << 30, Some(2 << 30)));
        let burst = Some(Burst { length: 4, delay: Duration::from_millis(10) });
        assert_eq!(batch.mix.kinds(), [Access { burst, ..Access::new(512 << 10, 0, 100) }]);
        let said: Vec<String> = written.left_out.iter().map(ToString::to_string).collect();
        let has = |part: &str| said.iter().any(|line| line.contains(part));
        assert!(has("line 3: ioengine") && has("filename") && has("as long as the longest"), "{said:#?}");
        assert_eq!(said.len(), 3, "{said:#?}");
    }

    #[test]
    fn what_is_no_such_file_is_refused_with_its_line() {
        for (text, expected) in [
            ("", "missing job"),
            ("rw=read", "line 1: "),
            ("[a]\nrw=sideways", "line 2: rw=sideways"),
            ("[a]\nbs=banana", "not a valid size"),
            ("[a]\nbs=99999999999999999999", "not a valid size"),
            ("[a]\nbs=16777216t", "not a valid size"),
            ("[a]\nbs=1000", "line 1: [a]: invalid size 1000"),
            ("[a]\nbssplit=4k/60:8k/60", "120 %"),
            ("[a]\nrwmixwrite=101", "0 to 100"),
            ("[a]\nthinktime=18446744073709551615d", "pause"),
        ] {
            let said = parse(text).expect_err(text).to_string();
            assert!(said.contains(expected) && !said.contains('\n'), "{text:?}: {said}");
        }
    }

    /// Any cut and any changed byte gives jobs or one line, never a panic.
    #[test]
    fn broken_files_do_no_harm() {
        let mut rng = world::Rng::with_seed(2);
        for _ in 0..2000 {
            let mut bytes = FILE.as_bytes().to_vec();
            for _ in 0..rng.usize(1..20) {
                let at = rng.usize(..bytes.len());
                match rng.u8(..3) {
                    0 => bytes[at] = rng.u8(..),
                    1 => bytes.truncate(at.max(1)),
                    _ => bytes.insert(at, b"0123456789=/:[]k%\n"[rng.usize(..18)]),
                }
            }
            let _ = parse(&String::from_utf8_lossy(&bytes));
        }
    }
}
