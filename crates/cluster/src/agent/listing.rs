//! What a node puts in the registry of itself: its record, for as long as its lease lives, and its
//! membership, which stays.

use registry::record::encode;
use registry::{LeaseId, RegistryError, Version};

use super::{Agent, Fault};
use crate::number::{keep_number, number_of};
use crate::{NUMBERS, NodeRecord};

impl Agent {
    /// Puts the node's record, once per lease.
    pub(super) async fn list_itself(&mut self, lease: LeaseId) -> Result<(), Fault> {
        // An owner goes on without it, and looks for it.
        if self.listed.is_some() || self.held.is_some() {
            return Ok(());
        }
        // First what may have to wait for other nodes: one that is listed is a member a moment later.
        let number = self.number(self.member.state().number).await?;
        let version = self.put_record(lease, None).await?;
        self.join(number).await?;
        self.listed = Some(version);
        Ok(())
    }

    /// Puts its record again when it says something else of itself.
    pub(super) async fn list_again(&mut self) -> Result<(), Fault> {
        let (Some((lease, _)), Some(version)) = (self.lease, self.listed) else { return Ok(()) };
        if self.listed_as != self.member.says() {
            self.listed = Some(self.put_record(lease, Some(version)).await?);
        }
        Ok(())
    }

    /// Its record in place of nothing, of that version, or of a value that cannot be read: one that no node
    /// can have put is nobody's.
    async fn put_record(&mut self, lease: LeaseId, expected: Option<Version>) -> Result<Version, Fault> {
        let record = self.member.record(lease.0);
        let value = record.encode();
        let put = async |expected| {
            let put = self.registry.compare_and_put(&self.own_key, expected, &value, Some(lease));
            self.member.within(put).await
        };
        let version = match put(expected).await {
            Err(RegistryError::Conflict { .. }) => {
                // Its own, of an attempt that was not answered; or another's.
                let found = self.member.within(self.registry.get(&self.own_key)).await?;
                let found = found.ok_or(Fault::NameInUse)?;
                match NodeRecord::decode(self.own_key.as_str(), &found.value) {
                    Ok(node) if node.lease != lease.0 => return Err(Fault::NameInUse),
                    Ok(node) => {
                        self.listed_as = (node.trouble, node.runs, node.waits);
                        return Ok(found.version);
                    }
                    Err(_) => put(Some(found.version)).await?,
                }
            }
            answer => answer?,
        };
        self.listed_as = (record.trouble, record.runs, record.waits);
        Ok(version)
    }

    /// Puts its record again where the registry has lost or damaged it: others would not know that this node
    /// lives.
    pub(super) async fn look_for_itself(&mut self) -> Result<(), Fault> {
        let Some((lease, _)) = self.lease else { return Ok(()) };
        let found = self.member.within(self.registry.get(&self.own_key)).await?;
        let node = found.as_ref().map(|entry| NodeRecord::decode(self.own_key.as_str(), &entry.value));
        let version = found.map(|entry| entry.version);
        self.listed = match node {
            Some(Ok(node)) if node.lease == lease.0 => return Ok(()),
            None => Some(self.put_record(lease, None).await?),
            // Whoever has put that, no node did.
            Some(Err(_)) => Some(self.put_record(lease, version).await?),
            // Another process of its name.
            Some(Ok(_)) => None,
        };
        Ok(())
    }

    /// Puts what the registry has lost or damaged of what stays when the node is down: hosts would not find
    /// its portals any more, and another node would get its number.
    pub(super) async fn look_for_membership(&mut self) -> Result<(), Fault> {
        if self.held.is_none() {
            self.look_for_itself().await?;
        }
        // While another process of its name is listed, that one looks for it.
        let (Some(_), Some(number)) = (self.listed, self.member.state().number) else { return Ok(()) };
        let kept = keep_number(&*self.registry, self.member.name(), number);
        let number = match self.member.within(kept).await? {
            None => number,
            // Its target ports stay what they are as long as it serves.
            Some(other) if self.held.is_some() => {
                let name = self.member.name();
                let text = format!(
                    "restart {name}: node {other} has its number, too, by the record {NUMBERS}{number}"
                );
                self.member.set(|state| state.passes_over(text));
                number
            }
            Some(_) => self.number(None).await?,
        };
        Ok(self.member.within(self.join(number)).await?)
    }

    async fn number(&self, remembered: Option<u16>) -> Result<u16, Fault> {
        let number = number_of(&*self.registry, self.member.name(), remembered).await?;
        number.ok_or(Fault::TooManyNodes)
    }

    /// Puts what stays of the node when it is down.
    async fn join(&self, number: u16) -> Result<(), RegistryError> {
        let found = self.registry.get(&self.member_key).await?;
        self.member.set(|state| state.number = Some(number));
        let record = encode(&self.member.member_record(number));
        if found.as_ref().is_some_and(|entry| entry.value == record) {
            return Ok(());
        }
        let expected = found.map(|entry| entry.version);
        self.registry.compare_and_put(&self.member_key, expected, &record, None).await?;
        Ok(())
    }
}
