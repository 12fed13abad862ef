//! What a node reads: who owns the array; as the owner, who else is there and what it is asked to do.

use std::time::Duration;

use registry::record::decode;
use registry::{Entry, RecordError, Version};

use super::{Agent, Fault, LOOKS_PER_LIST, key};
use crate::{
    ASK, AskRecord, CHOSEN_TIME, Held, Look, Lost, MEMBERS, MOVE_TIME, MemberRecord, NODES, NodeRecord,
    OWNER, Other, OwnerRecord,
};

impl Agent {
    pub(super) async fn look(&mut self) -> Result<Look, Fault> {
        let owner_key = key(OWNER);
        let found = self.member.within(self.registry.get(&owner_key)).await?;
        let Some(entry) = found else { return Ok(Look::default()) };
        let owner = match (OwnerRecord::decode(OWNER, &entry.value), self.held) {
            // Whoever has replaced its record, it is the owner no more.
            (Err(_), Some(held)) if held.version != entry.version => {
                return Err(Fault::Lost(Lost::Replaced { by: None }));
            }
            // Nobody has replaced it: its value was damaged where it is.
            (Err(error), Some(held)) => return self.put_again(held, error).await,
            (owner, _) => owner?,
        };
        let own = self.lease.map(|(lease, _)| lease.0);
        let since = Duration::from_millis(self.member.wall_ms().saturating_sub(owner.since_ms));
        let was_own = owner.left_by.as_deref() == Some(self.member.name()) && since < MOVE_TIME;
        let awaited = self.awaited(entry.version, &owner).map(str::to_owned);
        let mut look = Look { owner_lives: own == Some(owner.lease), ..Look::default() };
        // An owner whose record was replaced asks nobody who lives: it stops.
        if self.held.is_none() && !look.owner_lives && (owner.node.is_some() || was_own || awaited.is_some())
        {
            let mut knows_itself = false;
            for (key, entry) in self.registry.list(NODES).await? {
                let node = self.readable(NodeRecord::decode(key.as_str(), &entry.value));
                let is_itself = node.as_ref().is_some_and(|node| Some(node.lease) == own);
                knows_itself |= is_itself;
                look.moved_away |= was_own && !is_itself;
                if awaited.as_deref().is_some_and(|name| key.as_str().strip_prefix(NODES) == Some(name)) {
                    look.left_to.clone_from(&awaited);
                }
                look.owner_node = node.filter(|node| node.lease == owner.lease).or(look.owner_node);
            }
            // Whatever has become of the record of its node.
            look.owner_lives = owner.lives(&*self.registry).await?;
            if !knows_itself {
                self.look_for_itself().await?;
                return Err(Fault::Torn);
            }
        }
        Ok(Look { owner: Some((entry.version, owner)), ..look })
    }

    /// Puts this owner's record again, whose value was damaged: its version says that nobody else has put
    /// one.
    async fn put_again(&mut self, held: Held, error: RecordError) -> Result<Look, Fault> {
        let Some((lease, _)) = self.lease else { return Err(error.into()) };
        let (node, since_ms) = (Some(self.member.name().to_owned()), self.member.wall_ms());
        let owner =
            OwnerRecord { node, lease: lease.0, epoch: held.epoch, since_ms, ..OwnerRecord::default() };
        let (owner_key, value) = (key(OWNER), owner.encode());
        let put = self.registry.compare_and_put(&owner_key, Some(held.version), &value, None);
        let version = self.member.within(put).await?;
        self.held = Some(Held { version, ..held });
        self.member.set(|state| state.mended += 1);
        Ok(Look { owner: Some((version, owner)), owner_lives: true, ..Look::default() })
    }

    /// The other node that is to take over next, for a time that counts from this node's first look at
    /// that: the clocks of nodes show different times.
    fn awaited<'a>(&mut self, version: Version, owner: &'a OwnerRecord) -> Option<&'a str> {
        let name =
            owner.left_to.as_deref().filter(|name| owner.node.is_none() && *name != self.member.name());
        let now = self.member.now();
        let since = match self.left_to {
            Some((seen, since)) if seen == version => since,
            _ => now,
        };
        self.left_to = name.map(|_| (version, since));
        name.filter(|_| now - since < CHOSEN_TIME)
    }

    /// What another node has written, if it can be read. If not, that is said once, and the node goes on.
    fn readable<T>(&self, decoded: Result<T, RecordError>) -> Option<T> {
        decoded.map_err(|error| self.member.set(|state| state.passes_over(error.to_string()))).ok()
    }

    /// What the owner of this epoch is asked to do, and the version of that.
    pub(super) async fn asked(&self, epoch: u64) -> Result<Option<(AskRecord, Version)>, Fault> {
        let asked = self.member.within(self.registry.get(&key(ASK))).await?;
        let asked = asked.and_then(|Entry { version, value }| {
            Some((self.readable(decode::<AskRecord>(ASK, &value))?, version))
        });
        Ok(asked.filter(|(asked, _)| asked.epoch == epoch))
    }

    /// Does what this owner is asked to do. While it waits for what its successor would wait for, too, it
    /// takes the request away: who has asked could not know of that yet.
    async fn obey(&mut self, epoch: u64) -> Result<(), Fault> {
        let Some((asked, version)) = self.asked(epoch).await? else { return Ok(()) };
        // It leaves already: a request is obeyed once.
        if self.member.state().asked.is_none() && self.member.waits() {
            let ask = key(ASK);
            let refused = self.registry.compare_and_delete(&ask, version);
            return Ok(self.member.within(refused).await?);
        }
        self.to = asked.to;
        self.member.set(|state| state.asked = Some(asked.ask));
        Ok(())
    }

    /// What an owner has to know of the others, and what it is asked to do.
    pub(super) async fn look_around(&mut self, epoch: u64) -> Result<(), Fault> {
        self.obey(epoch).await?;
        self.looks += 1;
        if self.looks % LOOKS_PER_LIST != 1 {
            return Ok(());
        }
        self.look_for_itself().await?;
        let living = self.member.within(self.registry.list(NODES)).await?;
        let lives = |name: &str| living.iter().any(|(key, _)| key.as_str().strip_prefix(NODES) == Some(name));
        let mut others = Vec::new();
        for (key, entry) in self.member.within(self.registry.list(MEMBERS)).await? {
            let Some(name) = key.as_str().strip_prefix(MEMBERS).filter(|_| key != self.member_key) else {
                continue;
            };
            if let Some(other) = self.readable(MemberRecord::decode(key.as_str(), &entry.value)) {
                // Of a version without numbers: its portals have no tags.
                let MemberRecord { portals, certificate, number: Some(number), .. } = other else { continue };
                let (name, is_up) = (name.to_owned(), lives(name));
                others.push(Other { name, number, portals, is_up, certificate });
            }
        }
        self.member.set(|state| state.others = others);
        Ok(())
    }
}
