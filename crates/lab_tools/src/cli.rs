//! `masu load`: a single load, for a look at an array and as the client of the benchmarks.

use std::io::IsTerminal;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};
use clap::{Args, ValueEnum};
use units::parse_bytes;

use crate::load::{self, Access, Arrivals, Job, Mix, Pace, Plan, Written};

/// Run a load of reads and writes against a LU, a file or a device, and measure it
///
/// The load is a pattern (--pattern, --size), one or more Iometer access specifications (--access), or a
/// configuration file of Iometer or fio (--icf, --fio).
#[derive(Args, Clone, Debug)]
#[command(after_help = "\
Examples:
  masu load iscsi://10.0.0.7/iqn.2026-11.net.masu:a/0                 4 KiB random reads, 32 in flight, 5 s
  masu load URL --pattern randwrite --size 512KiB --depth 1 --destroy-data
  masu load URL --access size=8KiB,read=67,random=100 --depth 16      a database, roughly
  masu load URL --access size=4KiB,share=70 --access size=64KiB,read=0,random=0,share=30 --destroy-data
  masu load URL --access size=4KiB,burst=32,delay=100ms               32 I/Os, then a pause, and again
  masu load URL --rate 2000 --arrivals poisson                        2000 per second, whether the target keeps up or not
  masu load ./disk.img --icf tests.icf                                lists what is in it, when there are several
  masu load /dev/sdx --fio jobs.fio --job oltp

Access specifications: size, read and random in percent (100), align (the size), burst and delay (none), share in percent of
all I/Os (100). Several are mixed I/O by I/O by their shares, which make 100.

Closed loop: --depth I/Os are in flight, the next is sent when one has ended; latency counts from sending. Open loop (--rate):
an I/O is sent at its time, at most --depth at once; latency counts from the time at which it was due, so that a
target that stalls is charged for all who waited.

MB/s is 10^6 bytes per second; KiB is 1024 bytes.")]
pub struct Load {
    /// LU as iscsi://host:port/target/lun, or path of an existing file or device
    target: String,
    /// Pattern of the load
    #[arg(long, value_enum, default_value_t = Pattern::Randread, conflicts_with_all = ["access", "icf", "fio"])]
    pattern: Pattern,
    /// Size of one read or write of a pattern
    #[arg(long, default_value = "4KiB", value_parser = parse_bytes, conflicts_with_all = ["access", "icf", "fio"])]
    size: u64,
    /// Access specification; several are mixed
    #[arg(long, value_name = "KEY=VALUE,...")]
    access: Vec<Access>,
    /// Iometer configuration file with access specifications
    #[arg(long, value_name = "FILE", conflicts_with_all = ["access", "fio"])]
    icf: Option<PathBuf>,
    /// fio job file
    #[arg(long, value_name = "FILE", conflicts_with = "access")]
    fio: Option<PathBuf>,
    /// Run only this job or access specification of the file
    #[arg(long)]
    job: Option<String>,
    /// I/Os in flight per connection [default: 32, or from the file]
    #[arg(long)]
    depth: Option<u16>,
    /// Open loop: I/Os per second of all connections together
    #[arg(long, value_name = "PER_SECOND")]
    rate: Option<f64>,
    /// Distribution of the times of an open loop
    #[arg(long, value_enum, default_value_t = ArrivalsName::Even, requires = "rate")]
    arrivals: ArrivalsName,
    /// Duration in seconds [default: 5, or from the file]
    #[arg(long)]
    seconds: Option<f64>,
    /// Warm-up in seconds, not measured [default: 1, or from the file]
    #[arg(long)]
    warm_up_seconds: Option<f64>,
    /// Connections, each with its own thread [default: 1, or from the file]
    #[arg(long)]
    connections: Option<usize>,
    /// Pin connection N to processor CPU + N
    #[arg(long)]
    cpu: Option<usize>,
    /// Use only the first part of the target
    #[arg(long, value_parser = parse_bytes)]
    span: Option<u64>,
    /// Write verifiable content, and compare reads with what a writing load with the same seed wrote
    #[arg(long)]
    verify: bool,
    /// Confirm that the load may overwrite the target; required for writes
    #[arg(long)]
    destroy_data: bool,
    /// Random seed
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
}

/// The pattern of a simple load.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Pattern {
    /// Random reads
    Randread,
    /// Random writes
    Randwrite,
    /// Sequential reads
    Seqread,
    /// Sequential writes
    Seqwrite,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum ArrivalsName {
    /// Equally spaced
    Even,
    /// Poisson process, as of independent users
    Poisson,
}

impl Pattern {
    fn access(self, size: u64) -> Access {
        let read = if matches!(self, Pattern::Randread | Pattern::Seqread) { 100 } else { 0 };
        let random = if matches!(self, Pattern::Randread | Pattern::Randwrite) { 100 } else { 0 };
        Access::new(size, read, random)
    }

    fn name(self) -> String {
        self.to_possible_value().map(|v| v.get_name().to_owned()).unwrap_or_default()
    }
}

/// The default number of I/Os in flight.
const DEPTH_DEFAULT: u16 = 32;

impl Load {
    fn written(&self) -> Result<Written> {
        let read = |path: &Path| {
            // Configuration files of Windows need not be UTF-8; what matters in them is ASCII.
            let bytes = lab_core::text_file::read_bytes(path).with_context(|| path.display().to_string())?;
            anyhow::Ok(String::from_utf8_lossy(&bytes).into_owned())
        };
        let mut written = match (&self.icf, &self.fio) {
            (Some(path), _) => load::icf::parse(&read(path)?).with_context(|| path.display().to_string())?,
            (None, Some(path)) => {
                load::fio::parse(&read(path)?).with_context(|| path.display().to_string())?
            }
            (None, None) => return self.own(),
        };
        let path = self.icf.as_ref().or(self.fio.as_ref()).map_or(String::new(), |p| p.display().to_string());
        for left_out in &written.left_out {
            lab_core::console::note(&format!("{path}: {left_out}"));
        }
        if let Some(name) = &self.job {
            written.jobs.retain(|job| job.name.trim() == name.trim());
            ensure!(!written.jobs.is_empty(), "{path}: no job {name:?}");
        }
        // fio runs sections concurrently; Iometer's specifications run one after the other, and one is
        // selected here.
        if self.icf.is_some() && written.jobs.len() > 1 {
            let lines = written.jobs.iter().map(|job| format!("\n  {:?}: {}", job.name, job.words()));
            bail!(
                "{path}: {} access specifications; select one with --job NAME:{}",
                written.jobs.len(),
                lines.collect::<String>()
            );
        }
        Ok(written)
    }

    /// The load of the options alone.
    fn own(&self) -> Result<Written> {
        ensure!(self.job.is_none(), "--job requires --icf or --fio");
        let kinds = match &self.access[..] {
            [] => vec![self.pattern.access(self.size)],
            some => some.to_vec(),
        };
        let name = if self.access.is_empty() { self.pattern.name() } else { "access".to_owned() };
        let mix = Mix::new(kinds)?;
        let job = Job {
            name,
            mix,
            outstanding: DEPTH_DEFAULT,
            pace: Pace::Closed,
            workers: 1,
            from: 0,
            span: None,
        };
        Ok(Written { jobs: vec![job], ..Written::default() })
    }

    /// The load to run: that of the file, overridden by the command line.
    fn plan(&self) -> Result<Plan> {
        let mut written = self.written()?;
        let arrivals = match self.arrivals {
            ArrivalsName::Even => Arrivals::Even,
            ArrivalsName::Poisson => Arrivals::Poisson,
        };
        for job in &mut written.jobs {
            job.outstanding = self.depth.unwrap_or(job.outstanding);
            job.workers = self.connections.unwrap_or(job.workers);
            job.span = self.span.or(job.span);
            if let Some(ios_per_s) = self.rate {
                job.pace = Pace::Open { ios_per_s, arrivals };
            }
        }
        Ok(Plan {
            target: self.target.clone(),
            jobs: written.jobs,
            seconds: self.seconds.or(written.seconds).unwrap_or(5.0),
            warm_up_seconds: self.warm_up_seconds.or(written.warm_up_seconds).unwrap_or(1.0),
            cpu: self.cpu,
            verify: self.verify,
            seed: self.seed,
        })
    }
}

/// Runs a load and prints the result.
pub fn run_load(load: &Load) -> Result<()> {
    let plan = load.plan()?;
    let target = &plan.target;
    if plan.writes() && !load.destroy_data {
        bail!("refusing to overwrite {target}; pass --destroy-data to confirm");
    }
    let outcome = load::run(&plan, !load.json && std::io::stderr().is_terminal())?;
    if load.json {
        lab_core::console::print(&serde_json::to_string(&outcome)?)
    } else {
        lab_core::console::print(&outcome.to_string())
    }
    let total = &outcome.total;
    ensure!(
        total.mismatches == 0,
        "{target}: {} blocks of 4 KiB differ from what was written",
        total.mismatches
    );
    ensure!(total.failed == 0, "{target}: {} I/Os failed", total.failed);
    Ok(())
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        load: Load,
    }

    fn plan(words: &[&str]) -> Result<Plan> {
        Line::try_parse_from([&["load", "x"], words].concat())?.load.plan()
    }

    #[test]
    fn options_say_what_is_run() {
        let plan = plan(&[
            "--access",
            "size=4KiB,share=70",
            "--access",
            "size=64KiB,read=0,share=30",
            "--rate",
            "50",
        ])
        .expect("reads");
        assert_eq!(plan.jobs[0].mix.kinds().len(), 2);
        assert_eq!(plan.jobs[0].pace, Pace::Open { ios_per_s: 50.0, arrivals: Arrivals::Even });
        assert!(plan.writes() && plan.check().is_ok());
    }

    #[test]
    fn what_contradicts_itself_is_refused() {
        for words in [
            &["--access", "size=4KiB,share=70"][..],
            &["--access", "size=4KiB", "--pattern", "randread"],
            &["--icf", "a", "--fio", "b"],
            &["--job", "a"],
            &["--arrivals", "poisson"],
        ] {
            assert!(plan(words).is_err(), "{words:?}");
        }
    }

    #[test]
    fn a_file_is_loaded_and_measured() {
        let dir = tempfile::tempdir().expect("a folder");
        let path = dir.path().join("disk.img");
        std::fs::write(&path, vec![0; 4 << 20]).expect("a file");
        let target = path.display().to_string();
        let written = |seconds: &str, verify_reads: &[&str]| {
            let words =
                [&["load", target.as_str(), "--seconds", seconds, "--warm-up-seconds", "0"], verify_reads]
                    .concat();
            let plan = Line::try_parse_from(words).expect("reads").load.plan().expect("a plan");
            load::run(&plan, false).expect("runs").total
        };
        // Long enough, and small enough, that every block is written: without optimisation, and beside other
        // tests, a write of 1 MiB has taken 0.1 s.
        let writes = written("2", &["--pattern", "seqwrite", "--size", "1MiB", "--depth", "4", "--verify"]);
        assert!(writes.ios > 4 && writes.failed == 0, "{writes:?}");
        let reads = written("0.2", &["--verify", "--rate", "400", "--depth", "4"]);
        assert_eq!((reads.mismatches, reads.failed), (0, 0), "{reads:?}");
        assert!((40..=81).contains(&(reads.ios + reads.unsent)), "{reads:?}");
        let other = written("0.2", &["--verify", "--seed", "2"]);
        assert!(other.mismatches > 0, "{other:?}");
    }
}
