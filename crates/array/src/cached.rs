//! Volumes under the controller's cache, and the journals of their pools.

use std::rc::Rc;

use block::BlockError;
use cache::{Cache, Journal, JournalError, UnitSpec};
use futures::future::try_join_all;
use pool::{Pool, Volume};
use raid::{Group, LABEL_REGION_LEN, OnDrive, Overwrite, examine, label_cache};
use stack::{CachedVolume, PoolJournal, VolumeCache};
use status::Reason;
use world::Drive;

use crate::config::{CachePolicy, Config, JournalId, PoolConfig, VolumeConfig};
use crate::control::ControlError;
use crate::controller::{Controller, Index, Partitions, Slices, VolumeKey};
use crate::groups::{open_emptied, overwrite_of};
use crate::journal_groups::{Wanted, advice, group_with, refuse_pool};
use crate::terms;
use crate::why::Told;

/// The name of a volume's record with the identity of the journal that may hold its writes.
const JOURNAL_RECORD: &str = "cache.journal";
/// The name of a pool's record with the identity of its journal and the epoch that it has reached, 24 bytes.
const EPOCH_RECORD: &str = "cache.journal.epoch";
/// Volumes that are detached from the cache at once.
const AT_ONCE: usize = 64;
/// The first bytes of a journal's identity are those of its pool; the rest is random.
const POOL_PART: usize = 8;

/// Creates the declared cache and its partitions on the first call. Another size takes effect at the next
/// start.
pub(crate) async fn open_cache(
    controller: &Controller,
    config: &Config,
    done: &mut Vec<String>,
) -> Result<(), ControlError> {
    let Some(settings) = &config.cache else { return Ok(()) };
    let index = controller.index;
    let known = controller.state().cache.clone();
    if let Some(known) = known {
        if known.config() == terms::cache_config(settings) {
            controller.state.borrow_mut().partitions.set(index, &known, settings, done);
        }
        return Ok(());
    }
    let cache = Cache::new(controller.world.clone(), terms::cache_config(settings));
    done.push(format!("controller {index}: cache of {} bytes", settings.memory_bytes));
    let mut state = controller.state.borrow_mut();
    state.partitions.set(index, &cache, settings, done);
    state.cache = Some(cache);
    Ok(())
}

/// The declared drive of the second level of a controller.
pub(crate) fn ssd_of(config: &Config, index: usize) -> Option<&String> {
    config.cache.as_ref()?.ssds.get(index)
}

/// The drive of the second level, if this declaration has another one than the current declaration.
pub(crate) fn new_ssd(controller: &Controller, config: &Config) -> Option<String> {
    let ssd = ssd_of(config, controller.index);
    ssd.filter(|_| ssd_of(&controller.config(), controller.index) != ssd).cloned()
}

/// Makes a drive the second level of a new cache. That of a cache in use is checked, so that the next start
/// does not refuse it.
pub(crate) async fn open_second_level(
    controller: &Controller,
    config: &Config,
    ssd: &str,
    done: &mut Vec<String>,
) -> Result<(), ControlError> {
    let index = controller.index;
    let drive = open_ssd(controller, config, ssd).await?;
    let cache = controller.state().cache.clone();
    // Reads may be under way on a second level that is in use.
    let has_one = cache.as_ref().is_some_and(|cache| cache.second_counts().is_some());
    if has_one || controller.config().cache.is_some() {
        return Ok(());
    }
    if !cache.is_some_and(|cache| cache.set_second_level(drive, LABEL_REGION_LEN)) {
        let place = ControlError::at(format!("drive {ssd:?}: cache"));
        return Err(place(&"the drive is too small: at least 3 MiB are required"));
    }
    controller.state.borrow_mut().ssd = Some(ssd.to_owned());
    done.push(format!("controller {index}: second level on drive {ssd}"));
    Ok(())
}

/// Opens the drive of a second level, which has the label of such a one of this array, or gets it now. Its
/// file is created also if it was there before, because its content ends with the process.
async fn open_ssd(controller: &Controller, config: &Config, ssd: &str) -> Result<Drive, ControlError> {
    let place = || ControlError::at(format!("drive {ssd:?}: cache"));
    let drive = open_emptied(controller, config, ssd).await?;
    let own = terms::array_id(config);
    let may_be_erased = overwrite_of(controller, ssd) != Overwrite::Nothing;
    match examine(&drive).await.map_err(|e| place()(&e))? {
        OnDrive::Cache { array_id } if array_id == own => return Ok(drive),
        OnDrive::Blank => controller.state.borrow_mut().fresh.labelled.push(drive.clone()),
        found @ (OnDrive::Label(_) | OnDrive::Spare { .. } | OnDrive::NewerFormat { .. }) => {
            return Err(place()(&format!("the drive {found}; refusing to overwrite it: name another drive")));
        }
        OnDrive::Cache { .. } | OnDrive::DamagedLabel | OnDrive::NotBlank { .. } if may_be_erased => {}
        // Earlier versions gave their second level no label: its data are not to be told from others.
        found => {
            let to_do =
                format!("name another drive, or restart with masu serve --overwrite {ssd} to erase it");
            return Err(place()(&format!("the drive {found}; {to_do}")));
        }
    }
    label_cache(&drive, own).await.map_err(|e| place()(&e))?;
    Ok(drive)
}

/// Partitions of the cache and the policies of volumes as this declaration has them, when another one is
/// refused.
pub(crate) async fn put_back_caching(controller: &Controller, config: &Config) -> Result<(), ControlError> {
    open_cache(controller, config, &mut Vec::new()).await?;
    let mut slices = Slices::new(&controller.world);
    let index = Index::of(config, &mut slices).await;
    let (units, partitions) = {
        let state = controller.state();
        (state.units.clone(), state.partitions.clone())
    };
    for ((pool, name), unit) in &units {
        slices.step(1).await;
        let declared = index.volume(name).filter(|volume| volume.pool == *pool);
        let spec = spec_of(declared, &partitions, unit.store());
        unit.set_policy(spec.policy);
        unit.set_partition(spec.partition);
    }
    index.let_go(&mut slices).await;
    Ok(())
}

fn key_of(volume: &Volume) -> VolumeKey {
    (volume.pool().name().to_owned(), volume.name().to_owned())
}

/// The journal that may hold writes of a volume.
pub(crate) fn journal_of(volume: &Volume) -> Option<JournalId> {
    volume.load_record(JOURNAL_RECORD).and_then(|bytes| bytes.try_into().ok()).map(JournalId)
}

pub(crate) fn wanted_of(pool: &Pool, id: JournalId) -> Wanted {
    let record = pool.load_record(EPOCH_RECORD).unwrap_or_default();
    let epoch = record.strip_prefix(&id.0[..]).and_then(|rest| rest.try_into().ok());
    Wanted { id, epoch: epoch.map_or(0, u64::from_le_bytes) }
}

/// Notes the epoch of a journal that was opened, before anything is acknowledged that only it has.
async fn note_epoch(pool: &Pool, journal: &PoolJournal) -> Result<(), BlockError> {
    let record = [&journal.id()[..], &journal.epoch().to_le_bytes()].concat();
    pool.save_record(EPOCH_RECORD, &record).await
}

fn id_of(journal: &PoolJournal) -> JournalId {
    JournalId(journal.id())
}

async fn note_journal(volume: &Volume, id: Option<JournalId>) -> Result<(), BlockError> {
    match journal_of(volume) == id {
        true => Ok(()),
        false => volume.save_record(JOURNAL_RECORD, id.as_ref().map_or(&[], |id| &id.0[..])).await,
    }
}

fn spec_of(declared: Option<&VolumeConfig>, partitions: &Partitions, volume: &Volume) -> UnitSpec {
    UnitSpec {
        stable_id: volume.id().0.into(),
        policy: terms::write_policy(declared.map_or(CachePolicy::WriteThrough, |v| v.cache)),
        partition: partitions.id_of(declared.and_then(|v| v.partition.as_ref())),
    }
}

/// Opens the journal of a pool and replays it. From then on the cache serves the pool's volumes.
pub(crate) async fn open_journal(
    controller: &Rc<Controller>,
    index: &Index<'_>,
    declared: &PoolConfig,
    slices: &mut Slices,
    done: &mut Vec<String>,
) -> Result<(), ControlError> {
    let place = || ControlError::at(format!("pool {:?}: journal", declared.name));
    if controller.state().journals.contains_key(&declared.name) {
        return Ok(());
    }
    let Some(pool) = controller.state().pools.get(&declared.name).cloned() else { return Ok(()) };
    let (mut named, mut served) = (None, false);
    for volume in pool.volumes() {
        slices.step(1).await;
        named = named.or_else(|| journal_of(&volume));
        served |= controller.state().units.contains_key(&key_of(&volume));
    }
    let wanted = named.map(|id| wanted_of(&pool, id));
    let Some(name) = &declared.journal else {
        return refuse_without(controller, (&pool, declared), wanted).await.map_err(|cause| place()(&cause));
    };
    if served {
        return Ok(());
    }
    let (cache, group) = {
        let state = controller.state();
        (state.cache.clone(), state.groups.get(name).cloned())
    };
    let (Some(cache), Some(group)) = (cache, group) else {
        let why = format!("group {name:?} is not open, or no cache is declared");
        return Err(place()(&Told::new(Reason::Away, why).and(advice_for(controller, wanted).await)));
    };
    let opened = open_or_create(controller, (&pool, declared), group, wanted).await;
    let (journal, replay) = opened.map_err(|cause| place()(&cause))?;
    note_epoch(&pool, &journal).await.map_err(|cause| place()(&cause))?;
    let partitions = controller.state().partitions.clone();
    let declared_as = |volume: &Volume| index.volume(volume.name()).filter(|v| v.pool == declared.name);
    let spec = |volume: &Volume| spec_of(declared_as(volume), &partitions, volume);
    let units = take_over(spec, &declared.name, (&pool, &cache, &journal), replay, done).await;
    let mut state = controller.state.borrow_mut();
    state.units.extend(units.map_err(|e| place()(&e))?);
    state.journals.insert(declared.name.clone(), journal);
    Ok(())
}

async fn advice_for(controller: &Controller, wanted: Option<Wanted>) -> Told {
    match wanted {
        Some(wanted) => advice(controller, wanted).await,
        None => Told::from(&""),
    }
}

/// Whether the declaration gives up the journal with the acknowledged writes of a pool, and no group has it.
async fn is_given_up(controller: &Controller, declared: &PoolConfig, wanted: Wanted) -> bool {
    declared.give_up_journal == Some(wanted.id) && group_with(controller, wanted).await.is_none()
}

/// Refuses a pool without a declared journal whose volumes name one, unless that one is given up.
async fn refuse_without(
    controller: &Controller,
    (pool, declared): (&Pool, &PoolConfig),
    wanted: Option<Wanted>,
) -> Result<(), Told> {
    let Some(wanted) = wanted else { return Ok(()) };
    if is_given_up(controller, declared, wanted).await {
        return give_up(controller, pool, wanted.id).await;
    }
    let text = "the pool was not shut down cleanly, and its acknowledged writes are in a journal that is not declared";
    Err(Told::from(&text).and(advice(controller, wanted).await))
}

/// Forgets a journal that is lost, and the acknowledged writes that only it has.
async fn give_up(controller: &Controller, pool: &Pool, lost: JournalId) -> Result<(), Told> {
    for volume in pool.volumes() {
        if journal_of(&volume) == Some(lost) {
            note_journal(&volume, None).await.map_err(|e| Told::from(&e))?;
        }
    }
    controller.events.alarm(format!(
        "pool {}: served without journal {lost}, which was given up: acknowledged writes may be lost",
        pool.name()
    ));
    Ok(())
}

/// The journal in this group, with what is to be replayed: `wanted`, which the volumes name; or where they
/// name none, or give up the one that they name, an empty one.
async fn open_or_create(
    controller: &Controller,
    (pool, declared): (&Pool, &PoolConfig),
    group: Group,
    mut wanted: Option<Wanted>,
) -> Result<(PoolJournal, Option<cache::Replay<Group>>), Told> {
    let noted = wanted.map_or(0, |wanted| wanted.epoch);
    let opened = match Journal::open_since(controller.world.clone(), group.clone(), noted).await {
        Ok((journal, replay)) => Some((journal, replay)),
        Err(JournalError::None) => None,
        Err(e) => {
            let advice = advice_for(controller, wanted.filter(|_| e.is_damage())).await;
            return Err(Told::from(&e).and(advice));
        }
    };
    let found = opened.as_ref().map(|(journal, _)| id_of(journal));
    if let Err(cause) = check_identity(pool, wanted.map(|w| w.id), found) {
        let Some(lost) = wanted.take() else { return Err(cause) };
        if !is_given_up(controller, declared, lost).await {
            return Err(cause.and(advice(controller, lost).await));
        }
        check_identity(pool, None, found)?;
        give_up(controller, pool, lost.id).await?;
    }
    // If no volume refers to the journal, all its records were destaged when the volumes were detached, and
    // later writes may have bypassed it. masu does not replay them and formats it again. One that was closed
    // has none: it is used as it is, because formatting takes a second per GB, for which hosts wait.
    let is_usable = |replay: &cache::Replay<Group>| wanted.is_some() || replay.is_empty();
    if let Some((journal, replay)) = opened.filter(|(_, replay)| is_usable(replay)) {
        return Ok((journal, Some(replay)));
    }
    if found.is_none() {
        refuse_pool(&group).await?;
    }
    let mut id = pool.id().0;
    controller.world.random("journal").fill(&mut id[POOL_PART..]);
    let made = Journal::create(controller.world.clone(), group, id).await;
    Ok((made.map_err(|e| Told::from(&e))?, None))
}

/// Attaches all volumes of a pool to the cache, with the journal's records of each. Undeclared volumes are
/// attached too, because acknowledged writes may belong to them.
async fn take_over(
    spec: impl Fn(&Volume) -> UnitSpec,
    name: &str,
    (pool, cache, journal): (&Pool, &VolumeCache, &PoolJournal),
    replay: Option<cache::Replay<Group>>,
    done: &mut Vec<String>,
) -> Result<Vec<(VolumeKey, CachedVolume)>, BlockError> {
    let mut units = Vec::new();
    for volume in pool.volumes() {
        note_journal(&volume, Some(id_of(journal))).await?;
        let spec = spec(&volume);
        units.push((key_of(&volume), cache.attach(volume, spec, Some(journal.clone()))));
    }
    if let Some(replay) = replay {
        let own: Vec<CachedVolume> = units.iter().map(|(_, unit)| unit.clone()).collect();
        let replayed = cache.replay(replay, &own).await?;
        if replayed.records > 0 {
            let (records, bytes) = (replayed.records, replayed.bytes);
            done.push(format!("pool {name}: {records} writes of {bytes} bytes replayed from the journal"));
        }
    }
    Ok(units)
}

/// Refuses a wrong journal: without its own journal the pool would lose acknowledged writes, with another one
/// it would replay the writes of another pool.
fn check_identity(pool: &Pool, wanted: Option<JournalId>, found: Option<JournalId>) -> Result<(), Told> {
    match (wanted, found) {
        (Some(wanted), found) if found != Some(wanted) => {
            Err(Told::from(&"not the journal that holds the acknowledged writes of the pool"))
        }
        (_, Some(found)) if found.0[..POOL_PART] != pool.id().0[..POOL_PART] => {
            Err(Told::from(&"belongs to another pool"))
        }
        _ => Ok(()),
    }
}

/// The volume behind the cache, if the controller has a cache.
pub(crate) async fn cached(
    controller: &Controller,
    declared: Option<&VolumeConfig>,
    volume: &Volume,
    done: &mut Vec<String>,
) -> Result<Option<CachedVolume>, BlockError> {
    let (cache, known, journal, partitions) = {
        let state = controller.state();
        let journal = state.journals.get(volume.pool().name()).cloned();
        (state.cache.clone(), state.units.get(&key_of(volume)).cloned(), journal, state.partitions.clone())
    };
    let spec = spec_of(declared, &partitions, volume);
    if let Some(unit) = known {
        let name = volume.name();
        if unit.policy() != spec.policy {
            done.push(format!("volume {name}: cache {}", terms::cache_policy(spec.policy)));
            unit.set_policy(spec.policy);
        }
        if unit.partition() != spec.partition {
            done.push(format!("volume {name}: cache partition {}", partitions.name_of(spec.partition)));
            unit.set_partition(spec.partition);
        }
        return Ok(Some(unit));
    }
    let Some(cache) = cache else { return Ok(None) };
    note_journal(volume, journal.as_ref().map(id_of)).await?;
    let unit = cache.attach(volume.clone(), spec, journal);
    controller.state.borrow_mut().units.insert(key_of(volume), unit.clone());
    Ok(Some(unit))
}

/// Destages the volumes that `ends` selects and detaches them from the cache, several at once: they share
/// the flushes of their drives and the commits of their pool.
pub(crate) async fn let_go(
    controller: &Controller,
    ends: impl Fn(&VolumeKey) -> bool,
) -> Result<(), ControlError> {
    let keys: Vec<VolumeKey> = controller.state().units.keys().filter(|key| ends(key)).cloned().collect();
    for part in keys.chunks(AT_ONCE) {
        try_join_all(part.iter().map(|key| let_go_one(controller, key))).await?;
    }
    Ok(())
}

/// Detaches a volume from the cache that is deleted next: its dirty data are not destaged.
pub(crate) async fn discard(controller: &Controller, key: &VolumeKey) -> Result<(), ControlError> {
    if !controller.state().units.contains_key(key) {
        return Ok(());
    }
    let_go_with(controller, key, async |cache, unit| cache.discard(unit).await).await
}

async fn let_go_one(controller: &Controller, key: &VolumeKey) -> Result<(), ControlError> {
    let_go_with(controller, key, async |cache, unit| cache.detach(unit).await).await
}

async fn let_go_with(
    controller: &Controller,
    key: &VolumeKey,
    detach: impl AsyncFnOnce(&VolumeCache, &CachedVolume) -> Result<(), BlockError>,
) -> Result<(), ControlError> {
    let place = || ControlError::at(format!("volume {:?}: cache", key.1));
    let (unit, cache) = {
        let state = controller.state();
        (state.units[key].clone(), state.cache.clone())
    };
    let cache = cache.expect("a unit is under a cache");
    detach(&cache, &unit).await.map_err(|e| place()(&e))?;
    note_journal(unit.store(), None).await.map_err(|e| place()(&e))?;
    controller.state.borrow_mut().units.remove(key);
    Ok(())
}

/// Closes the journals of the pools that `ends` selects. Their volumes are detached already.
pub(crate) async fn close_journals(
    controller: &Controller,
    ends: impl Fn(&str) -> bool,
) -> Result<(), ControlError> {
    let names: Vec<String> = controller.state().journals.keys().filter(|name| ends(name)).cloned().collect();
    for name in names {
        let place = ControlError::at(format!("pool {name:?}: journal"));
        let journal = controller.state.borrow_mut().journals.remove(&name).expect("it is there");
        // Everything is destaged: the volumes that wrote the journal are detached.
        journal.retire(journal.next_sequence() - 1);
        journal.close().await.map_err(|e| place(&e))?;
    }
    Ok(())
}
