//! Zeroing and copying, with the array's help and without: prepared, measured, read back.

use anyhow::Result;

use super::bed::Bed;
use super::host::Host;
use super::measures::ReadBack;
use super::record::{Course, Record, Tick};
use super::scenario::{PaperSteps, Vaai};
use lab_tools::datastore::{Content, File, Mode, sample_offsets};
use lab_tools::hosts::{HostThread, Spent, Steps};
use lab_tools::testbed::embedded::ArrayReading;

/// Which bulk operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Bulk {
    /// A new eager-zeroed disk.
    Zeroing,
    /// A clone in the template's datastore.
    Copy,
    /// A clone in another pool.
    Between,
}

/// Who does it, and in which steps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    /// The host.
    Off,
    /// The array, in the steps of the published experiment.
    Paper,
    /// The array, in the steps that it advertises.
    Advertised,
    /// The array, by tokens (ODX) of the length that it advertises.
    Tokens,
}

impl Bulk {
    /// All, in the order of the report.
    pub(crate) const ALL: [Bulk; 3] = [Bulk::Zeroing, Bulk::Copy, Bulk::Between];

    /// As it is called in samples.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Bulk::Zeroing => "zeroing",
            Bulk::Copy => "copy",
            Bulk::Between => "between",
        }
    }

    /// What it took in the published experiment, in seconds: by the host, and by the array.
    pub(crate) fn published_s(self) -> (f64, f64) {
        match self {
            Bulk::Zeroing => (1092.0, 275.0),
            Bulk::Copy => (889.0, 339.0),
            Bulk::Between => (590.0, 173.0),
        }
    }

    /// The datastore that the new disk is on.
    fn destination(self) -> usize {
        usize::from(self == Bulk::Between)
    }
}

impl Way {
    /// In the order of the report.
    pub(crate) const ALL: [Way; 4] = [Way::Off, Way::Paper, Way::Advertised, Way::Tokens];

    /// Whether the operation is done in this way: a token stands for data, and zeros need none.
    pub(crate) fn does(self, bulk: Bulk) -> bool {
        self != Way::Tokens || bulk != Bulk::Zeroing
    }

    /// As it is called in samples.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Way::Off => "off",
            Way::Paper => "paper",
            Way::Advertised => "advertised",
            Way::Tokens => "tokens",
        }
    }
}

/// Slots of the files.
pub(crate) const TEMPLATE: u32 = 0;
const NEW_DISK: u32 = 1;
/// What is compared at a time.
const BLOCK: u64 = 4096;
/// Steps of the array begin and end on whole pages.
pub(crate) const ALIGN: u64 = 1 << 20;

/// One operation.
#[derive(Clone, Debug)]
pub(crate) struct Job {
    pub(crate) bulk: Bulk,
    pub(crate) way: Way,
    /// Of the new disk.
    pub(crate) len_bytes: u64,
    /// What is cloned.
    pub(crate) template: File,
    /// The steps of the published experiment.
    pub(crate) paper: PaperSteps,
}

/// What an operation made, and what it spent.
pub(crate) struct Made {
    pub(crate) file: File,
    pub(crate) spent: Spent,
    pub(crate) ticks: Vec<Tick>,
    /// Those of the array.
    pub(crate) steps: Option<Steps>,
}

/// The bulk tests of one run.
pub(crate) struct Bench<'a> {
    pub(crate) vaai: &'a Vaai,
    pub(crate) bed: &'a Bed,
    pub(crate) host: HostThread<Host>,
    pub(crate) seed: u64,
    template: Option<File>,
    /// Whether the array advertises tokens on every LU.
    has_tokens: bool,
}

impl<'a> Bench<'a> {
    pub(crate) fn new(vaai: &'a Vaai, bed: &'a Bed, host: HostThread<Host>, seed: u64) -> Bench<'a> {
        Bench { vaai, bed, host, seed, template: None, has_tokens: false }
    }

    /// Bytes that an operation makes.
    pub(crate) fn len_bytes(&self, bulk: Bulk) -> u64 {
        match bulk {
            Bulk::Zeroing => self.vaai.scaled(self.vaai.published.zeroed_disk, ALIGN),
            Bulk::Copy | Bulk::Between => self.vaai.scaled(self.vaai.published.template, ALIGN),
        }
    }

    fn template_content(&self) -> Content {
        let used = self.len_bytes(Bulk::Copy) / 100 * self.vaai.published.template_used_percent;
        Content::Pattern { key: self.seed, used_bytes: used / 4096 * 4096 }
    }

    /// Writes the template.
    pub(crate) fn prepare(&mut self) -> Result<()> {
        let (len, content) = (self.len_bytes(Bulk::Copy), self.template_content());
        let template = self.host.run(move |host| async move {
            let store = &host.stores[0];
            let file = store.create_file(TEMPLATE, "template.vmdk", len, len).await?;
            store.fill(&file, content).await?;
            Ok(file)
        })?;
        self.template = Some(template);
        self.has_tokens = self.host.run(|host| async move {
            Ok(host.stores.iter().all(|store| store.caps().token_bytes_optimal > 0))
        })?;
        Ok(())
    }

    /// The ways in which an operation is done on this array.
    pub(crate) fn ways(&self, bulk: Bulk) -> impl Iterator<Item = Way> {
        let has_tokens = self.has_tokens;
        Way::ALL.into_iter().filter(move |way| way.does(bulk) && (has_tokens || *way != Way::Tokens))
    }

    /// Whether the array advertises tokens.
    pub(crate) fn has_tokens(&self) -> bool {
        self.has_tokens
    }

    /// What stops a bulk test on this array, if anything.
    pub(crate) fn obstacle(&self, bulk: Bulk) -> Result<Option<String>> {
        let destination = bulk.destination();
        self.host.run(move |host| async move {
            let Some(store) = host.stores.get(destination) else {
                return Ok(Some("a second LU is required".into()));
            };
            let caps = store.caps();
            Ok(match bulk {
                Bulk::Zeroing if !caps.write_same => Some("the array does not support WRITE SAME(16)".into()),
                Bulk::Copy | Bulk::Between if caps.copy.is_none() => {
                    Some("the array does not report EXTENDED COPY".into())
                }
                Bulk::Copy | Bulk::Between if caps.naa.is_empty() => {
                    Some("the LU has no NAA designator for EXTENDED COPY".into())
                }
                _ => None,
            })
        })
    }

    /// Prepares, measures and checks one operation. With `whole` all of it is read back instead of samples.
    /// Gives how many blocks were compared with what they must hold.
    pub(crate) fn run(
        &self,
        bulk: Bulk,
        way: Way,
        repeat: usize,
        whole: bool,
        record: &mut Record,
    ) -> Result<ReadBack> {
        if bulk == Bulk::Zeroing {
            self.dirty(repeat)?;
        }
        let before = self.bed.read()?;
        let (job, made) = self.operate(bulk, way)?;
        let after = self.bed.read()?;
        let read_back = self.read_back(bulk, &made.file, repeat, whole)?;
        let (destination, file) = (bulk.destination(), made.file.clone());
        self.host.run(move |host| async move {
            Ok(host.stores[destination].delete(NEW_DISK, &file, true).await?)
        })?;
        if repeat > 0 {
            let (test, mode) = (bulk.name(), way.name());
            for (metric, value) in job.values(&made, before.as_ref().zip(after.as_ref())) {
                record.add(test, mode, repeat, metric, value);
            }
            record.courses.push(Course { test, mode, repeat, ticks: made.ticks });
        }
        Ok(read_back)
    }

    /// Space that was used before: blocks with a pattern where the new disk will lie.
    fn dirty(&self, repeat: usize) -> Result<()> {
        let (len, samples) = (self.len_bytes(Bulk::Zeroing), self.vaai.run.samples);
        let content = Content::Pattern { key: self.seed + repeat as u64, used_bytes: len };
        self.host.run(move |host| async move {
            let store = &host.stores[0];
            let file = store.create_file(NEW_DISK, "old.vmdk", len, len).await?;
            let offsets = sample_offsets(&mut host.world.random(&format!("samples {repeat}")), len, samples);
            store.fill_at(&file, content, &offsets).await?;
            Ok(store.delete(NEW_DISK, &file, false).await?)
        })
    }

    fn operate(&self, bulk: Bulk, way: Way) -> Result<(Job, Made)> {
        let job = Job {
            bulk,
            way,
            len_bytes: self.len_bytes(bulk),
            template: self.template.clone().unwrap_or_default(),
            paper: self.vaai.paper_steps.clone(),
        };
        let own = job.clone();
        let made = self.host.run(move |host| async move { own.run(&host).await })?;
        Ok((job, made))
    }

    fn read_back(&self, bulk: Bulk, file: &File, repeat: usize, whole: bool) -> Result<ReadBack> {
        let content = match bulk {
            Bulk::Zeroing => Content::Zeros,
            Bulk::Copy | Bulk::Between => self.template_content(),
        };
        let (file, samples, destination) = (file.clone(), self.vaai.run.samples, bulk.destination());
        self.host.run(move |host| async move {
            let store = &host.stores[destination];
            // The descriptor as another host would find it.
            let found = store.file(NEW_DISK).await?;
            anyhow::ensure!(
                found.as_ref() == Some(&file),
                "the descriptor of {} differs from what was written",
                file.name
            );
            if whole {
                let wrong = store.differences(&file, content).await?;
                return Ok(ReadBack { compared: file.taken_bytes() / BLOCK, wrong });
            }
            // The same blocks that were dirty, then as many others.
            let mut offsets = sample_offsets(
                &mut host.world.random(&format!("samples {repeat}")),
                file.taken_bytes(),
                samples,
            );
            offsets.extend(sample_offsets(
                &mut host.world.random(&format!("other samples {repeat}")),
                file.taken_bytes(),
                samples,
            ));
            let wrong = store.differences_at(&file, content, &offsets).await?;
            Ok(ReadBack { compared: offsets.len() as u64, wrong })
        })
    }
}

impl Job {
    /// Does it, on the datastores of this host, and measures it.
    pub(crate) async fn run(&self, host: &Host) -> Result<Made> {
        let Job { bulk, way, len_bytes, template, paper } = self;
        let store = &host.stores[bulk.destination()];
        let wanted = Steps {
            write_same_bytes: paper.write_same.0,
            segment_bytes: paper.copy_segment.0,
            segments: paper.segments_per_command,
        };
        let mode = match way {
            Way::Off => Mode::Host,
            Way::Paper => Mode::Array(store.caps().clipped(wanted, 1)),
            Way::Advertised => Mode::Array(store.caps().advertised(ALIGN)),
            Way::Tokens => Mode::Tokens(store.caps().token_bytes_optimal),
        };
        let operation = async {
            Ok(match bulk {
                Bulk::Zeroing => store.create_zeroed(NEW_DISK, "new.vmdk", *len_bytes, mode).await?,
                Bulk::Copy | Bulk::Between => {
                    store.clone_file(&host.stores[0], template, NEW_DISK, "clone.vmdk", mode).await?
                }
            })
        };
        let (file, spent, ticks) = host.measure(operation).await?;
        let steps = if let Mode::Array(steps) = mode { Some(steps) } else { None };
        Ok(Made { file, spent, ticks, steps })
    }

    /// What it came to, with what the array says before and after it.
    pub(crate) fn values(
        &self,
        Made { spent, steps, .. }: &Made,
        array: Option<(&ArrayReading, &ArrayReading)>,
    ) -> Vec<(&'static str, f64)> {
        let mut values = vec![
            ("len_bytes", self.len_bytes as f64),
            ("time_s", spent.time_s),
            ("host_cpu_s", spent.host_cpu_s),
            ("packets_out", spent.packets_out),
            ("packets_in", spent.packets_in),
            ("packets", spent.packets()),
            ("bytes_out", spent.bytes_out),
            ("bytes_in", spent.bytes_in),
        ];
        if let Some(steps) = steps {
            let bytes = if self.bulk == Bulk::Zeroing {
                steps.write_same_bytes
            } else {
                steps.segment_bytes * steps.segments as u64
            };
            values.push(("step_bytes", bytes as f64));
        }
        if let Some((before, after)) = array {
            let drive_bytes = after.drive_bytes_since(before) as f64;
            values.extend([
                ("array_cpu_s", after.cpu_since(before).as_secs_f64()),
                ("drive_bytes", drive_bytes),
                ("drive_io_percent", 100.0 * drive_bytes / self.len_bytes as f64),
                ("zeroed_bytes", after.counted_since(before, |c| c.zeroed_bytes) as f64),
                ("shared_bytes", after.counted_since(before, |c| c.shared_bytes) as f64),
                ("moved_bytes", after.counted_since(before, |c| c.moved_bytes) as f64),
                ("read_bytes", after.counted_since(before, |c| c.read_bytes) as f64),
                ("written_bytes", after.counted_since(before, |c| c.written_bytes) as f64),
            ]);
        }
        values
    }
}
