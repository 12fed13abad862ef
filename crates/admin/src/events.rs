//! The events of an array, kept in its data directory: numbered, timed, bounded, and each line with a
//! checksum.
//!
//! `events/<number of its first event>.log` are files of at most [`SEGMENT_LEN`] lines, `<CRC32C in hex>
//! <JSON>`. A file is only appended to; the oldest goes when there are too many. A line that does not fit its
//! checksum (the last one of a process that was killed) is left out, and nothing else. A thread of its own
//! writes: no controller waits for this file.

use std::collections::VecDeque;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use array::{Event, EventReceiver, Severity};
use tokio::sync::watch;

use crate::store::StoreError;
use status::EventRecord;

/// Events in one file, and files: 100,000 events at most.
const SEGMENT_LEN: u64 = 10_000;
const SEGMENTS_MAX: usize = 10;
/// What is older is forgotten.
const AGE_MAX: Duration = Duration::from_secs(30 * 24 * 3600);
/// What is asked for again and again is answered from memory.
const RECENT_MAX: usize = 1000;
/// Events that share one flush.
const BATCH_MAX: usize = 1000;
/// In the order of their counts.
const SEVERITIES: [&str; 3] = ["info", "warning", "error"];
/// Events of one answer.
const ANSWER_MAX: usize = 10_000;

/// The events of one data directory; cheap to clone.
#[derive(Clone)]
pub struct EventLog(Arc<Kept>);

struct Kept {
    dir: PathBuf,
    recent: Mutex<VecDeque<EventRecord>>,
    newest: watch::Sender<u64>,
    /// Since the start, by severity: info, warning, error.
    told: [AtomicU64; 3],
    receiver: EventReceiver,
}

/// Which events are asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EventQuery {
    /// Only those with a higher number.
    pub after: u64,
    /// Only those since then, in milliseconds since 1970.
    pub since_ms: u64,
    /// Only the last ones of these; all when not given.
    pub last: Option<usize>,
}

/// The thread that writes.
pub struct EventWriter(JoinHandle<()>, EventReceiver);

impl EventWriter {
    /// Writes what was told, and ends.
    pub fn finish(self) {
        self.1.close();
        let _ = self.0.join();
    }
}

impl EventLog {
    /// Opens the events of a data directory, and keeps from now on what arrives.
    ///
    /// # Errors
    ///
    /// The file of events cannot be read or written.
    pub fn open(data: &Path, receiver: EventReceiver) -> Result<(EventLog, EventWriter), StoreError> {
        let dir = data.join("events");
        let failed = |e: io::Error| StoreError::Io { path: dir.display().to_string(), cause: e.to_string() };
        fs::create_dir_all(&dir).map_err(failed)?;
        let mut recent = VecDeque::new();
        let segments = segments(&dir).map_err(failed)?;
        for (_, path) in segments.iter().rev().take(2).rev() {
            recent.extend(read_segment(path));
        }
        let excess = recent.len().saturating_sub(RECENT_MAX);
        recent.drain(..excess);
        // Numbers go on after whatever may have been given out, also where the last lines are damaged.
        let lines = segments.last().map_or(0, |(first, path)| first + count_lines(path) - 1);
        let newest = recent.back().map_or(0, |e: &EventRecord| e.number).max(lines);
        let kept = Arc::new(Kept {
            dir: dir.clone(),
            recent: Mutex::new(recent),
            newest: watch::Sender::new(newest),
            told: Default::default(),
            receiver: receiver.clone(),
        });
        let segment = segments.last().map(|(first, path)| (*first, path.clone()));
        let mut files = Files { dir: dir.clone(), segment, file: None, next: newest + 1, told: false };
        let writing = kept.clone();
        let writer = thread::Builder::new().name("events".into()).spawn(move || write(&writing, &mut files));
        Ok((EventLog(kept), EventWriter(writer.map_err(failed)?, receiver)))
    }

    /// The events that are asked for, the oldest first. It may read files: not for a thread that must not
    /// wait.
    pub fn read(&self, query: EventQuery) -> Vec<EventRecord> {
        let oldest_ms = now_ms().saturating_sub(AGE_MAX.as_millis() as u64).max(query.since_ms);
        let wanted = |e: &EventRecord| e.number > query.after && e.unix_ms >= oldest_ms;
        let recent = self.0.recent();
        let enough = match recent.front() {
            Some(first) => {
                first.number <= query.after.saturating_add(1)
                    || first.unix_ms < oldest_ms
                    || query.last.is_some_and(|n| n <= recent.len())
            }
            None => false,
        };
        let mut found: Vec<EventRecord> = match enough {
            true => recent.iter().filter(|e| wanted(e)).cloned().collect(),
            false => {
                drop(recent);
                let files = segments(&self.0.dir).unwrap_or_default();
                let later = files.partition_point(|(first, _)| *first <= query.after.saturating_add(1));
                let files = &files[later.saturating_sub(1)..];
                let all = files.iter().flat_map(|(_, path)| read_segment(path)).filter(|e| wanted(e));
                // What nobody gets is not read: followers ask for a hundred at a time.
                all.take(if query.last.is_some() { usize::MAX } else { ANSWER_MAX }).collect()
            }
        };
        let excess = found.len().saturating_sub(query.last.unwrap_or(usize::MAX));
        found.drain(..excess);
        found.truncate(ANSWER_MAX);
        found
    }

    /// The number of the newest one; 0 while there is none.
    pub(crate) fn newest(&self) -> u64 {
        *self.0.newest.borrow()
    }

    /// How many there were since the start, by severity.
    pub(crate) fn counts(&self) -> [(&'static str, u64); 3] {
        std::array::from_fn(|i| (SEVERITIES[i], self.0.told[i].load(Ordering::Relaxed)))
    }

    /// Waits until there is an event after this one, for at most this long.
    pub async fn wait_after(&self, number: u64, time_max: Duration) {
        let mut newest = self.0.newest.subscribe();
        let _ = tokio::time::timeout(time_max, newest.wait_for(|newest| *newest > number)).await;
    }
}

impl Kept {
    fn recent(&self) -> MutexGuard<'_, VecDeque<EventRecord>> {
        self.recent.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The files as the writer has them.
struct Files {
    dir: PathBuf,
    /// The newest one: its first number, and where it is.
    segment: Option<(u64, PathBuf)>,
    file: Option<File>,
    next: u64,
    /// That it cannot be written was logged.
    told: bool,
}

fn write(kept: &Kept, files: &mut Files) {
    let Ok(runtime) = tokio::runtime::Builder::new_current_thread().build() else { return };
    while let Some(first) = runtime.block_on(kept.receiver.next()) {
        let mut batch = vec![files.number(first)];
        while batch.len() < BATCH_MAX
            && let Some(event) = kept.receiver.try_next()
        {
            batch.push(files.number(event));
        }
        let lost = kept.receiver.take_lost();
        if lost > 0 {
            batch.push(
                files.number(Event::warning("events", format!("{lost} events came too fast and are lost"))),
            );
        }
        match files.append(&batch) {
            Ok(()) => files.told = false,
            Err(error) if !files.told => {
                files.told = true;
                tracing::error!("{}: events are not kept: {error}", files.dir.display());
            }
            Err(_) => {}
        }
        for record in &batch {
            let severities = SEVERITIES.iter().zip(&kept.told);
            let of = severities.filter(|(severity, _)| **severity == record.severity);
            of.for_each(|(_, count)| _ = count.fetch_add(1, Ordering::Relaxed));
        }
        let newest = files.next - 1;
        let mut recent = kept.recent();
        recent.extend(batch);
        let excess = recent.len().saturating_sub(RECENT_MAX);
        recent.drain(..excess);
        drop(recent);
        kept.newest.send_replace(newest);
    }
}

impl Files {
    /// Puts number and time to an event, and logs it.
    fn number(&mut self, event: Event) -> EventRecord {
        let record = EventRecord {
            number: self.next,
            unix_ms: now_ms(),
            severity: event.severity.name().into(),
            object: event.object,
            text: event.text,
            who: event.who,
        };
        self.next += 1;
        let who = record.who.as_ref().map_or(String::new(), |who| format!(" (by {who})"));
        let EventRecord { object, text, .. } = &record;
        match event.severity {
            Severity::Info => tracing::info!("{object}: {text}{who}"),
            Severity::Warning => tracing::warn!("{object}: {text}{who}"),
            Severity::Error => tracing::error!("{object}: {text}{who}"),
        }
        record
    }

    fn append(&mut self, batch: &[EventRecord]) -> io::Result<()> {
        let Some(first) = batch.first() else { return Ok(()) };
        let full = self.segment.as_ref().is_none_or(|(begin, _)| first.number >= begin + SEGMENT_LEN);
        if full {
            self.segment = Some((first.number, self.dir.join(format!("{:012}.log", first.number))));
            self.file = None;
        }
        let mut text = Vec::new();
        if self.file.is_none() {
            let path = &self.segment.as_ref().expect("it was chosen above").1;
            let file = OpenOptions::new().append(true).create(true).mode(0o600).open(path)?;
            // What a process left half written when it was killed ends here.
            if fs::read(path)?.last().is_some_and(|byte| *byte != b'\n') {
                text.push(b'\n');
            }
            self.file = Some(file);
            forget_old(&self.dir)?;
        }
        batch.iter().for_each(|record| text.extend(line(record)));
        let file = self.file.as_mut().expect("it was opened above");
        let written = file.write_all(&text).and_then(|()| file.sync_data());
        if written.is_err() {
            // Opened again, a line that is there in part is ended first.
            self.file = None;
        }
        written
    }
}

fn line(record: &EventRecord) -> Vec<u8> {
    let json = serde_json::to_string(record).unwrap_or_default();
    format!("{:08x} {json}\n", checksum(json.as_bytes())).into_bytes()
}

fn checksum(bytes: &[u8]) -> u32 {
    crc_fast::checksum(crc_fast::CrcAlgorithm::Crc32Iscsi, bytes) as u32
}

fn parse(line: &str) -> Option<EventRecord> {
    let (crc, json) = line.split_once(' ')?;
    let good = u32::from_str_radix(crc, 16).ok()? == checksum(json.as_bytes());
    good.then(|| serde_json::from_str(json).ok()).flatten()
}

fn read_segment(path: &Path) -> Vec<EventRecord> {
    let text = fs::read(path).unwrap_or_default();
    String::from_utf8_lossy(&text).lines().filter_map(parse).collect()
}

fn count_lines(path: &Path) -> u64 {
    let text = fs::read(path).unwrap_or_default();
    String::from_utf8_lossy(&text).lines().count() as u64
}

/// The files with the number of their first event, the oldest first.
fn segments(dir: &Path) -> io::Result<Vec<(u64, PathBuf)>> {
    let mut all = Vec::new();
    for entry in fs::read_dir(dir)? {
        let path = entry?.path();
        let number = path.file_name().and_then(|n| n.to_str()?.strip_suffix(".log")?.parse().ok());
        all.extend(number.map(|first| (first, path)));
    }
    all.sort();
    Ok(all)
}

/// Removes files that are too many, or too old.
fn forget_old(dir: &Path) -> io::Result<()> {
    let all = segments(dir)?;
    let excess = all.len().saturating_sub(SEGMENTS_MAX);
    for (i, (_, path)) in all.iter().enumerate() {
        let age = fs::metadata(path)?.modified()?.elapsed().unwrap_or_default();
        if i < excess || age > AGE_MAX {
            fs::remove_file(path)?;
        }
    }
    Ok(())
}

/// Milliseconds since 1970.
pub(crate) fn now_ms() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |t| t.as_millis() as u64)
}

#[cfg(test)]
mod tests {
    use array::event_channel;

    use super::*;

    fn keep(dir: &Path, texts: impl Iterator<Item = String>) {
        let (sender, receiver) = event_channel();
        let (_, writer) = EventLog::open(dir, receiver).expect("opened");
        texts.for_each(|text| sender.tell(Event::info("group g0", text).by("somebody")));
        writer.finish();
    }

    fn kept(dir: &Path, query: EventQuery) -> Vec<(u64, String)> {
        let (log, writer) = EventLog::open(dir, event_channel().1).expect("opened");
        writer.finish();
        log.read(query).into_iter().map(|e| (e.number, e.text)).collect()
    }

    fn dir(name: &str) -> PathBuf {
        let dir = std::env::temp_dir().join(format!("masu-events-{}-{name}", std::process::id()));
        let _ = fs::remove_dir_all(&dir);
        fs::create_dir_all(&dir).expect("a directory");
        dir
    }

    #[test]
    fn events_survive_a_restart_with_their_numbers_and_a_torn_line_is_left_out() {
        let dir = dir("torn");
        keep(&dir, ["a".to_owned(), "b".to_owned()].into_iter());
        let path = segments(&dir.join("events")).expect("files").remove(0).1;
        let mut bytes = fs::read(&path).expect("text");
        // The process was killed in the middle of the third.
        bytes.extend_from_slice(b"01234567 {\"number\":3,\"unix_");
        fs::write(&path, &bytes).expect("torn");
        keep(&dir, std::iter::once("c".to_owned()));
        let all = kept(&dir, EventQuery::default());
        let texts: Vec<&str> = all.iter().map(|(_, text)| text.as_str()).collect();
        assert_eq!(texts, ["a", "b", "c"]);
        assert!(all.windows(2).all(|w| w[0].0 < w[1].0), "no number is given twice: {all:?}");
        // One flipped byte costs its line.
        let mut bytes = fs::read(&path).expect("text");
        let at = bytes.windows(3).position(|w| w == b"\"a\"").expect("the first text") + 1;
        bytes[at] ^= 1;
        fs::write(&path, &bytes).expect("damaged");
        assert_eq!(kept(&dir, EventQuery::default()).len(), 2);
        assert_eq!(kept(&dir, EventQuery { after: all[1].0, ..EventQuery::default() }).len(), 1);
        assert_eq!(kept(&dir, EventQuery { last: Some(1), ..EventQuery::default() })[0].1, "c");
        let _ = fs::remove_dir_all(&dir);
    }

    #[test]
    fn events_are_bounded_and_what_is_not_in_memory_is_read_from_the_files() {
        let dir = dir("bounded");
        let events = dir.join("events");
        fs::create_dir_all(&events).expect("a directory");
        // As many files as there may be, and one that is older than anything is kept.
        for n in 0..SEGMENTS_MAX as u64 + 2 {
            let first = 1 + n * SEGMENT_LEN;
            let record = |number| EventRecord {
                number,
                unix_ms: now_ms(),
                severity: "info".into(),
                object: "array".into(),
                text: format!("{number}"),
                who: None,
            };
            let text: Vec<u8> = (first..first + 3).flat_map(|number| line(&record(number))).collect();
            fs::write(events.join(format!("{first:012}.log")), text).expect("a file");
        }
        keep(&dir, std::iter::once("new".to_owned()));
        let files = segments(&events).expect("files");
        assert_eq!(files.len(), SEGMENTS_MAX);
        assert!(files[0].0 > 1, "the oldest go first");
        let after = files[0].0;
        let all = kept(&dir, EventQuery { after, ..EventQuery::default() });
        assert_eq!(all.len(), SEGMENTS_MAX * 3, "all but the first, and the new one");
        assert_eq!(kept(&dir, EventQuery { since_ms: now_ms() + 60_000, ..EventQuery::default() }), []);
        let _ = fs::remove_dir_all(&dir);
    }
}
