//! Leases in files: `LEASE/DEADLINE.TIME`, both in nanoseconds; the deadline is by the machine's clock
//! since its boot, which all processes share and nobody sets.
//!
//! A renewal renames the file to a later deadline. Whoever finds a deadline passed renames the file to
//! `ended`: one of the two wins, so that no lease comes back that anybody has seen end.

use std::fs;
use std::io::ErrorKind;
use std::path::PathBuf;
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

use super::files::{create_dir, failed, names, rename, unique, write_new};
use crate::{LEASES_MAX, LeaseId, RegistryError};

const ENDED: &str = "ended";
/// As in `files`.
const LOOKS_MAX: usize = 1000;

/// The leases of this boot.
pub(super) struct Leases {
    dir: PathBuf,
}

#[derive(Clone, Copy)]
struct Term {
    deadline_ns: u64,
    time_ns: u64,
}

impl Term {
    fn after(time_ns: u64) -> Term {
        Term { deadline_ns: now_ns().saturating_add(time_ns), time_ns }
    }

    fn file_name(self) -> String {
        format!("{}.{}", self.deadline_ns, self.time_ns)
    }

    fn of(name: &str) -> Option<Term> {
        let (deadline, time) = name.split_once('.')?;
        Some(Term { deadline_ns: deadline.parse().ok()?, time_ns: time.parse().ok()? })
    }
}

fn now_ns() -> u64 {
    let now = clock_gettime(ClockId::Boottime);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

impl Leases {
    pub(super) fn new(dir: PathBuf) -> Leases {
        Leases { dir }
    }

    fn place(&self, lease: LeaseId) -> PathBuf {
        self.dir.join(format!("{:016x}", lease.0))
    }

    /// Its term; none: it has ended. One whose deadline has passed ends by this.
    fn term(&self, lease: LeaseId) -> Result<Option<Term>, RegistryError> {
        let place = self.place(lease);
        for _ in 0..LOOKS_MAX {
            let Some(names) = names(&place)? else { return Ok(None) };
            if names.iter().any(|name| name == ENDED) {
                return Ok(None);
            }
            // None while it is being renamed.
            let Some(term) = names.iter().filter_map(|name| Term::of(name)).max_by_key(|t| t.deadline_ns)
            else {
                continue;
            };
            if now_ns() < term.deadline_ns {
                return Ok(Some(term));
            }
            if self.end(lease, term)? {
                return Ok(None);
            }
        }
        Err(RegistryError::Unreachable { cause: format!("{}: a lease without a term", place.display()) })
    }

    /// False: its term has changed meanwhile.
    fn end(&self, lease: LeaseId, term: Term) -> Result<bool, RegistryError> {
        let place = self.place(lease);
        rename(&place.join(term.file_name()), &place.join(ENDED))
    }

    pub(super) fn is_alive(&self, lease: LeaseId) -> Result<bool, RegistryError> {
        Ok(self.term(lease)?.is_some())
    }

    pub(super) fn grant(&self, time: Duration) -> Result<LeaseId, RegistryError> {
        if self.sweep()? >= LEASES_MAX {
            return Err(RegistryError::Limit { what: "leases", max: LEASES_MAX });
        }
        let lease = LeaseId(unique()?);
        let term = Term::after(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX));
        let place = self.place(lease);
        // Nobody knows of it before it is returned.
        create_dir(&place).map_err(|e| failed(&place, &e))?;
        write_new(&place.join(term.file_name()), &[], false)?;
        Ok(lease)
    }

    /// Removes those that have ended; how many are left.
    fn sweep(&self) -> Result<usize, RegistryError> {
        let mut left = 0;
        for name in names(&self.dir)?.unwrap_or_default() {
            let Ok(lease) = u64::from_str_radix(&name, 16) else { continue };
            // One that is being granted has no term for a moment: it is left, and counted.
            let place = self.place(LeaseId(lease));
            let is_empty = names(&place)?.is_some_and(|names| names.is_empty());
            if is_empty || self.is_alive(LeaseId(lease))? {
                left += 1;
                continue;
            }
            match fs::remove_dir_all(&place) {
                Ok(()) => {}
                Err(error) if error.kind() == ErrorKind::NotFound => {}
                Err(error) => return Err(failed(&place, &error)),
            }
        }
        Ok(left)
    }

    pub(super) fn keep_alive(&self, lease: LeaseId) -> Result<(), RegistryError> {
        let Some(term) = self.term(lease)? else { return Err(RegistryError::Expired) };
        let place = self.place(lease);
        let next = Term::after(term.time_ns);
        match rename(&place.join(term.file_name()), &place.join(next.file_name()))? {
            true => Ok(()),
            // Another renewal came first, or it was revoked.
            false => self.term(lease)?.map(drop).ok_or(RegistryError::Expired),
        }
    }

    pub(super) fn time_left(&self, lease: LeaseId) -> Result<Duration, RegistryError> {
        let term = self.term(lease)?.ok_or(RegistryError::Expired)?;
        Ok(Duration::from_nanos(term.deadline_ns.saturating_sub(now_ns())))
    }

    pub(super) fn revoke(&self, lease: LeaseId) -> Result<(), RegistryError> {
        while let Some(term) = self.term(lease)? {
            if self.end(lease, term)? {
                break;
            }
        }
        Ok(())
    }
}
