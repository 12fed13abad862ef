//! How portals and hosts are declared.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use array::Lun;
use array::config::{ChapConfig, ConfigError, HostConfig, LUN_MAX, PortalConfig, normalised_name};
use serde::{Deserialize, Serialize};

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Portal {
    listen: SocketAddr,
    #[serde(default)]
    controller: usize,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    segment_bytes_max: Option<u16>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Host {
    name: String,
    initiator: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    chap: Option<Chap>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    mutual_chap: Option<Chap>,
    #[serde(default)]
    luns: BTreeMap<String, String>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Chap {
    name: String,
    secret: String,
}

impl Portal {
    pub(super) fn to_config(&self) -> PortalConfig {
        PortalConfig {
            listen: self.listen,
            controller: self.controller,
            segment_bytes_max: self.segment_bytes_max,
        }
    }

    pub(super) fn of(p: &PortalConfig) -> Portal {
        Portal { listen: p.listen, controller: p.controller, segment_bytes_max: p.segment_bytes_max }
    }
}

impl Host {
    pub(super) fn to_config(&self) -> Result<HostConfig, ConfigError> {
        let chap = |c: &Chap| ChapConfig { name: c.name.clone(), secret: c.secret.clone() };
        let mut luns = BTreeMap::new();
        for (number, volume) in &self.luns {
            let lun = number.parse::<u16>().map_err(|_| ConfigError {
                place: format!("host {:?}: luns", self.name),
                cause: format!("{number:?} is no LUN: a number from 0 to {LUN_MAX}"),
            })?;
            luns.insert(Lun(lun), volume.clone());
        }
        Ok(HostConfig {
            name: self.name.clone(),
            initiator: normalised_name(&self.initiator),
            chap: self.chap.as_ref().map(chap),
            mutual_chap: self.mutual_chap.as_ref().map(chap),
            luns,
        })
    }

    pub(super) fn of(h: &HostConfig) -> Host {
        let chap = |c: &ChapConfig| Chap { name: c.name.clone(), secret: c.secret.clone() };
        Host {
            name: h.name.clone(),
            initiator: h.initiator.clone(),
            chap: h.chap.as_ref().map(chap),
            mutual_chap: h.mutual_chap.as_ref().map(chap),
            luns: h.luns.iter().map(|(lun, volume)| (lun.0.to_string(), volume.clone())).collect(),
        }
    }
}
