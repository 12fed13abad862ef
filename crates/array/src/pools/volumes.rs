//! Volumes and their LUs.

use std::rc::Rc;

use block::BlockError;
use futures::future::join_all;
use pool::{Pool, Volume};
use scsi::{Identity, LogicalUnit, Origin};
use status::Reason;

use super::mover::mover_of;
use crate::cached::{cached, discard};
use crate::config::{Config, VolumeConfig};
use crate::control::ControlError;
use crate::controller::{Controller, VolumeKey, identity_of};
use crate::event::Severity;
use crate::terms;
use crate::why::Told;
use stack::{Cached, Disk, PlainVolume, Storage};

fn lost(pool: &str) -> Told {
    let text =
        format!("not found in pool {pool:?}, where it was created earlier; masu does not create it again");
    Told::new(Reason::NotFound, text)
}

fn not_open(pool: &str) -> Told {
    Told::new(Reason::PoolNotOpen, format!("pool {pool:?} is not open"))
}

/// Opens a declared volume, or creates it; `known` is the existing volume of that name. One that hosts use
/// keeps its size here: see [`grow_volumes`].
pub(crate) async fn open_volume(
    controller: &Rc<Controller>,
    config: &Config,
    (declared, known): (&VolumeConfig, Option<Volume>),
    done: &mut Vec<String>,
) -> Result<(), ControlError> {
    let place = || ControlError::at(format!("volume {:?}", declared.name));
    let pool = controller.state().pools.get(&declared.pool).cloned();
    let pool = pool.ok_or_else(|| place()(&not_open(&declared.pool)))?;
    let was_made = controller.state().made.volumes.contains(&declared.name);
    let volume = match known {
        Some(volume) => {
            if !was_made && !controller.state().lus.contains_key(&declared.name) {
                done.push(format!("volume {}: is in pool {}, with its data", declared.name, declared.pool));
            }
            volume
        }
        None if was_made => {
            let cause = lost(&declared.pool);
            return Err(place()(&cause));
        }
        None => {
            let (made, line) = create(controller, &pool, declared).await;
            done.push(line);
            made?
        }
    };
    let len = block::Device::geometry(&volume).len_bytes;
    if declared.len_bytes < len && was_made {
        // Hosts keep seeing the size that the volume has on the drives.
        let (name, declared) = (&declared.name, declared.len_bytes);
        let told = format!("volume {name}: declared with {declared} bytes, but has {len}");
        controller.events.once(Severity::Warning, told);
    } else if declared.len_bytes < len {
        return Err(place()(&format!("cannot shrink from {len} to {} bytes", declared.len_bytes)));
    }
    let lu = controller.state().lus.get(&declared.name).cloned();
    if declared.len_bytes > len && lu.is_none() {
        match pool.grow_volume(&declared.name, declared.len_bytes).await {
            Ok(()) => done.push(grown(declared)),
            // Hosts have their data all the same.
            Err(error) if was_made => {
                let (name, declared) = (&declared.name, declared.len_bytes);
                let told = format!(
                    "volume {name}: declared with {declared} bytes, but has {len}: cannot grow: {error}"
                );
                controller.events.once(Severity::Warning, told);
            }
            Err(error) => return Err(place()(&error)),
        }
    }
    if lu.is_some() {
        cached(controller, Some(declared), &volume, done).await.map_err(|e| place()(&e))?;
        return Ok(());
    }
    let lu = open_lu(controller, config, (declared, volume), done).await.map_err(|e| place()(&e))?;
    controller.state.borrow_mut().lus.insert(declared.name.clone(), lu);
    Ok(())
}

fn grown(declared: &VolumeConfig) -> String {
    format!("volume {}: grown to {} bytes", declared.name, declared.len_bytes)
}

/// Grows volumes that hosts use already. It cannot be taken back, because a host may use the new part at
/// once: so it comes after all else that may refuse the declaration.
pub(crate) async fn grow_volumes(
    controller: &Rc<Controller>,
    larger: Vec<(&VolumeConfig, Volume)>,
    done: &mut Vec<String>,
) -> Result<(), ControlError> {
    for (declared, volume) in larger {
        let place = || ControlError::at(format!("volume {:?}", declared.name));
        let pool = volume.pool();
        pool.grow_volume(&declared.name, declared.len_bytes).await.map_err(|e| place()(&e))?;
        done.push(grown(declared));
        cached(controller, Some(declared), &volume, done).await.map_err(|e| place()(&e))?;
        let lu = controller.state().lus.get(&declared.name).cloned();
        lu.into_iter().for_each(|lu| lu.capacity_changed());
    }
    Ok(())
}

/// The LU of an open volume: with the state that it had at another controller, if it comes from there.
async fn open_lu(
    controller: &Rc<Controller>,
    config: &Config,
    (declared, volume): (&VolumeConfig, Volume),
    done: &mut Vec<String>,
) -> Result<Rc<LogicalUnit<Disk>>, BlockError> {
    let pool = volume.pool();
    let number = lu_number(&volume);
    controller.state.borrow_mut().lu_numbers.insert(declared.name.clone(), number);
    let was_there = controller.state().made.lu_numbers.get(&declared.name) == Some(&number);
    let identity = Identity {
        physical_block_exponent: (declared.physical_block_bytes / declared.block_bytes).ilog2() as u8,
        read_only: declared.read_only,
        ..identity_of(config, (&declared.name, number))
    };
    save_shape(&volume, Shape::of(declared)).await?;
    let cached = cached(controller, Some(declared), &volume, done).await?;
    let gate = controller.state().services[pool.name()].service.gate(&format!("volume {}", declared.name));
    let storage = match cached {
        Some(unit) => Storage::Cached(Cached::new(unit, declared.block_bytes)),
        None => Storage::Plain(PlainVolume::new(volume, declared.block_bytes)),
    };
    let disk = Disk::new(gate, storage);
    let moved = controller.state.borrow_mut().arriving.remove(&declared.name);
    let world = controller.world.clone();
    let origin = match moved {
        Some(state) => Origin::Moved(Box::new(state)),
        None if was_there => Origin::Reopened,
        None => Origin::New,
    };
    let persistence = controller.state().nodes.persistence();
    let lu = LogicalUnit::open(world, identity, disk, (origin, persistence));
    mover_of(controller, pool.name()).into_iter().for_each(|mover| lu.moved_by(mover));
    Ok(lu)
}

/// Creates a declared volume; also says what was created. The caller has found no volume of that name.
async fn create(
    controller: &Controller,
    pool: &Pool,
    declared: &VolumeConfig,
) -> (Result<Volume, ControlError>, String) {
    controller.state.borrow_mut().fresh.volumes.push((declared.pool.clone(), declared.name.clone()));
    let (len_bytes, provisioning) = (declared.len_bytes, terms::provisioning(declared.provisioning));
    let made = pool.create_volume(&declared.name, len_bytes, provisioning).await;
    let place = ControlError::at(format!("volume {:?}", declared.name));
    (made.map_err(|e| place(&e)), format!("volume {}: created", declared.name))
}

/// Volumes created at once: they share the commits of their pool, which flush its drives.
const CREATED_AT_ONCE: usize = 64;

/// Creates declared volumes that no pool has and that were never made, with their shapes; those of a pool
/// that is not open are left out. The volumes, or why there is none, in the order of `declared`.
pub(crate) async fn create_volumes<'a>(
    controller: &Controller,
    declared: &[&'a VolumeConfig],
    done: &mut Vec<String>,
) -> Vec<(&'a VolumeConfig, Result<Volume, ControlError>)> {
    let one = async |declared: &'a VolumeConfig| {
        let pool = controller.state().pools.get(&declared.pool).cloned()?;
        let (made, line) = create(controller, &pool, declared).await;
        let shaped = match made {
            Ok(volume) => match save_shape(&volume, Shape::of(declared)).await {
                Ok(()) => Ok(volume),
                Err(error) => Err(ControlError::at(format!("volume {:?}", declared.name))(&error)),
            },
            Err(error) => Err(error),
        };
        Some((declared, shaped, line))
    };
    let mut outcomes = Vec::with_capacity(declared.len());
    for part in declared.chunks(CREATED_AT_ONCE) {
        for (declared, made, line) in join_all(part.iter().map(|d| one(d))).await.into_iter().flatten() {
            done.push(line);
            outcomes.push((declared, made));
        }
    }
    outcomes
}

/// The name of the record with a volume's shape.
const SHAPE_RECORD: &str = "array.shape";

/// The part of a declaration that is stored with the volume, so that another array presents the same disk to
/// hosts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Shape {
    pub(crate) block_bytes: u32,
    pub(crate) physical_block_bytes: u32,
    pub(crate) read_only: bool,
}

impl Shape {
    fn of(declared: &VolumeConfig) -> Shape {
        Shape {
            block_bytes: declared.block_bytes,
            physical_block_bytes: declared.physical_block_bytes,
            read_only: declared.read_only,
        }
    }

    /// Both block sizes, little-endian, and the read-only flag: 9 bytes.
    fn encode(self) -> Vec<u8> {
        let lengths = [self.block_bytes.to_le_bytes(), self.physical_block_bytes.to_le_bytes()];
        lengths.into_iter().flatten().chain([u8::from(self.read_only)]).collect()
    }

    fn decode(bytes: &[u8]) -> Option<Shape> {
        let (block, rest) = bytes.split_first_chunk::<4>()?;
        let (physical, rest) = rest.split_first_chunk::<4>()?;
        let [read_only] = rest else { return None };
        let (block_bytes, physical_block_bytes) = (u32::from_le_bytes(*block), u32::from_le_bytes(*physical));
        Some(Shape { block_bytes, physical_block_bytes, read_only: *read_only != 0 })
    }
}

/// Stores the shape with the volume, if it has changed.
async fn save_shape(volume: &Volume, shape: Shape) -> Result<(), BlockError> {
    match volume.load_record(SHAPE_RECORD).as_deref().and_then(Shape::decode) == Some(shape) {
        true => Ok(()),
        false => volume.save_record(SHAPE_RECORD, &shape.encode()).await,
    }
}

/// The stored shape of a volume. A volume without one was never presented to a host.
pub(crate) fn load_shape(volume: &Volume) -> Shape {
    let kept = volume.load_record(SHAPE_RECORD);
    let usual = Shape { block_bytes: 512, physical_block_bytes: 4096, read_only: false };
    kept.as_deref().and_then(Shape::decode).unwrap_or(usual)
}

/// A LU number that is unique in the array, also after the volume is deleted: from the pool's identity and
/// the volume's number in it.
fn lu_number(volume: &Volume) -> u64 {
    let pool = volume.pool().id().0;
    let salt = u32::from_be_bytes([pool[0], pool[1], pool[2], pool[3]]) & 0x0fff_ffff;
    u64::from(salt) << 32 | u64::from(volume.id().0)
}

/// Deletes a volume of this pool that is no longer declared.
///
/// # Errors
/// [`Reason::NotFound`] in the pool, or [`Reason::PoolNotOpen`].
pub(crate) async fn delete_volume(
    controller: &Controller,
    key: &VolumeKey,
) -> Result<Vec<String>, ControlError> {
    let (pool, name) = key;
    let place = || ControlError::at(format!("volume {name:?}"));
    if controller.state().config.volume(name).is_some_and(|volume| volume.pool == *pool) {
        return Err(place()(&"still declared"));
    }
    let pool = controller
        .state()
        .pools
        .get(pool)
        .cloned()
        .ok_or_else(|| place()(&Told::new(Reason::PoolNotOpen, "its pool is not served")))?;
    if pool.volume(name).is_none() {
        // Its deletion may not be durable yet: then a crash would bring it back.
        pool.flush().await.map_err(|e| place()(&e))?;
        return Err(place()(&Told::new(Reason::NotFound, "not found")));
    }
    discard(controller, key).await?;
    pool.delete_volume(name).await.map_err(|e| place()(&e))?;
    Ok(vec![format!("volume {name}: deleted")])
}

/// Clones a volume. The LU of the clone is created when it is declared.
pub(crate) async fn clone_volume(
    controller: &Controller,
    from: &str,
    to: &str,
) -> Result<Vec<String>, ControlError> {
    let place = || ControlError::at(format!("volume {from:?}"));
    let pool = {
        let state = controller.state();
        let declared = state.config.volume(from).ok_or_else(|| place()(&"not found"))?;
        let pool = state.pools.get(&declared.pool).cloned();
        pool.ok_or_else(|| place()(&not_open(&declared.pool)))?
    };
    let unit = controller.state().units.get(&(pool.name().to_owned(), from.to_owned())).cloned();
    let _settled = match &unit {
        Some(unit) => Some(unit.settle(0..unit.geometry().len_bytes).await.map_err(|e| place()(&e))?),
        None => None,
    };
    pool.clone_volume(from, to).await.map_err(|e| place()(&e))?;
    Ok(vec![format!("volume {to}: created as a clone of {from}")])
}
