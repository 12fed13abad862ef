//! Which connections are closed when there are too many in login or discovery. Connections that send nothing
//! cannot lock out hosts.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::rc::Rc;

use super::limits::Limits;
use super::link::Link;

/// Connections by the order of their arrival.
type Links = BTreeMap<u64, Rc<Link>>;

/// Addresses from which hosts have logged in: their connections do not compete with those of unknown
/// addresses.
#[derive(Default)]
pub(crate) struct Known {
    by_address: BTreeMap<IpAddr, u64>,
    count: u64,
}

/// Limit of stored addresses; the one with the oldest login is removed.
const KNOWN_MAX: usize = 1024;

impl Known {
    /// Records a login from an address.
    pub(crate) fn add(&mut self, source: IpAddr) {
        self.count += 1;
        self.by_address.insert(source, self.count);
        if self.by_address.len() > KNOWN_MAX
            && let Some((&oldest, _)) = self.by_address.iter().min_by_key(|(_, at)| **at)
        {
            self.by_address.remove(&oldest);
        }
    }

    fn has(&self, source: IpAddr) -> bool {
        self.by_address.contains_key(&source)
    }
}

/// Closes the oldest of `these`, preferably one that has sent nothing: a login in progress continues.
fn end_oldest<'a>(these: impl Iterator<Item = &'a Rc<Link>>) {
    // Of several equal ones, the first.
    if let Some(oldest) = these.min_by_key(|link| link.has_spoken.get()) {
        oldest.close("closed for a newer connection");
    }
}

/// Makes room for a connection in login.
pub(crate) fn make_room_for_login(links: &Links, known: &Known, new: &Link, limits: &Limits) {
    let source = new.peer().ip();
    let half_open = || links.values().filter(|l| l.is_half_open());
    let of = |source: IpAddr| half_open().filter(move |l| l.peer().ip() == source);
    if of(source).count() >= limits.logins_per_source.max(1) {
        return end_oldest(of(source));
    }
    // An unknown address only displaces unknown addresses.
    let is_known = known.has(source);
    let mut by_source: BTreeMap<IpAddr, usize> = BTreeMap::new();
    for link in half_open().filter(|l| known.has(l.peer().ip()) == is_known) {
        *by_source.entry(link.peer().ip()).or_default() += 1;
    }
    if by_source.values().sum::<usize>() < limits.logins.max(1) {
        return;
    }
    let most = by_source.values().copied().max().unwrap_or(0);
    end_oldest(half_open().filter(|l| by_source.get(&l.peer().ip()) == Some(&most)));
}

/// Makes room for a discovery session.
pub(crate) fn make_room_for_discovery(links: &Links, new: &Link, limits: &Limits) {
    let all = || links.values().filter(|l| l.is_discovery());
    let own = || all().filter(|l| l.peer().ip() == new.peer().ip());
    if own().count() >= limits.discoveries_per_source.max(1) {
        end_oldest(own());
    } else if all().count() >= limits.discoveries.max(1) {
        end_oldest(all());
    }
}
