//! The token of the API on TCP: which requests carry it, and which refusals become events.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use array::{Event, EventSender};

/// Refusals are told once an address in so long.
const WINDOW: Duration = Duration::from_secs(60);
/// So many addresses are told apart within a window. The refusals of others are only counted.
const ADDRESSES_MAX: usize = 16;

/// What stands before the routes on TCP.
pub(crate) struct TokenGuard {
    token: Arc<str>,
    events: EventSender,
    refusals: Mutex<Refusals>,
}

impl TokenGuard {
    pub(crate) fn new(token: Arc<str>, events: EventSender) -> TokenGuard {
        TokenGuard { token, events, refusals: Mutex::default() }
    }

    /// Whether the value of an `Authorization` header carries the token. If not, the refusal is told.
    pub(crate) fn admits(&self, authorization: Option<&str>, peer: Option<IpAddr>) -> bool {
        let given = authorization.and_then(|v| v.strip_prefix("Bearer "));
        if given.is_some_and(|given| same(given.as_bytes(), self.token.as_bytes())) {
            return true;
        }
        // Only TCP stands behind the guard, and there every peer has an address.
        let peer = peer.unwrap_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED));
        let mut refusals = self.refusals.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        if let Some(untold) = refusals.add(peer, Instant::now()) {
            let what = if authorization.is_none() { "no token" } else { "a wrong token" };
            let mut text = format!("the API refused a request from {peer}: {what}");
            if untold > 0 {
                text += &format!("; {untold} more refusals since the last event");
            }
            self.events.tell(Event::warning("array", text));
        }
        false
    }
}

/// Compares in a time that does not tell where the difference is.
fn same(a: &[u8], b: &[u8]) -> bool {
    a.len() == b.len() && a.iter().zip(b).fold(0, |difference, (x, y)| difference | (x ^ y)) == 0
}

/// The refusals of the current window.
#[derive(Default)]
struct Refusals {
    began: Option<Instant>,
    told: BTreeSet<IpAddr>,
    untold: u64,
}

impl Refusals {
    /// Counts a refusal. `Some` if it is to be told, with the number of those that were not told since the
    /// last event.
    fn add(&mut self, peer: IpAddr, now: Instant) -> Option<u64> {
        if self.began.is_none_or(|began| now.duration_since(began) >= WINDOW) {
            self.began = Some(now);
            self.told.clear();
        }
        if self.told.len() < ADDRESSES_MAX && self.told.insert(peer) {
            return Some(std::mem::take(&mut self.untold));
        }
        self.untold += 1;
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(number: u32) -> IpAddr {
        IpAddr::V4(number.into())
    }

    #[test]
    fn refusals_of_an_address_are_told_once_a_window_and_counted() {
        let (mut refusals, start) = (Refusals::default(), Instant::now());
        assert_eq!(refusals.add(address(1), start), Some(0));
        assert_eq!(refusals.add(address(1), start + WINDOW / 2), None);
        assert_eq!(refusals.add(address(2), start + WINDOW / 2), Some(1));
        assert_eq!(refusals.add(address(2), start + WINDOW / 2), None);
        assert_eq!(refusals.add(address(1), start + WINDOW), Some(1));
    }

    #[test]
    fn refusals_from_many_addresses_are_a_bounded_number_of_events() {
        let (mut refusals, now) = (Refusals::default(), Instant::now());
        let told = (0..10_000).filter(|n| refusals.add(address(*n), now).is_some()).count();
        assert_eq!(told, ADDRESSES_MAX);
        assert_eq!(refusals.add(address(1), now + WINDOW), Some(10_000 - ADDRESSES_MAX as u64));
    }
}
