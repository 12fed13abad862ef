//! How much is zeroed and copied in a run of the model, and by how much its measures are multiplied.

use crate::bed::DATASTORE_BYTES;
use crate::bulk::ALIGN;
use crate::scenario::Vaai;

/// Bytes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Sizes {
    /// Of the published sizes.
    pub(crate) share: f64,
    /// The eager-zeroed disk.
    pub(crate) zeroed: u64,
    /// The template as its VM sees it, and what of it is there.
    pub(crate) template: u64,
    /// See above.
    pub(crate) used: u64,
    /// The LUs of both pools.
    pub(crate) lus: [u64; 2],
}

impl Sizes {
    /// All of it, or the quick form's share.
    pub(crate) fn of(vaai: &Vaai, quick: bool) -> Sizes {
        let (published, share) = (&vaai.published, if quick { vaai.model.quick_share } else { 1.0 });
        let of = |bytes: u64| ((bytes as f64 * share) as u64 / ALIGN * ALIGN).max(ALIGN);
        let (zeroed, template) = (of(published.zeroed_disk.0), of(published.template.0));
        let used = of(published.template.0 / 100 * published.template_used_percent);
        // Each VM has an extent, and one for each shared lock operation.
        let vms = (published.hosts * published.vms_per_host) as u64;
        let of_vms = vms * (1 + vaai.power_on.shared_locks as u64) * ALIGN;
        // Extents are dealt out by clusters: room for a quarter more.
        let lu = |bytes: u64| (DATASTORE_BYTES + bytes + bytes / 4) / ALIGN * ALIGN;
        Sizes { share, zeroed, template, used, lus: [lu(zeroed + 2 * template + of_vms), lu(template)] }
    }
}
