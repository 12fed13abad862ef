//! The images of the status.

use array::status::ImageStatus;

use super::{mappings, policies};
use crate::api::{Image, VolumeCounters};

impl Image {
    pub(super) fn of(i: ImageStatus, controller: usize) -> Image {
        let (served, error) = match i.state {
            Ok(served) => (Some(served), None),
            Err(error) => (None, Some(error)),
        };
        let served = served.as_ref();
        Image {
            name: i.name,
            file: i.file,
            controller,
            read_only: i.read_only,
            mapped_to: mappings(i.mapped_to),
            error,
            trouble: served.and_then(|s| s.trouble.clone()),
            format: served.map(|s| s.format.to_owned()).unwrap_or_default(),
            parents: served.map(|s| s.parents.clone()).unwrap_or_default(),
            size_bytes: served.map_or(0, |s| s.len_bytes),
            file_bytes: served.map_or(0, |s| s.file_len_bytes),
            block_bytes: served.map_or(0, |s| s.block_bytes),
            naa: served.map(|s| s.naa.clone()).unwrap_or_default(),
            qos: served.map(|s| policies::standing(&s.qos)).unwrap_or_default(),
            counters: served.map(|s| VolumeCounters::of(&s.counters)).unwrap_or_default(),
        }
    }
}
