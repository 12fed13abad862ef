//! Where the owner of the array is, by what the registry says of its node.

use array::RelayKey;
use cluster::{NodeRecord, Standing, State, Waits};

use super::link;
use super::relay::{self, Way};

/// The owner whose portals are known.
pub(super) fn owner_of(state: &State) -> Option<relay::Owner> {
    let Standing::Standby(Waits::Owner { epoch, .. }) = &state.standing else { return None };
    let owner = owner_at(state.owner.as_ref()?, *epoch, state.number?);
    Some(relay::Owner { leaves: state.owner_leaves, ..owner })
}

/// The owner of this record, for a relay of the node of this number.
pub(super) fn owner_at(record: &NodeRecord, epoch: u64, own_number: u16) -> relay::Owner {
    let key = record.relay_key.as_deref().and_then(relay_key_of);
    relay::Owner { epoch, way: way_to(record), leaves: false, key, own_number }
}

/// In the clear only to a node that has no certificate: its version knows no other way.
pub(super) fn way_to(record: &NodeRecord) -> Way {
    let address = record.link.as_deref().and_then(|text| text.parse().ok()).filter(relay::can_be_named);
    match (&record.certificate, address) {
        (Some(sha256), Some(address)) => Way::Tls(link::Peer { address, sha256: sha256.clone() }),
        (Some(_), None) => Way::Nowhere,
        (None, _) => {
            let portals = record.portals.iter().filter_map(|text| text.parse().ok());
            Way::Plain(portals.filter(relay::can_be_named).collect())
        }
    }
}

fn relay_key_of(text: &str) -> Option<RelayKey> {
    u128::from_str_radix(text, 16).ok().map(|key| RelayKey(key.to_be_bytes()))
}
