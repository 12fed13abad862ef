//! A logical unit: identity, disk, and the state that its nexuses share.

use std::cell::{Cell, OnceCell, RefCell};
use std::rc::Rc;

use block::{BlockError, Geometry, RangeLocks};
use lu::{Capabilities, Durability, LogicalDisk, NexusId, Task, TaskSet};
use world::World;
use world::sync::Permits;

use crate::arrival::Arrival;
use crate::atomics::{Atomics, undo_task};
use crate::attention::{Attention, Attentions};
use crate::counters::{Counters, Counting};
use crate::error::CommandError;
use crate::history::History;
use crate::limits::{COPIES_MAX, UNCOUNTED_MAX};
use crate::mode::Modes;
use crate::mover::Mover;
use crate::nexus::Nexus;
use crate::request::Lun;
use crate::reservation::{Persistence, Reservations};
use crate::sanitizing::Sanitizing;
use crate::sense::Format;
use crate::volatile_state::VolatileState;

/// The fixed properties of a logical unit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// T10 vendor identification, up to 8 printable ASCII characters.
    pub vendor: String,
    /// Product identification, up to 16.
    pub product: String,
    /// Product revision level, up to 4.
    pub revision: String,
    /// Unit serial number, up to 32.
    pub serial: String,
    /// NAA designator, IEEE Registered Extended (6h) in the first nibble; unique in the world.
    pub naa: [u8; 16],
    /// What the controllers of the array call it among themselves: of two that are mapped to a LUN one after
    /// the other it tells which is meant.
    pub key: u64,
    /// Logical blocks per physical block, as a power of two (READ CAPACITY(16)).
    pub physical_block_exponent: u8,
    /// Hosts may not write.
    pub read_only: bool,
}

impl Identity {
    /// An identity whose NAA and serial number follow from two numbers, which are unique per array and per
    /// LU.
    pub fn of(array: u64, lu: u64) -> Identity {
        let mut naa = [0; 16];
        naa[..8].copy_from_slice(&(0x6 << 60 | array >> 4).to_be_bytes());
        naa[8..].copy_from_slice(&(array << 60 | lu & (u64::MAX >> 4)).to_be_bytes());
        Identity {
            vendor: "MASU".into(),
            product: "Virtual Disk".into(),
            revision: "0001".into(),
            serial: format!("{array:016x}{lu:08x}"),
            naa,
            key: lu,
            physical_block_exponent: 0,
            read_only: false,
        }
    }
}

/// What a logical unit begins with, beside what is saved on its disk.
pub enum Origin {
    /// It comes into being.
    New,
    /// It was there before: commands that have waited for it to be opened again are for it.
    Reopened,
    /// It has come from another controller with this state.
    Moved(Box<VolatileState>),
}

/// A logical unit that is mapped and cannot be served now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unavailable {
    /// Which one it is ([`Identity::key`]).
    pub key: u64,
    /// As hosts know it; not known of one that this array has never opened.
    pub identity: Option<Identity>,
    /// Whether hosts are to send their commands again, as to a LU that is being taken over.
    pub is_busy: bool,
}

/// A logical unit on the controller that owns it.
pub struct LogicalUnit<D: LogicalDisk> {
    pub(crate) world: World,
    pub(crate) identity: Identity,
    pub(crate) disk: D,
    pub(crate) capabilities: Capabilities,
    pub(crate) locks: RangeLocks,
    pub(crate) tasks: TaskSet,
    pub(crate) counting: Counting,
    pub(crate) modes: Modes,
    pub(crate) reservations: Reservations,
    pub(crate) sanitizing: Sanitizing,
    pub(crate) history: History,
    pub(crate) atomics: Rc<Atomics>,
    /// Of VERIFY without data.
    pub(crate) uncounted: Permits,
    pub(crate) copying: Permits,
    geometry: Cell<Geometry>,
    nexuses: RefCell<Vec<Rc<Nexus>>>,
    pub(crate) mover: OnceCell<Box<dyn Mover>>,
    /// While it moves to another controller: its nexuses, with what they have not heard of yet.
    pub(crate) moved: RefCell<Vec<(NexusId, Attentions)>>,
}

impl<D: LogicalDisk> LogicalUnit<D> {
    /// A new logical unit on `disk`, of an array of one process.
    pub fn new(world: World, identity: Identity, disk: D) -> Rc<LogicalUnit<D>> {
        LogicalUnit::open(world, identity, disk, (Origin::New, Persistence::AsAsked))
    }

    /// A logical unit on `disk`, with the reservations saved there. A disk without records keeps none.
    pub fn open(
        world: World,
        identity: Identity,
        disk: D,
        (origin, persistence): (Origin, Persistence),
    ) -> Rc<LogicalUnit<D>> {
        let persistence = match disk.capabilities().keeps_records {
            true => persistence,
            false => Persistence::AsAsked,
        };
        let saved = |history| {
            let reservations = Reservations::load(&disk, persistence);
            (Modes::load(&disk), reservations, Counting::default(), history)
        };
        let state = match origin {
            Origin::New => saved(History::new()),
            Origin::Reopened => saved(History::default()),
            Origin::Moved(state) => {
                return LogicalUnit::moved_in(world, identity, disk, (*state, persistence));
            }
        };
        LogicalUnit::of(world, identity, disk, state)
    }

    /// A logical unit with this state.
    pub(crate) fn of(
        world: World,
        identity: Identity,
        disk: D,
        (modes, reservations, counting, history): (Modes, Reservations, Counting, History),
    ) -> Rc<LogicalUnit<D>> {
        let lu = Rc::new(LogicalUnit {
            world,
            identity,
            locks: RangeLocks::default(),
            tasks: TaskSet::default(),
            counting,
            modes,
            reservations,
            sanitizing: Sanitizing::load(&disk),
            history,
            atomics: Rc::new(Atomics::load(&disk)),
            uncounted: Permits::new(UNCOUNTED_MAX),
            copying: Permits::new(COPIES_MAX),
            capabilities: disk.capabilities(),
            geometry: Cell::new(disk.geometry()),
            nexuses: RefCell::default(),
            mover: OnceCell::new(),
            moved: RefCell::default(),
            disk,
        });
        if lu.atomics.check().is_err() {
            lu.world.spawn(undo_task(lu.disk.clone(), lu.atomics.clone()));
        }
        lu
    }

    /// Who moves it when a host asks for it. Set once, when the logical unit is made.
    pub fn moved_by(&self, mover: Box<dyn Mover>) {
        _ = self.mover.set(mover);
    }

    /// Whether a host may ask for other ports: explicit ALUA.
    pub(crate) fn may_be_moved(&self) -> bool {
        self.mover.get().is_some_and(|mover| mover.is_on())
    }

    /// Names and serial number, as in INQUIRY and VPD pages.
    pub fn identity(&self) -> &Identity {
        &self.identity
    }

    /// The disk.
    pub fn disk(&self) -> &D {
        &self.disk
    }

    /// The counters.
    pub fn counters(&self) -> Counters {
        self.counting.read()
    }

    /// Size and block length.
    pub fn geometry(&self) -> Geometry {
        self.geometry.get()
    }

    /// Bytes per logical block.
    pub(crate) fn block_bytes(&self) -> u32 {
        self.geometry.get().block_bytes
    }

    /// Logical blocks.
    pub(crate) fn blocks(&self) -> u64 {
        let geometry = self.geometry.get();
        geometry.len_bytes / u64::from(geometry.block_bytes)
    }

    /// The sense data format that hosts have selected.
    pub(crate) fn sense_format(&self) -> Format {
        if self.modes.descriptor_sense() { Format::Descriptor } else { Format::Fixed }
    }

    /// The durability of a write: durable before it ends if requested (FUA), or without a write cache
    /// (WCE = 0).
    pub(crate) fn durability(&self, asked: bool) -> Durability {
        if asked || self.modes.write_through() { Durability::Durable } else { Durability::Volatile }
    }

    /// Makes everything durable before the command ends, if requested or without a write cache.
    pub(crate) async fn flush_if_asked(&self, asked: bool) -> Result<(), BlockError> {
        match self.durability(asked) {
            Durability::Durable => self.disk.flush().await,
            Durability::Volatile => Ok(()),
        }
    }

    /// Reports a new capacity to every host (2Ah/09h).
    pub fn capacity_changed(&self) {
        self.geometry.set(self.disk.geometry());
        self.raise_for_all(Attention::CapacityChanged);
    }

    /// Reports the pool's soft threshold to every host (38h/07h).
    pub fn threshold_reached(&self) {
        self.raise_for_all(Attention::ThresholdReached);
    }

    /// Raises a unit attention for every nexus.
    pub(crate) fn raise_for_all(&self, attention: Attention) {
        self.raise_for(attention, |_| true);
    }

    /// Raises a unit attention for every nexus but one.
    pub(crate) fn raise_for_others(&self, than: NexusId, attention: Attention) {
        self.raise_for(attention, |n| n.id != than);
    }

    /// Raises a unit attention for the nexuses that `of` selects.
    pub(crate) fn raise_for(&self, attention: Attention, of: impl Fn(&Nexus) -> bool) {
        self.nexuses.borrow().iter().filter(|n| of(n)).for_each(|n| n.attentions.raise(attention));
    }

    /// The nexuses through which hosts see this LU.
    pub(crate) fn nexuses(&self) -> Vec<Rc<Nexus>> {
        self.nexuses.borrow().clone()
    }

    /// Adds a nexus.
    pub(crate) fn join(&self, nexus: Rc<Nexus>) {
        self.nexuses.borrow_mut().push(nexus);
    }

    /// Removes a nexus from the list.
    pub(crate) fn forget(&self, nexus: &Rc<Nexus>) {
        self.nexuses.borrow_mut().retain(|n| !Rc::ptr_eq(n, nexus));
    }

    /// Removes a nexus, or one of its LUNs. Repeated calls have no effect.
    pub(crate) fn leave(&self, nexus: &Rc<Nexus>) {
        if nexus.ended.replace(true) {
            return;
        }
        self.forget(nexus);
        if !self.nexuses.borrow().iter().any(|n| n.id == nexus.id) {
            self.abort(None, None, |id| id == nexus.id);
            self.reservations.nexus_ended(nexus);
        }
    }

    /// Marks the commands of the nexuses that `of` selects as aborted, and ends their waits below.
    pub(crate) fn abort(
        &self,
        by: Option<NexusId>,
        except: Option<&Task<'_>>,
        of: impl Fn(NexusId) -> bool,
    ) -> usize {
        self.tasks.abort(by, except, of)
    }

    /// Marks the commands of a nexus with this tag as aborted.
    pub(crate) fn abort_one(&self, nexus: NexusId, tag: u64) {
        self.tasks.abort_one(nexus, tag);
    }

    /// LOGICAL UNIT RESET (SAM-5 7.7), or the part of a target reset for one LU: aborts commands, releases
    /// RESERVE, restores mode parameters, and reports `attention` to every nexus.
    pub(crate) async fn reset(&self, by: (NexusId, Option<Lun>), attention: Attention) {
        self.history.abort_all(by, self.modes.task_aborted_status(), false);
        self.abort(Some(by.0), None, |_| true);
        self.tasks.aborted_ended().await;
        self.reservations.reset();
        self.modes.reset();
        self.raise_for_all(attention);
    }

    /// CLEAR TASK SET (SAM-5 7.5): aborts the commands of all nexuses and reports it to those that lost
    /// commands.
    pub(crate) async fn clear_task_set(&self, (by, lun): (NexusId, Lun)) {
        let event = self.history.abort_all((by, Some(lun)), self.modes.task_aborted_status(), true);
        let lost = self.tasks.abort_all(by);
        for nexus in self.nexuses().iter().filter(|n| n.id != by && lost.contains(&n.id)) {
            nexus.lost_commands(event);
        }
        self.tasks.aborted_ended().await;
    }

    /// Checks write protection: the Write Protect bit and the SWP bit (SBC-4 4.12).
    pub(crate) fn check_writable(&self) -> Result<(), CommandError> {
        if self.identity.read_only {
            return Err(CommandError::WriteProtected);
        }
        if self.modes.software_write_protect() {
            return Err(CommandError::SoftwareWriteProtected);
        }
        Ok(())
    }

    /// Checks that the LU is ready for commands that need its disk.
    pub(crate) fn check_ready(&self) -> Result<(), CommandError> {
        self.atomics.check()?;
        self.sanitizing.check()
    }

    /// The same for a command that arrived then: a sanitize operation that has ended since counts, too.
    pub(crate) fn check_ready_since(&self, arrival: Arrival) -> Result<(), CommandError> {
        self.check_ready()?;
        match self.history.is_sanitized_since(arrival) {
            true => Err(CommandError::SanitizeInProgress { done: u16::MAX }),
            false => Ok(()),
        }
    }
}
