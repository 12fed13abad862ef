//! Portals, and hosts with what each sees.

use std::collections::BTreeMap;
use std::fmt;
use std::net::SocketAddr;

use schemars::JsonSchema;
use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::names::normalised;
use crate::schema;

/// RFC 3720's recommendation for CHAP secrets is 12 bytes or more (RFC 7143 9.2.1 keeps it); longer than 255
/// no peer takes.
pub const SECRET_LEN: std::ops::RangeInclusive<usize> = 12..=255;
/// Hosts address LUs single-level (SAM-5 4.7.3): peripheral device addressing below 256, flat space
/// addressing above.
pub const LUN_MAX: u16 = (1 << 14) - 1;

/// A listening address of the iSCSI target. Without any, the array listens at the address of `serve
/// --listen`, at the previous one, or at 127.0.0.1:3260. The portal group tags are 1, 2, 3 and so on;
/// those of a further node of the array begin at 65, 129 and so on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PortalConfig {
    /// Address and port, as in `192.0.2.1:3260` or `[2001:db8::1]:3260`; `0.0.0.0:3260` is every address.
    #[schemars(with = "String")]
    pub listen: SocketAddr,
    /// The controller that serves it.
    #[serde(default)]
    pub controller: usize,
    /// Largest TCP segment of its connections; for measurements over the loopback interface.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-unit" = "bytes"))]
    pub segment_bytes_max: Option<u16>,
}

/// Whether one process cannot listen at both: at the same port of one address, or of all. Port 0 is any free
/// one.
pub fn one_socket(one: SocketAddr, other: SocketAddr) -> bool {
    let all = one.is_ipv4() == other.is_ipv4() && (one.ip().is_unspecified() || other.ip().is_unspecified());
    one.port() != 0 && one.port() == other.port() && (all || one.ip() == other.ip())
}

/// A host: its initiator, its CHAP secrets, and the LUs that it sees. It sees no others.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct HostConfig {
    /// Unique among hosts.
    #[schemars(with = "schema::Name")]
    pub name: String,
    /// Its iSCSI name; `*` matches every initiator without a host of its own.
    #[serde(deserialize_with = "initiator")]
    pub initiator: String,
    /// CHAP: name and secret with which the host authenticates.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub chap: Option<ChapConfig>,
    /// Mutual CHAP: name and secret with which the target authenticates to the host. Requires `chap`, and
    /// another secret.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mutual_chap: Option<ChapConfig>,
    /// The volume or image under each LUN, as in `{ 0 = "v0", 1 = "v1" }`. LUNs are 0 to 16383.
    #[serde(default, with = "luns")]
    #[schemars(with = "BTreeMap<String, schema::Name>")]
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
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ChapConfig {
    /// The name that is presented.
    pub name: String,
    /// The secret. RFC 7143 (12.1.3) asks for 96 random bits or more.
    #[schemars(length(min = *SECRET_LEN.start(), max = *SECRET_LEN.end()))]
    pub secret: String,
}

impl fmt::Debug for ChapConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ChapConfig({}, secret not shown)", self.name)
    }
}
