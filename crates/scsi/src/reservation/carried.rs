//! The reservations of a logical unit on their way to another process of the array.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::it_nexus::ItNexus;
use super::state::{Held, REGISTRANTS_MAX, State};
use super::transport_id::ISCSI_NAME_LEN_MAX;
use crate::nexus::InitiatorPort;

/// All of a [`State`].
#[derive(Serialize, Deserialize)]
pub(super) struct Carried {
    registrants: Vec<(ItNexus, u64)>,
    /// A process of a version that knows none carries none.
    #[serde(default)]
    everywhere: Vec<(Arc<InitiatorPort>, u64)>,
    held: Option<Held>,
    generation: u32,
    survives_power_loss: bool,
    legacy: Option<ItNexus>,
}

impl From<State> for Carried {
    fn from(state: State) -> Carried {
        let State { registrants, everywhere, held, generation, survives_power_loss, legacy } = state;
        let registrants = registrants.into_iter().collect();
        let everywhere = everywhere.into_iter().collect();
        Carried { registrants, everywhere, held, generation, survives_power_loss, legacy }
    }
}

impl TryFrom<Carried> for State {
    type Error = &'static str;

    fn try_from(carried: Carried) -> Result<State, &'static str> {
        let Carried { registrants, everywhere, held, generation, survives_power_loss, legacy } = carried;
        if registrants.len() + everywhere.len() > REGISTRANTS_MAX {
            return Err("too many registrations");
        }
        let holders = held.iter().map(|held| &held.by).chain(&legacy);
        let all = registrants.iter().map(|(nexus, _)| nexus).chain(holders).map(|nexus| &nexus.initiator);
        let mut all = all.chain(everywhere.iter().map(|(initiator, _)| initiator));
        if all.any(|initiator| initiator.name.len() > ISCSI_NAME_LEN_MAX) {
            return Err("the iSCSI name of a registration is too long");
        }
        let registrants = registrants.into_iter().collect();
        let everywhere = everywhere.into_iter().collect();
        Ok(State { registrants, everywhere, held, generation, survives_power_loss, legacy })
    }
}
