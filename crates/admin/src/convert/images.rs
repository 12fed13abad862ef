//! The images of the status.

use array::status::ImageStatus;

use super::counters;
use status::Image;

pub(super) fn image(i: ImageStatus, controller: usize) -> Image {
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
        mapped_to: i.mapped_to,
        error,
        trouble: served.and_then(|s| s.trouble.clone()),
        format: served.map(|s| s.format.to_owned()).unwrap_or_default(),
        parents: served.map(|s| s.parents.clone()).unwrap_or_default(),
        size_bytes: served.map_or(0, |s| s.len_bytes),
        file_bytes: served.map_or(0, |s| s.file_len_bytes),
        block_bytes: served.map_or(0, |s| s.block_bytes),
        naa: served.map(|s| s.naa.clone()).unwrap_or_default(),
        qos: served.map(|s| s.qos.clone()).unwrap_or_default(),
        counters: served.map(|s| counters(&s.counters)).unwrap_or_default(),
    }
}
