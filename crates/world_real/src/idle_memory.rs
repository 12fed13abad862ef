//! Memory that was needed once and is idle now goes back to the system: after a flood of commands the process
//! would otherwise stay as large as it was at its peak.

use std::io;
use std::thread;
use std::time::Duration;

use rustix::mm::{Advice, madvise};

/// Memory that was idle from one look to the next is released.
const INTERVAL: Duration = Duration::from_secs(2);

/// Starts a thread that releases idle memory.
///
/// # Errors
/// The thread cannot be started.
pub fn start_releasing_memory() -> io::Result<()> {
    let begin = || loop {
        thread::sleep(INTERVAL);
        world::release_idle(release);
    };
    thread::Builder::new().name("memory".into()).spawn(begin).map(drop)
}

/// Where it fails, the memory stays with the process, as before.
fn release(pages: &mut [u8]) {
    // SAFETY: these are whole pages of private memory without a file, and nobody else has a reference to
    // them. They read as zeros afterwards.
    let _ = unsafe { madvise(pages.as_mut_ptr().cast(), pages.len(), Advice::LinuxDontNeed) };
}

#[cfg(test)]
mod tests {
    use world::Buf;

    use super::*;

    fn resident_mib() -> u64 {
        let pages = std::fs::read_to_string("/proc/self/statm").expect("statm");
        let pages: u64 = pages.split(' ').nth(1).expect("a column").parse().expect("a number");
        (pages * rustix::param::page_size() as u64) >> 20
    }

    #[test]
    fn the_memory_of_a_flood_goes_back_to_the_system() {
        let flood: Vec<Buf> = (0..4096)
            .map(|_| {
                let mut buf = Buf::new(64 << 10);
                buf.fill(1);
                buf
            })
            .collect();
        let peak = resident_mib();
        drop(flood);
        // The first look finds what has just come.
        world::release_idle(release);
        world::release_idle(release);
        let after = resident_mib();
        assert!(after + 200 < peak, "{peak} MiB, then {after} MiB");
        // It is memory as before.
        let mut again: Vec<Buf> = (0..4096).map(|_| Buf::new(64 << 10)).collect();
        again.iter_mut().for_each(|buf| buf.fill(2));
        assert!(again.iter().all(|buf| buf.iter().all(|byte| *byte == 2)));
    }
}
