//! The array changes its owner: whose turn it is, who takes it, and how it is left.

use registry::{Entry, Key, LeaseId, RegistryError, Version};

use super::{Agent, Fault, key};
use crate::followed::{Followed, refusal};
use crate::kept::make_room;
use crate::record::refused_by_labels;
use crate::{CHOSEN_TIME, Held, NODES, NodeRecord, OWNER, OwnerRecord, SERVES, Standing, Waits};

/// Whether it is this node's turn.
pub(super) enum Turn {
    Own,
    Waits(Waits),
    /// The owner's record was replaced since it was looked at.
    Changed,
}

impl Agent {
    /// Whether this node has a trouble, and leaves the array to one that has none. Not for longer than a
    /// chosen node is waited for: that one may not be able to take it either.
    pub(super) async fn yields(&mut self, last: Option<Version>) -> Result<bool, Fault> {
        if self.member.trouble().is_none() {
            self.free = None;
            return Ok(false);
        }
        let now = self.member.now();
        let since = match self.free {
            Some((seen, since)) if seen == last => since,
            _ => now,
        };
        self.free = Some((last, since));
        if now - since >= CHOSEN_TIME {
            return Ok(false);
        }
        let own = self.lease.map(|(lease, _)| lease.0);
        let nodes = self.registry.list(NODES).await?;
        let read = |(key, entry): &(Key, Entry)| NodeRecord::decode(key.as_str(), &entry.value).ok();
        let mut others = nodes.iter().filter_map(read).filter(|node| Some(node.lease) != own);
        Ok(others.any(|node| node.trouble.is_none()))
    }

    /// Whether this node may take the array from the last owner, whose record has this version and epoch.
    pub(super) async fn turn(&self, last: Option<Version>, found: u64) -> Result<Turn, Fault> {
        if let Some(waits) = refused_by_labels(&*self.registry, found).await? {
            return Ok(Turn::Waits(waits));
        }
        let Some(follows) = self.member.follows() else { return Ok(Turn::Own) };
        let seen = Followed::look(&*self.registry, follows.names).await?;
        let had_owner = last.is_none() && self.registry.get(&key(SERVES)).await?.is_some();
        if let Some(waits) = refusal(found, had_owner, &seen).or_else(|| follows.refusal(&seen)) {
            // What another node has put since the owner was looked at is no reason.
            let now = self.registry.get(&key(OWNER)).await?.map(|entry| entry.version);
            return Ok(if now == last { Turn::Waits(waits) } else { Turn::Changed });
        }
        if let (None, Followed::Nothing, Some(name)) = (last, seen, follows.names.first()) {
            make_room(&*self.registry, name).await?;
        }
        Ok(Turn::Own)
    }

    pub(super) async fn take(
        &mut self,
        lease: LeaseId,
        expected: Option<Version>,
        epoch: u64,
    ) -> Result<(), Fault> {
        let node = Some(self.member.name().to_owned());
        let since_ms = self.member.wall_ms();
        let record = OwnerRecord { node, lease: lease.0, epoch, since_ms, ..OwnerRecord::default() };
        match self.registry.compare_and_put(&key(OWNER), expected, &record.encode(), None).await {
            Ok(version) => {
                self.serve(Held { version, epoch });
                Ok(())
            }
            // Another node was faster: the next interval sees it.
            Err(RegistryError::Conflict { .. }) => Ok(()),
            // If it was made, the next interval sees it, too.
            Err(error) => Err(error.into()),
        }
    }

    /// Hands over what it owns, and ends its lease. Without an answer the lease ends by itself.
    pub(super) async fn leave(&mut self) {
        let is_owner = self.in_term();
        self.member.set(|state| state.standing = Standing::Left);
        let left_by = self.member.moves().then(|| self.member.name().to_owned());
        if let Some(Held { version, epoch }) = self.held.take().filter(|_| is_owner) {
            let (left_to, since_ms) = (self.to.take().filter(|_| left_by.is_some()), self.member.wall_ms());
            let record = OwnerRecord { left_by, left_to, epoch, since_ms, ..OwnerRecord::default() };
            let _ = self.registry.compare_and_put(&key(OWNER), Some(version), &record.encode(), None).await;
        }
        if let Some((lease, _)) = self.lease.take() {
            let _ = self.registry.revoke(lease).await;
        }
    }
}
