//! What lies on the disk against what the hosts did.

use anyhow::Result;
use lab_tools::datastore::{CLUSTERS, Cluster as Extents, File, LockRecord, Locks, Owner};

use super::super::Cluster;
use super::{DELTA, FILES, Life, MARK_BYTES, Operation, marked};
use lab_tools::datastore::{EXTENT_BYTES, LockCounts};

/// A metadata block of the datastore.
const META_BYTES: u64 = 4096;
/// Most bytes of one read.
const READ_BYTES: u64 = 1 << 20;

/// The clusters before the first VM.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Before {
    changes: u64,
    generations: u64,
    taken: u64,
}

impl Cluster {
    pub(super) async fn look_before(&self, locks: &Locks) -> Result<Before> {
        let mut before = Before::default();
        let records =
            self.read_all(locks, self.layout.lock_at(0), u64::from(CLUSTERS * self.block())).await?;
        for record in records.chunks(self.block() as usize) {
            before.generations += LockRecord::decode(record)?.generation;
        }
        let blocks =
            self.read_all(locks, self.layout.cluster_at(0), u64::from(CLUSTERS) * META_BYTES).await?;
        for block in blocks.chunks(META_BYTES as usize) {
            let cluster = Extents::decode(block, self.layout.cluster_extents())?;
            before.changes += cluster.changes;
            before.taken += cluster.taken();
        }
        Ok(before)
    }

    fn block(&self) -> u32 {
        self.layout.block_bytes
    }

    async fn read_all(&self, locks: &Locks, from: u64, len: u64) -> Result<Vec<u8>> {
        let mut out = Vec::with_capacity(len as usize);
        for (at, step) in lab_tools::hosts::steps(&[(from, len)], READ_BYTES) {
            out.extend_from_slice(&locks.read(at, step).await?.joined());
        }
        Ok(out)
    }

    /// What is wrong after an operation.
    pub(super) async fn audit_life(&self, life: &Life<'_>, operation: Operation) -> Result<Vec<String>> {
        let locks = life.sides[0].store.locks();
        let mut wrong = self.wrong_locks(life, locks).await?;
        wrong.extend(self.wrong_descriptors(life, locks).await?);
        wrong.extend(self.wrong_clusters(life, locks).await?);
        wrong.extend(given_twice(life));
        // Marks change where something was written.
        let extents = match operation {
            Operation::Create | Operation::Consolidate => 1,
            Operation::Grow | Operation::ShutDown => usize::MAX,
            Operation::Snapshot | Operation::HandOver => 0,
        };
        wrong.extend(self.wrong_marks(life, locks, extents).await?);
        Ok(wrong.into_iter().map(|what| format!("after {}: {what}", operation.name())).collect())
    }

    async fn wrong_locks(&self, life: &Life<'_>, locks: &Locks) -> Result<Vec<String>> {
        let block = u64::from(self.block());
        let from = self.layout.lock_at(Life::lock_of(0, 0));
        let all = self.read_all(locks, from, block * (life.vms.len() * FILES) as u64).await?;
        let mut wrong = Vec::new();
        for (n, found) in all.chunks(block as usize).enumerate() {
            let (vm, file) = (n / FILES, n % FILES);
            let own = life.vms[vm].borrow();
            let owner = own.held[file].map_or(Owner::Free, |_| Owner::Host(life.sides[own.side].me));
            let expected = LockRecord { owner, generation: own.changes[file] };
            let found = LockRecord::decode(found)?;
            if found != expected {
                wrong.push(format!("lock {file} of VM {vm} is {found:?} instead of {expected:?}"));
            }
        }
        Ok(wrong)
    }

    async fn wrong_descriptors(&self, life: &Life<'_>, locks: &Locks) -> Result<Vec<String>> {
        let vms = life.vms.len();
        let from = self.layout.file_at(Life::slot_of_disk(0));
        let all = self.read_all(locks, from, META_BYTES * 2 * vms as u64).await?;
        let mut wrong = Vec::new();
        for (n, block) in all.chunks(META_BYTES as usize).enumerate() {
            let vm = life.vms[n % vms].borrow();
            let expected = if n < vms { Some(&vm.disk) } else { vm.delta.as_ref() };
            let found = File::decode(block)?;
            if found.as_ref() != expected {
                wrong.push(format!("the descriptor {n} is {found:?} instead of {expected:?}"));
            }
        }
        Ok(wrong)
    }

    /// Each change of a cluster took its lock, changed it and released it; what is taken is what VMs have.
    async fn wrong_clusters(&self, life: &Life<'_>, locks: &Locks) -> Result<Vec<String>> {
        let (now, before) = (self.look_before(locks).await?, life.before);
        let LockCounts { acquired, released, .. } = life.counts();
        let own: u64 = life.vms.iter().map(|vm| vm.borrow().changes.iter().sum::<u64>()).sum();
        let mut wrong = Vec::new();
        let changes = (acquired + released - own) / 2;
        if now.changes - before.changes != changes {
            wrong.push(format!(
                "{} changes of clusters, {changes} by the hosts",
                now.changes - before.changes
            ));
        }
        if now.generations - before.generations != 2 * changes {
            let found = now.generations - before.generations;
            wrong.push(format!("{found} changes of cluster locks, {} by the hosts", 2 * changes));
        }
        let (taken, had) = (now.taken - before.taken, places(life).len() as u64);
        if taken != had {
            wrong.push(format!("{taken} extents are taken, VMs have {had}"));
        }
        Ok(wrong)
    }

    async fn wrong_marks(&self, life: &Life<'_>, locks: &Locks, extents: usize) -> Result<Vec<String>> {
        let mut wrong = Vec::new();
        for (n, vm) in life.vms.iter().enumerate() {
            let vm = vm.borrow().clone();
            for (nth, key) in vm.marks.iter().enumerate().take(extents) {
                let (at, _) = vm.disk.place(nth as u64 * EXTENT_BYTES).unwrap_or_default();
                let found = locks.read(at, MARK_BYTES).await?.joined();
                if marked(*key).differences(0, &found) > 0 {
                    wrong.push(format!("extent {nth} of VM {n} does not hold what the VM wrote"));
                }
            }
        }
        Ok(wrong)
    }
}

/// All extents that VMs have.
fn places(life: &Life<'_>) -> Vec<u64> {
    let mut out = Vec::new();
    for vm in &life.vms {
        let vm = vm.borrow();
        let files = [Some(&vm.disk), vm.delta.as_ref()];
        let ranges = files.into_iter().flatten().flat_map(|file| file.ranges.clone()).collect::<Vec<_>>();
        out.extend(lab_tools::hosts::steps(&ranges, EXTENT_BYTES).into_iter().map(|(at, _)| at));
        out.extend(&vm.swap);
    }
    out
}

fn given_twice(life: &Life<'_>) -> Option<String> {
    let mut all = places(life);
    let given = all.len();
    all.sort_unstable();
    all.dedup();
    (all.len() != given).then(|| format!("{} extents were given to two VMs", given - all.len()))
}

const _: () = assert!(DELTA < FILES);
