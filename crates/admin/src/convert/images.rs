//! The images of the status.

use array::status::ImageStatus;

use super::counters;
use status::Image;

pub(super) fn image(i: ImageStatus, controller: usize) -> Image {
    let (served, unopened) = match i.state {
        Ok(served) => (Some(served), None),
        Err(unopened) => (None, Some(unopened)),
    };
    let served = served.as_ref();
    Image {
        name: i.name,
        file: i.file,
        controller,
        read_only: i.read_only,
        mapped_to: i.mapped_to,
        trouble: served.and_then(|s| s.trouble.as_ref()).map(|(_, text)| text.clone()),
        fault: match &unopened {
            Some(unopened) => Some(unopened.fault),
            None => served.and_then(|s| s.trouble.as_ref()).map(|(fault, _)| *fault),
        },
        error: unopened.map(|unopened| unopened.cause),
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
