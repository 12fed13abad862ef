//! Portals, and hosts with what each sees.

use std::collections::BTreeMap;
use std::fmt;
use std::net::SocketAddr;

use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::names::normalised;

/// RFC 3720's recommendation for CHAP secrets is 12 bytes or more (RFC 7143 9.2.1 keeps it); longer than 255
/// no peer takes.
pub const SECRET_LEN: std::ops::RangeInclusive<usize> = 12..=255;
/// Hosts address LUs single-level (SAM-5 4.7.3): peripheral device addressing below 256, flat space
/// addressing above.
pub const LUN_MAX: u16 = (1 << 14) - 1;

/// A listening address; it belongs to one controller and is a portal group of its own (tag = controller + 1).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PortalConfig {
    /// Where to listen.
    pub listen: SocketAddr,
    /// Which controller serves it.
    #[serde(default)]
    pub controller: usize,
    /// The largest TCP segment in bytes for its connections, when packets are to count as on Ethernet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub segment_bytes_max: Option<u16>,
}

/// A host and what it sees.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HostConfig {
    /// Its name in the array.
    pub name: String,
    /// Its iSCSI name; `*` for any initiator that no other host names.
    #[serde(deserialize_with = "initiator")]
    pub initiator: String,
    /// What it must prove.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub chap: Option<ChapConfig>,
    /// What the target proves to it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mutual_chap: Option<ChapConfig>,
    /// Which volume or image it sees under which LUN.
    #[serde(default, with = "luns")]
    pub luns: BTreeMap<u16, String>,
}

impl HostConfig {
    /// A host that need not prove who it is.
    pub fn new(name: String, initiator: String, luns: BTreeMap<u16, String>) -> HostConfig {
        HostConfig { name, initiator, chap: None, mutual_chap: None, luns }
    }
}

fn initiator<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    String::deserialize(deserializer).map(|name| normalised(&name))
}

/// LUNs as the keys of a table, which are texts.
mod luns {
    use super::*;

    pub(super) fn serialize<S: Serializer>(
        luns: &BTreeMap<u16, String>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        serializer.collect_map(luns.iter().map(|(lun, volume)| (lun.to_string(), volume)))
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<BTreeMap<u16, String>, D::Error> {
        let luns = BTreeMap::<String, String>::deserialize(deserializer)?;
        let no_lun = |number| format!("luns: invalid LUN {number:?}: must be a number from 0 to {LUN_MAX}");
        let numbered = luns.into_iter().map(|(number, volume)| match number.parse() {
            Ok(lun) => Ok((lun, volume)),
            Err(_) => Err(D::Error::custom(no_lun(number))),
        });
        numbered.collect()
    }
}

/// A CHAP name and secret.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ChapConfig {
    /// The user name that the peer presents.
    pub name: String,
    /// 12 to 255 bytes; RFC 7143 (12.1.3) asks for 96 random bits or more.
    pub secret: String,
}

impl fmt::Debug for ChapConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ChapConfig({}, secret not shown)", self.name)
    }
}
