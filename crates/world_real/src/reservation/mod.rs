//! Persistent reservations: the fence of block devices that several machines share.
//!
//! Each owner of an array registers a key of its own at the device and holds the reservation *write
//! exclusive, registrants only* (SPC-5 5.14): the device refuses the writes of everybody else, and reads
//! are free. The next owner preempts the registration of the last one and aborts what is under way there
//! (PREEMPT AND ABORT): nothing that the last owner still sends is carried out. An owner whose write is
//! refused in this way ends at once ([`conflict`]).
//!
//! The reservation stays when an owner hands over, so that no machine writes by mistake to a device that an
//! array has. Keys are of the array: one of another array, or of another program, is left alone, and the
//! device refused.

mod decide;
mod device;
mod flushes;

use std::collections::BTreeMap;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use rustix::rand::{GetRandomFlags, getrandom};

use self::decide::{Facts, Keys, Step, steps};
use crate::term;

/// What this process has reserved.
struct Reserved {
    keys: Keys,
    /// Its own key at each device. Bounded: at most the devices that were open here.
    own: BTreeMap<PathBuf, u64>,
}

/// None: devices are not shared, or not with other machines.
static RESERVED: Mutex<Option<Reserved>> = Mutex::new(None);

fn lock() -> MutexGuard<'static, Option<Reserved>> {
    RESERVED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// From now on this process reserves each block device that it opens: nodes of this array on other machines
/// have it, too. `array` is its identifier, the same at all of its nodes; keys begin with its first four
/// bytes.
pub fn reserve_devices(array: [u8; 16]) {
    let [a, b, c, d, ..] = array;
    let keys = Keys::of(u32::from_be_bytes([a, b, c, d]));
    // Keys of an earlier ownership of this process were preempted since.
    *lock() = Some(Reserved { keys, own: BTreeMap::new() });
}

/// Whether devices are reserved.
pub(crate) fn is_required() -> bool {
    lock().is_some()
}

fn keys() -> Result<Keys, String> {
    lock().as_ref().map(|reserved| reserved.keys).ok_or_else(|| {
        "only RBD images, and block devices of nodes on several machines, are fenced by command".to_owned()
    })
}

/// Takes the reservation of a device from whoever has it. Returns whose registrations were preempted; none:
/// nobody else was registered.
///
/// # Errors
/// Why it does not hold the reservation, and what to do.
pub(crate) fn fence(path: &Path) -> Result<Option<String>, String> {
    // A registration is the machine's: it would let through what an ended process of this machine still has
    // under way, whose own registration a later owner preempted.
    let file = device::open_alone(path)?;
    take(path, &file)
}

/// A call that hung may go on when another node owns the array.
fn still_owner() -> Result<(), String> {
    match term::holds() {
        true => Ok(()),
        false => Err("this node does not own the array any more".to_owned()),
    }
}

/// Of a device that is being opened: the reservation of this process is still there, or is taken now. A
/// drive may join while the array serves, and one that could not be reached at the take-over may come back.
pub(crate) fn hold(path: &Path, file: &File) -> Result<(), String> {
    let own = lock().as_ref().and_then(|reserved| reserved.own.get(path).copied());
    let Some(own) = own else { return take(path, file).map(drop) };
    let facts = device::facts(file)?;
    match facts.is_held_by(own) {
        true => Ok(()),
        false => Err(format!("the reservation of this node was taken away; {facts}")),
    }
}

fn take(path: &Path, file: &File) -> Result<Option<String>, String> {
    let keys = keys()?;
    let before = device::facts(file)?;
    keys.check(&before)?;
    let own = new_key(keys, &before)?;
    still_owner()?;
    device::register(file, own)?;
    let facts = device::facts(file)?;
    keys.check(&facts)?;
    let others = facts.others(own);
    for step in steps(&facts, own) {
        still_owner()?;
        match step {
            Step::Reserve => device::reserve(file, own)?,
            Step::Preempt(other) => device::preempt_and_abort(file, other, own)?,
        }
    }
    let after = device::facts(file)?;
    if !after.is_held_by(own) || !after.others(own).is_empty() {
        return Err(format!("another node takes it over at the same time; {after}"));
    }
    flushes::look_again(file)?;
    if let Some(reserved) = lock().as_mut() {
        reserved.own.insert(path.to_owned(), own);
    }
    let names: Vec<String> = others.iter().map(|key| format!("the owner with the key {key:#018x}")).collect();
    Ok((!names.is_empty()).then(|| names.join(", ")))
}

/// A key that nobody has registered.
fn new_key(keys: Keys, facts: &Facts) -> Result<u64, String> {
    loop {
        let mut bytes = [0; 4];
        getrandom(&mut bytes, GetRandomFlags::empty()).map_err(|e| format!("no random number: {e}"))?;
        let key = keys.key(u32::from_le_bytes(bytes));
        if !facts.keys.contains(&key) {
            return Ok(key);
        }
    }
}

/// A device has refused an operation because of a reservation: if it is one that this process had reserved,
/// another node is the owner now, and this process ends at once, without an answer to a host.
pub(crate) fn conflict(path: &Path) {
    if lock().as_ref().is_some_and(|reserved| reserved.own.contains_key(path)) {
        term::fenced(&path.display().to_string());
    }
}
