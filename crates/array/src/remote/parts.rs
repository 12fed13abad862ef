//! Parts of aggregated policies ([`qos::Part`]), and what schedulers say of them.

use qos::{Found, FoundRate, FoundShallower, Part, PartUse, Room, Slice};
use serde::{Deserialize, Serialize};

use super::lists::lists;
use crate::control::{PlaceDemand, PlaceParts};
use crate::place::Place;

/// A [`PlaceParts`].
#[derive(Serialize, Deserialize)]
pub(super) struct Parted {
    #[serde(with = "At")]
    place: Place,
    parts: Vec<(String, Option<Portion>)>,
    #[serde(with = "found")]
    found: Option<Found>,
}

/// A [`PlaceDemand`].
#[derive(Serialize, Deserialize)]
pub(super) struct Demanded {
    #[serde(with = "At")]
    place: Place,
    #[serde(with = "Left")]
    room: Room,
    uses: Vec<(String, Option<Used>)>,
    #[serde(with = "found")]
    found: Option<Found>,
}

/// A [`Found`]; rate and shallower depth likewise.
#[derive(Serialize, Deserialize)]
#[serde(remote = "Found")]
pub(super) struct Depth {
    depth_max: u32,
    depth: u32,
    too_shallow: u32,
    cost_permille: u32,
    #[serde(with = "rate_of")]
    rate: Option<FoundRate>,
    #[serde(with = "shallower_of")]
    shallower: Option<FoundShallower>,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "FoundRate")]
pub(super) struct DepthRate {
    kb_per_s: u64,
    request_bytes: u64,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "FoundShallower")]
pub(super) struct Shallower {
    depth: u32,
    of: u32,
    kept_permille: u32,
}

lists! {
    found: Option<Found> as "Depth";
    rate_of: Option<FoundRate> as "DepthRate";
    shallower_of: Option<FoundShallower> as "Shallower";
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "Place")]
enum At {
    Pool(String),
    Images(usize),
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "Room")]
struct Left {
    capacity_bytes_per_s: Option<u64>,
    claimed_bytes_per_s: u64,
}

/// Pace and window.
type Rate = (u64, u64);

#[derive(Serialize, Deserialize)]
struct Portion {
    minimum_bytes_per_s: u64,
    maximum: Option<Rate>,
    bandwidth: Option<Rate>,
    is_met: bool,
}

#[derive(Serialize, Deserialize)]
struct Used {
    part: Option<Portion>,
    served_bytes_per_s: u64,
    asking: u32,
    is_hungry: bool,
    is_held: bool,
    counted_bytes: u64,
    counted_bandwidth_bytes: u64,
}

fn rate(Slice { bytes_per_s, window_bytes }: Slice) -> Rate {
    (bytes_per_s, window_bytes)
}

fn slice((bytes_per_s, window_bytes): Rate) -> Slice {
    Slice { bytes_per_s, window_bytes }
}

impl From<Part> for Portion {
    fn from(Part { minimum_bytes_per_s, maximum, bandwidth, is_met }: Part) -> Portion {
        let (maximum, bandwidth) = (maximum.map(rate), bandwidth.map(rate));
        Portion { minimum_bytes_per_s, maximum, bandwidth, is_met }
    }
}

impl From<Portion> for Part {
    fn from(Portion { minimum_bytes_per_s, maximum, bandwidth, is_met }: Portion) -> Part {
        let (maximum, bandwidth) = (maximum.map(slice), bandwidth.map(slice));
        Part { minimum_bytes_per_s, maximum, bandwidth, is_met }
    }
}

impl From<PartUse> for Used {
    fn from(used: PartUse) -> Used {
        let PartUse { part, served_bytes_per_s, asking, is_hungry, is_held, .. } = used;
        let PartUse { counted_bytes, counted_bandwidth_bytes, .. } = used;
        let part = part.map(Portion::from);
        Used { part, served_bytes_per_s, asking, is_hungry, is_held, counted_bytes, counted_bandwidth_bytes }
    }
}

impl From<Used> for PartUse {
    fn from(used: Used) -> PartUse {
        let Used { part, served_bytes_per_s, asking, is_hungry, is_held, .. } = used;
        let Used { counted_bytes, counted_bandwidth_bytes, .. } = used;
        let part = part.map(Part::from);
        PartUse {
            part,
            served_bytes_per_s,
            asking,
            is_hungry,
            is_held,
            counted_bytes,
            counted_bandwidth_bytes,
        }
    }
}

impl From<PlaceParts> for Parted {
    fn from(PlaceParts { place, parts, found }: PlaceParts) -> Parted {
        Parted {
            place,
            found,
            parts: parts.into_iter().map(|(policy, part)| (policy, part.map(Into::into))).collect(),
        }
    }
}

impl From<Parted> for PlaceParts {
    fn from(Parted { place, parts, found }: Parted) -> PlaceParts {
        PlaceParts {
            place,
            found,
            parts: parts.into_iter().map(|(policy, part)| (policy, part.map(Into::into))).collect(),
        }
    }
}

impl From<PlaceDemand> for Demanded {
    fn from(PlaceDemand { place, room, uses, found }: PlaceDemand) -> Demanded {
        let uses = uses.into_iter().map(|(policy, used)| (policy, used.map(Used::from))).collect();
        Demanded { place, room, uses, found }
    }
}

impl From<Demanded> for PlaceDemand {
    fn from(Demanded { place, room, uses, found }: Demanded) -> PlaceDemand {
        let uses = uses.into_iter().map(|(policy, used)| (policy, used.map(PartUse::from))).collect();
        PlaceDemand { place, room, uses, found }
    }
}
