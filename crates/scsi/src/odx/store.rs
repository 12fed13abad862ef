//! The valid tokens of a controller, and the data that they represent.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;

use block::{BlockError, Pieces};
use lu::{CommandContext, LogicalDisk};
use world::{Instant, World};

use super::limits::{DATA_UNDERRUN, TOKENS_MAX, TOKENS_PER_HOST_MAX};
use super::token::{CHECK_LEN, Facts, Key, Token};
use crate::error::{CommandError, TokenFault};

/// The tokens of all logical units of a controller: a token of one LU can be used on another.
pub struct Tokens<D: LogicalDisk>(Rc<Shared<D>>);

struct Shared<D: LogicalDisk> {
    world: World,
    key: Key,
    made: Cell<u64>,
    alive: RefCell<BTreeMap<[u8; CHECK_LEN], Entry<D>>>,
    /// A task waits for tokens to expire.
    reaping: Cell<bool>,
}

/// The data of a token.
pub(crate) struct Rods<D: LogicalDisk> {
    /// The ranges in order: data and length in bytes.
    pub(super) list: Vec<(D::Rod, u64)>,
    /// Bytes in all ranges.
    pub(crate) bytes: u64,
}

impl<D: LogicalDisk> Rods<D> {
    /// The ROD with byte `from`, the offset in it, and the bytes from there to its end; none past the last.
    pub(super) fn at(&self, from: u64) -> Option<(&D::Rod, u64, u64)> {
        let mut begin = 0;
        for (rod, len) in &self.list {
            let inside = from - begin;
            if inside < *len {
                return Some((rod, inside, len - inside));
            }
            begin += len;
        }
        None
    }

    /// Reads `len` bytes from `from` on. `disk` is the source.
    ///
    /// # Errors
    ///
    /// The data end before, or a drive failed.
    pub(crate) async fn read(
        &self,
        disk: &D,
        command: CommandContext<'_>,
        mut from: u64,
        len: u64,
    ) -> Result<Pieces, CommandError> {
        let (mut out, end) = (Pieces::new(), from + len);
        while from < end {
            let underrun = CommandError::CopyAborted { asc: DATA_UNDERRUN, segment: 0 };
            let (rod, inside, rest) = self.at(from).ok_or(underrun)?;
            let n = rest.min(end - from);
            let read = disk.read_rod(command, rod, inside, n as usize, &mut out).await;
            read.map_err(|error| fault_of(disk, rod, error))?;
            from += n;
        }
        Ok(out)
    }
}

/// Why a ROD could not be read: a token whose ROD gave way to writes of hosts has expired. The host copies by
/// itself then.
pub(super) fn fault_of<D: LogicalDisk>(disk: &D, rod: &D::Rod, error: BlockError) -> CommandError {
    match disk.has_rod(rod) {
        true => error.into(),
        false => CommandError::Token(TokenFault::Expired),
    }
}

struct Entry<D: LogicalDisk> {
    rods: Rc<Rods<D>>,
    /// The source logical unit.
    naa: [u8; 16],
    /// The iSCSI name of the host that asked for the token.
    host: String,
    idle_max: Duration,
    last_used: Instant,
    users: usize,
}

impl<D: LogicalDisk> Entry<D> {
    /// Its expiry time if it is not used; a token in use does not expire.
    fn expires(&self) -> Option<Instant> {
        (self.users == 0).then(|| self.last_used + self.idle_max)
    }
}

/// A token in use: it does not expire, and its data are held, also when the pool has no room for a write.
pub(crate) struct InUse<D: LogicalDisk> {
    store: Rc<Shared<D>>,
    check: [u8; CHECK_LEN],
    /// The source logical unit.
    pub(crate) naa: [u8; 16],
    pub(crate) rods: Rc<Rods<D>>,
}

impl<D: LogicalDisk> Tokens<D> {
    /// The empty store of a controller, by its number. Its key comes from a random stream of its own:
    /// controllers may share a seed, and a token must tell who made it. Tokens of an earlier run are unknown.
    pub fn new(world: World, controller: usize) -> Tokens<D> {
        let mut key = [0; 32];
        world.random(&format!("rod tokens {controller}")).fill(&mut key);
        Tokens(Rc::new(Shared {
            world,
            key: Key::new(key),
            made: Cell::new(0),
            alive: RefCell::default(),
            reaping: Cell::new(false),
        }))
    }

    /// The number of valid tokens.
    pub fn alive(&self) -> usize {
        self.0.alive.borrow().len()
    }

    /// Forgets the tokens of the logical units that `of` selects by NAA designator.
    pub fn forget(&self, of: impl Fn(&[u8; 16]) -> bool) {
        let gone: Vec<_> = self.0.alive.borrow_mut().extract_if(.., |_, entry| of(&entry.naa)).collect();
        // Freeing a ROD frees pages.
        drop(gone);
    }

    /// Creates a token. If necessary, it replaces the least recently used one: one of the same host, if that
    /// has its share.
    pub(super) fn make(&self, facts: &Facts<'_>, host: &str, idle_max: Duration, rods: Rods<D>) -> Token {
        let store = &self.0;
        store.made.set(store.made.get() + 1);
        let token = store.key.mint(store.made.get(), facts);
        let check = store.key.verify(&token).expect("just made");
        let evicted = {
            let alive = &mut *store.alive.borrow_mut();
            let evicted = make_room(alive, host);
            let (rods, host, last_used) = (Rc::new(rods), host.to_owned(), store.world.now());
            alive.insert(check, Entry { rods, naa: facts.naa, host, idle_max, last_used, users: 0 });
            evicted
        };
        drop(evicted);
        self.reap();
        token
    }

    /// The data of a token, for a host with the mappings of `is_mapped`.
    pub(crate) fn take(
        &self,
        token: &Token,
        is_mapped: impl Fn(&[u8; 16]) -> bool,
    ) -> Result<InUse<D>, TokenFault> {
        let store = &self.0;
        let check = store.key.verify(token)?;
        let now = store.world.now();
        let alive = &mut *store.alive.borrow_mut();
        // This store made the token, so it has existed.
        let entry = alive
            .get_mut(&check)
            .filter(|e| e.expires().is_none_or(|at| at > now))
            .ok_or(TokenFault::Expired)?;
        if !is_mapped(&entry.naa) {
            return Err(TokenFault::Unknown);
        }
        entry.users += 1;
        entry.rods.list.iter().for_each(|(rod, _)| D::keep_rod(rod, true));
        Ok(InUse { store: store.clone(), check, naa: entry.naa, rods: entry.rods.clone() })
    }

    /// Ensures that expired tokens release their pages even if nobody uses tokens any more.
    fn reap(&self) {
        if self.0.reaping.replace(true) {
            return;
        }
        let store = Rc::downgrade(&self.0);
        let world = self.0.world.clone();
        self.0.world.spawn(async move {
            while let Some(next) = store.upgrade().and_then(|store| store.remove_expired()) {
                world.sleep_until(next).await;
            }
        });
    }
}

impl<D: LogicalDisk> Shared<D> {
    /// Removes expired tokens and returns when to check again; ends the task if no token is left.
    fn remove_expired(&self) -> Option<Instant> {
        let now = self.world.now();
        let alive = &mut *self.alive.borrow_mut();
        alive.retain(|_, entry| entry.expires().is_none_or(|at| at > now));
        if alive.is_empty() {
            self.reaping.set(false);
            return None;
        }
        // A token in use is checked again after its own lifetime: it cannot expire earlier.
        alive.values().map(|e| e.expires().unwrap_or(now + e.idle_max)).min()
    }
}

impl<D: LogicalDisk> InUse<D> {
    /// DEL_TKN: the host needs the token no more. Concurrent uses continue.
    pub(crate) fn delete(&self) {
        let entry = self.store.alive.borrow_mut().remove(&self.check);
        drop(entry);
    }
}

impl<D: LogicalDisk> Drop for InUse<D> {
    fn drop(&mut self) {
        self.rods.list.iter().for_each(|(rod, _)| D::keep_rod(rod, false));
        if let Some(entry) = self.store.alive.borrow_mut().get_mut(&self.check) {
            entry.users -= 1;
            entry.last_used = self.store.world.now();
        }
    }
}

/// Removes a token if there is no room for another one of this host.
fn make_room<D: LogicalDisk>(
    alive: &mut BTreeMap<[u8; CHECK_LEN], Entry<D>>,
    host: &str,
) -> Option<Entry<D>> {
    let own = alive.values().filter(|e| e.host == host).count();
    let any = alive.len() >= TOKENS_MAX;
    if own < TOKENS_PER_HOST_MAX && !any {
        return None;
    }
    let candidates = alive.iter().filter(|(_, e)| e.host == host || (any && own == 0));
    let oldest = candidates.min_by_key(|(_, e)| (e.users, e.last_used)).map(|(check, _)| *check)?;
    alive.remove(&oldest)
}
