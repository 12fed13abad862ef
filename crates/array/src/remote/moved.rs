//! Pools on their way from one controller to another.

use pool::Closed;
use qos::Found;
use scsi::VolatileState;
use serde::{Deserialize, Serialize};

use super::error::RemoteError;
use super::lists::lists;
use super::parts::Depth;
use crate::control::{Arrival, MovedLu, PoolFound, Released};

#[derive(Serialize, Deserialize)]
#[serde(remote = "MovedLu")]
pub(super) struct Lu {
    volume: String,
    state: VolatileState,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "Arrival")]
pub(super) struct Pool {
    pool: String,
    #[serde(with = "lus")]
    lus: Vec<MovedLu>,
    #[serde(with = "all_closed")]
    closed: Vec<(String, Closed)>,
    #[serde(with = "learnt")]
    found: Vec<PoolFound>,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "PoolFound")]
pub(super) struct Learnt {
    pool: String,
    #[serde(with = "Depth")]
    found: Found,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "Closed")]
struct Checkpoint {
    generation: u64,
    sequence: u64,
}

/// A [`Released`].
#[derive(Serialize, Deserialize)]
#[serde(remote = "Released")]
pub(super) struct Leaving {
    #[serde(with = "lus")]
    lus: Vec<MovedLu>,
    #[serde(with = "Checkpoint")]
    closed: Closed,
    #[serde(with = "found")]
    found: Option<Found>,
}

/// The checkpoint of each pool.
mod all_closed {
    use serde::{Deserializer, Serializer};

    use super::*;

    #[derive(Serialize, Deserialize)]
    struct One(String, #[serde(with = "Checkpoint")] Closed);

    pub(super) fn serialize<S: Serializer>(
        all: &[(String, Closed)],
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(all.iter().map(|(pool, closed)| One(pool.clone(), *closed)))
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Vec<(String, Closed)>, D::Error> {
        let all = Vec::<One>::deserialize(deserializer)?;
        Ok(all.into_iter().map(|One(pool, closed)| (pool, closed)).collect())
    }
}

lists! {
    lus: Vec<MovedLu> as "Lu";
    pools: Option<Arrival> as "Pool";
    learnt: Vec<PoolFound> as "Learnt";
    found: Option<Found> as "Depth";
}

/// A pool that arrives, if one does.
#[derive(Serialize, Deserialize)]
pub(super) struct Arriving(#[serde(with = "pools")] pub(super) Option<Arrival>);

/// What has the numbers of events in it, which are others in each process.
pub(super) fn renumber(lus: &mut [MovedLu], number: impl Fn(u64) -> u64) {
    lus.iter_mut().for_each(|lu| lu.state.renumber(&number));
}

/// Whether what came from the other side is as a controller makes it.
pub(super) fn check(lus: &[MovedLu]) -> Result<(), RemoteError> {
    match lus.iter().find(|lu| !lu.state.is_within_limits()) {
        Some(lu) => Err(RemoteError::malformed(format!("the state of volume {:?} is too long", lu.volume))),
        None => Ok(()),
    }
}
