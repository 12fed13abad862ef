//! What is verified: an array of the laboratory's own, or someone else's LUs.

use std::path::Path;

use anyhow::{Result, bail};
use iscsi::initiator::{Options, Url};
use scsi::Lun;
use world::StreamOptions;

use super::scenario::Vaai;
use lab_core::verification::RequestError;
use lab_tools::hosts::{INITIATOR, login_of};
use lab_tools::testbed::embedded::{ArrayReading, Embedded, PoolShape, TARGET};

/// Where LUs are, and the array when it is ours.
pub(crate) struct Bed {
    login: Options,
    /// First the LU of all tests; then that of copies between pools; then the thin one.
    luns: Vec<Lun>,
    array: Option<Embedded>,
    place: String,
}

/// What a pool's drive has room for beyond data: labels, maps, journal.
const DRIVE_SLACK_BYTES: u64 = 256 << 20;

/// What a datastore takes for itself, and some.
pub(crate) const DATASTORE_BYTES: u64 = 160 << 20;

/// A LU and the drive below it.
struct Sizes {
    volume_bytes: u64,
    drive_bytes: u64,
}

/// What the first two LUs need: the first holds the zeroed disk, template, clone and VMs, the second a clone.
/// A LU has room for all that is promised on it at once; its drive only for what is written at once, and a
/// quarter more for pages that were given back a moment ago. So the pool uses the same pages, and the same
/// memory, again and again.
fn sizes(vaai: &Vaai) -> [Sizes; 2] {
    let zeroed = vaai.scaled(vaai.published.zeroed_disk, 1 << 20);
    let template = vaai.scaled(vaai.published.template, 1 << 20);
    let vms = (vaai.published.hosts * vaai.published.vms_per_host) as u64;
    // Each VM one extent that is written, and one for each shared lock operation that is not.
    let (written, promised) = (vms << 20, (vms * (1 + vaai.power_on.shared_locks as u64)) << 20);
    let sizes = |promised: u64, written: u64| Sizes {
        volume_bytes: DATASTORE_BYTES + promised + promised / 4,
        drive_bytes: DATASTORE_BYTES + written + written / 4 + DRIVE_SLACK_BYTES,
    };
    [
        sizes(zeroed + 2 * template + promised, template + zeroed.max(template) + written),
        sizes(template, template),
    ]
}

impl Bed {
    /// Starts an array with three pools.
    pub(crate) fn embedded(vaai: &Vaai, seed: u64, dir: &Path) -> Result<Bed> {
        // A threshold that is not met: the warning belongs to the thin test.
        let pool = |name, sizes: &Sizes| PoolShape {
            name,
            drive_bytes: sizes.drive_bytes,
            volume_bytes: sizes.volume_bytes,
            threshold_percent: 99,
        };
        let [first, second] = sizes(vaai);
        let thin = PoolShape {
            name: "thin",
            drive_bytes: vaai.thin.pool.0,
            volume_bytes: vaai.thin.promised.0,
            threshold_percent: vaai.thin.threshold_percent,
        };
        let array =
            Embedded::start(&vaai.array, &[pool("first", &first), pool("second", &second), thin], seed, dir)?;
        let place = format!("embedded array: masu {}", env!("CARGO_PKG_VERSION"));
        let login = Options::new(array.listen(), INITIATOR, TARGET, 0);
        Ok(Bed {
            login: Bed::segments(login, vaai),
            luns: vec![Lun(0), Lun(1), Lun(2)],
            array: Some(array),
            place,
        })
    }

    /// One or two LUs of someone else, whose content is lost.
    pub(crate) fn foreign(vaai: &Vaai, targets: &[String], destroy_data: bool) -> Result<Bed> {
        let urls = targets.iter().map(|t| Url::parse(t)).collect::<Result<Vec<_>, _>>()?;
        let [first, others @ ..] = &urls[..] else { bail!("--target requires a LU") };
        if !destroy_data {
            let all: Vec<String> = urls.iter().map(ToString::to_string).collect();
            return Err(RequestError::WouldDestroy(all.join(" and ")).into());
        }
        if others.len() > 1 {
            bail!("--target: one LU, or two for copies between pools");
        }
        if others.iter().any(|o| (&o.host, o.port, &o.target) != (&first.host, first.port, &first.target)) {
            bail!(
                "invalid --target: the second LU must be at the same portal and target as the first, because \
                 the array copies between them"
            );
        }
        let login = login_of(first)?;
        let luns = urls.iter().map(|u| Lun(u.lun)).collect();
        Ok(Bed {
            login: Bed::segments(login, vaai),
            luns,
            array: None,
            place: format!("LUs of someone else: {}", targets_text(&urls)),
        })
    }

    fn segments(mut login: Options, vaai: &Vaai) -> Options {
        login.stream = StreamOptions { segment_bytes_max: Some(vaai.array.segment_bytes_max) };
        login
    }

    /// How the host of that number logs in.
    pub(crate) fn login(&self, host: u32) -> Options {
        Options { isid: [0x80, 0, 0, host as u8 + 1, 0, 0], ..self.login.clone() }
    }

    /// The LUs with datastores: one or two.
    pub(crate) fn datastore_luns(&self) -> Vec<Lun> {
        self.luns.iter().copied().take(2).collect()
    }

    /// The LU that is promised more than its pool has.
    pub(crate) fn thin_lun(&self) -> Option<Lun> {
        self.luns.get(2).copied()
    }

    /// What is verified, in words.
    pub(crate) fn place(&self) -> &str {
        &self.place
    }

    /// Whether the array is ours.
    pub(crate) fn is_embedded(&self) -> bool {
        self.array.is_some()
    }

    /// What the array has done, when it is ours.
    pub(crate) fn read(&self) -> Result<Option<ArrayReading>> {
        self.array.as_ref().map(Embedded::read).transpose()
    }
}

fn targets_text(urls: &[Url]) -> String {
    urls.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}
