//! The nodes of an array of several, as the one that serves sees them.

use std::net::SocketAddr;
use std::sync::Arc;

use iscsi::RelayKey;
use raid::Ownership;
use scsi::Persistence;

use crate::config::{Config, PortalConfig};
use crate::withheld::Withheld;

/// The nodes.
#[derive(Clone, Debug)]
pub struct Nodes {
    /// Portal group tag of this node's first portal, from 1. The others follow in the order of the
    /// declaration: the tag is the relative target port identifier, too, and 0 is reserved there.
    pub first_group: u16,
    /// The portals of this node, if they are not those of the declaration: with the controllers that open
    /// them.
    pub portals: Option<Vec<PortalConfig>>,
    /// What comes before a connection of a host that another node carries to this one: one of these. None:
    /// no node may.
    pub relay_keys: Vec<RelayKey>,
    /// The portals of the other nodes: hosts reach the same target there.
    pub others: Vec<OtherPortal>,
    /// This node's ownership of the array: groups that a later owner had open are refused. None: one node
    /// alone.
    pub ownership: Option<Ownership>,
    /// Hears of such a group the epoch to which the registry's must be raised. None: nobody wants to know.
    pub refused: Option<async_channel::Sender<u64>>,
    /// The controller that looks after the spares, in this process. None: it runs controllers for the owner
    /// of the array, which opens no spare that the owner has not given to one of their groups: its drives are
    /// fenced by what is declared.
    pub keeps_spares: Option<usize>,
    /// What is not opened until nobody else can write to it.
    pub withheld: Arc<Withheld>,
}

/// A portal of another node.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "self-explanatory names")]
pub struct OtherPortal {
    pub listen: SocketAddr,
    pub portal_group: u16,
    /// Whether its node is up, and carries connections to this one.
    pub is_up: bool,
    /// The controller that opens it, where its node runs one: it carries nothing. None: a standby's.
    pub controller: Option<usize>,
}

impl Default for Nodes {
    /// One node, which knows of no others.
    fn default() -> Nodes {
        Nodes {
            first_group: 1,
            portals: None,
            relay_keys: vec![],
            others: vec![],
            ownership: None,
            refused: None,
            keeps_spares: Some(0),
            withheld: Arc::default(),
        }
    }
}

impl Nodes {
    /// How long reservations last. In an array of several nodes they outlive each node: a host that has
    /// fenced another one must not lose that by a take-over that it hardly notices.
    pub(crate) fn persistence(&self) -> Persistence {
        match self.ownership {
            Some(_) => Persistence::Always,
            None => Persistence::AsAsked,
        }
    }

    /// The portals of this node.
    pub(crate) fn portals<'a>(&'a self, config: &'a Config) -> &'a [PortalConfig] {
        self.portals.as_deref().unwrap_or(&config.portals)
    }

    /// The portal group tag of the portal at this place of the declaration.
    pub(crate) fn portal_group(&self, index: usize) -> u16 {
        self.first_group.saturating_add(u16::try_from(index).unwrap_or(u16::MAX))
    }

    /// Whether a tag is that of a portal of this node, which has so many.
    pub(crate) fn is_own(&self, portal_group: u16, own_portals: usize) -> bool {
        (self.first_group..self.portal_group(own_portals)).contains(&portal_group)
    }

    /// The portals of others, without those that claim a tag of this node.
    pub(crate) fn others(&self, own_portals: usize) -> impl Iterator<Item = &OtherPortal> {
        self.others.iter().filter(move |other| !self.is_own(other.portal_group, own_portals))
    }
}
