//! Who has an image: a note with it names the process of this machine that took its lock, so that an array
//! that was killed can be started again at once, and not only when Ceph notices its end (after 30 s).
//!
//! The note decides nothing about safety: whoever is taken for dead is fenced.

use std::fs;

use super::image::Image;

/// The name of the note in the image's metadata.
const KEY: &std::ffi::CStr = c"masu_holder";

/// A process, by what no other process shares.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Process {
    /// Of the machine since it was started.
    boot: String,
    /// Numbers of processes are of a namespace.
    namespace: String,
    number: u32,
    /// When it began, in ticks after the machine: numbers are used again.
    begun: u64,
}

/// The note.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Note {
    process: Process,
    host: String,
    /// The client that has the lock.
    address: String,
}

impl Note {
    fn write(&self) -> String {
        let Process { boot, namespace, number, begun } = &self.process;
        format!("{} {boot} {namespace} {number} {begun} {}", self.address, self.host)
    }

    fn read(text: &str) -> Option<Note> {
        let mut words = text.splitn(6, ' ');
        let mut next = || words.next().map(str::to_owned);
        let (address, boot, namespace) = (next()?, next()?, next()?);
        let (number, begun) = (next()?.parse().ok()?, next()?.parse().ok()?);
        let host = next()?;
        Some(Note { process: Process { boot, namespace, number, begun }, host, address })
    }
}

fn boot() -> Option<String> {
    fs::read_to_string("/proc/sys/kernel/random/boot_id").ok().map(|text| text.trim().to_owned())
}

fn namespace() -> Option<String> {
    fs::read_link("/proc/self/ns/pid").ok().map(|path| path.display().to_string())
}

/// State and begin of a process, from the text of /proc/NUMBER/stat: fields 3 and 22.
fn state_and_begin(stat: &str) -> Option<(char, u64)> {
    // The name, in brackets, may contain anything.
    let rest = stat.rsplit_once(')')?.1;
    let mut fields = rest.split_whitespace();
    let state = fields.next()?.chars().next()?;
    Some((state, fields.nth(18)?.parse().ok()?))
}

fn this_process() -> Option<Process> {
    let stat = fs::read_to_string("/proc/self/stat").ok()?;
    let (_, begun) = state_and_begin(&stat)?;
    Some(Process { boot: boot()?, namespace: namespace()?, number: std::process::id(), begun })
}

/// Whether a process of this machine has ended. `false` if that cannot be told.
fn has_ended(process: &Process) -> bool {
    let Some(own) = this_process() else { return false };
    if own.boot != process.boot || own.namespace != process.namespace {
        return false;
    }
    let stat = match fs::read_to_string(format!("/proc/{}/stat", process.number)) {
        Ok(stat) => stat,
        Err(e) => return e.kind() == std::io::ErrorKind::NotFound,
    };
    match state_and_begin(&stat) {
        Some((state, begun)) => begun != process.begun || matches!(state, 'Z' | 'X'),
        None => false,
    }
}

/// Notes that this process has the lock. Without the note, nothing is lost but the quick start after a kill.
pub(super) fn note(image: &Image) {
    let Some(process) = this_process() else { return };
    let Ok(Some(address)) = image.owner() else { return };
    let host = fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default().trim().to_owned();
    let _ = image.set_metadata(KEY, &Note { process, host, address }.write());
}

/// What is known of a client that has the lock.
pub(super) struct Holder {
    /// Address, machine and process, for a person.
    pub(super) text: String,
    /// It was a process of this machine, which has ended.
    pub(super) has_ended: bool,
}

/// Who the client with this address is.
pub(super) fn of(image: &Image, address: &str) -> Holder {
    let note = image.metadata(KEY).and_then(|text| Note::read(&text));
    match note.filter(|note| note.address == address) {
        Some(note) => Holder {
            text: format!("{address} (masu on {}, process {})", note.host, note.process.number),
            has_ended: has_ended(&note.process),
        },
        None => Holder { text: address.to_owned(), has_ended: false },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_note_is_read_as_it_was_written() {
        let process = this_process().expect("there is a /proc");
        let note = Note { process, host: "a host".into(), address: "127.0.0.1:0/12".into() };
        assert_eq!(Note::read(&note.write()), Some(note));
        assert_eq!(Note::read("127.0.0.1:0/12 boot"), None);
    }

    #[test]
    fn only_a_process_of_this_machine_that_is_gone_has_ended() {
        let own = this_process().expect("there is a /proc");
        assert!(!has_ended(&own));
        assert!(has_ended(&Process { begun: own.begun + 1, ..own.clone() }), "another one of this number");
        assert!(has_ended(&Process { number: u32::MAX / 2, ..own.clone() }));
        assert!(!has_ended(&Process { number: u32::MAX / 2, boot: "other".into(), ..own.clone() }));
        assert!(!has_ended(&Process { number: u32::MAX / 2, namespace: "other".into(), ..own }));
    }

    #[test]
    fn the_name_of_a_process_may_contain_brackets_and_spaces() {
        let rest = (4..22).map(|n| n.to_string()).collect::<Vec<_>>().join(" ");
        assert_eq!(state_and_begin(&format!("7 (a) Z) S {rest} 99 5")), Some(('S', 99)));
        assert_eq!(state_and_begin("7 (a) S 1"), None);
    }
}
