//! Other formats, read-only: for conversion, completely or not at all.

mod qcow2;
mod vmdk;

use std::path::Path;

use block::Pieces;
use world::{Drive, DriveSpec, ImageAccess, World};

pub use qcow2::Qcow2;
pub use vmdk::Vmdk;

use crate::image::read_vec;
use crate::{Access, Chain, Image, VdiskError, open_chain};

/// A disk of any format, for reading.
#[expect(missing_docs, reason = "self-explanatory names")]
pub enum AnyDisk {
    /// Raw, VHD or VHDX.
    Image(Image),
    Qcow2(Qcow2),
    Vmdk(Vmdk),
}

/// Limit of reported faults of one image.
const FAULTS_MAX: usize = 100;

impl AnyDisk {
    /// Opens the file at `path` with the given format, or with the detected one, which must be unambiguous.
    /// An unknown format is an error.
    pub async fn open(world: &World, chain: &Chain<'_>) -> Result<AnyDisk, VdiskError> {
        if chain.format.is_some() {
            return Ok(AnyDisk::Image(open_chain(world, chain).await?));
        }
        let path = chain.path;
        let spec = DriveSpec::Image { path: path.to_owned(), access: ImageAccess::Read };
        let drive = world.open_drive(&spec).await?;
        let first = read_vec(&drive, 0, drive.len_bytes().min(512)).await?;
        if first.starts_with(qcow2::MAGIC) {
            return Ok(AnyDisk::Qcow2(Qcow2::open(drive).await?));
        }
        if first.starts_with(vmdk::MAGIC) || first.starts_with(vmdk::TEXT_MAGIC) {
            return Ok(AnyDisk::Vmdk(Vmdk::open(world, drive, path).await?));
        }
        match open_chain(world, &Chain { access: Access::Read, ..*chain }).await {
            Err(VdiskError::Foreign { .. }) => Err(VdiskError::refused(format!(
                "{}: unknown format (not VHD, VHDX, QCOW2 or VMDK); for a raw image pass --input-format raw",
                path.display()
            ))),
            opened => Ok(AnyDisk::Image(opened?)),
        }
    }

    /// Opens the QCOW2 or sparse VMDK on a drive.
    pub async fn open_drive(world: &World, drive: Drive) -> Result<AnyDisk, VdiskError> {
        let first = read_vec(&drive, 0, drive.len_bytes().min(512)).await?;
        match first.starts_with(qcow2::MAGIC) {
            true => Ok(AnyDisk::Qcow2(Qcow2::open(drive).await?)),
            false => Ok(AnyDisk::Vmdk(Vmdk::open(world, drive, Path::new("")).await?)),
        }
    }

    /// Checks its metadata; returns the faults. Those of a VHD or VHDX were found when it was opened.
    pub async fn faults(&self) -> Result<Vec<String>, VdiskError> {
        match self {
            AnyDisk::Image(image) => Ok(image.findings().faults),
            AnyDisk::Qcow2(qcow2) => qcow2.faults().await,
            AnyDisk::Vmdk(vmdk) => vmdk.faults().await,
        }
    }

    /// Name of its format.
    pub fn format_name(&self) -> &'static str {
        match self {
            AnyDisk::Image(image) => image.format().name(),
            AnyDisk::Qcow2(_) => "qcow2",
            AnyDisk::Vmdk(_) => "vmdk",
        }
    }

    /// Size of the disk.
    pub fn len_bytes(&self) -> u64 {
        match self {
            AnyDisk::Image(image) => image.len_bytes(),
            AnyDisk::Qcow2(qcow2) => qcow2.len_bytes(),
            AnyDisk::Vmdk(vmdk) => vmdk.len_bytes(),
        }
    }

    /// Reads `len` bytes at `at`, appended to `out`.
    pub async fn read(&self, at: u64, len: u64, out: &mut Pieces) -> Result<(), VdiskError> {
        let end = self.len_bytes();
        if at.checked_add(len).is_none_or(|last| last > end) {
            return Err(VdiskError::refused(format!(
                "{len} bytes at {at} are past the end of the disk at {end}"
            )));
        }
        match self {
            AnyDisk::Image(image) => image.read(at, len, out).await,
            AnyDisk::Qcow2(qcow2) => qcow2.read(at, len, out).await,
            AnyDisk::Vmdk(vmdk) => vmdk.read(at, len, out).await,
        }
    }

    /// Number of bytes from here on that are known to be zeros without reading them; 0: unknown. There may be
    /// more behind them: it looks into one table.
    pub async fn hole(&self, at: u64) -> u64 {
        let hole = match self {
            AnyDisk::Image(image) => match image.extent(at, u64::MAX) {
                (len, false) => len,
                (_, true) => 0,
            },
            AnyDisk::Qcow2(qcow2) => qcow2.hole(at).await,
            AnyDisk::Vmdk(vmdk) => vmdk.hole(at).await,
        };
        hole.min(self.len_bytes().saturating_sub(at))
    }
}

/// Whether the file contains these bytes; its last sector counts as complete.
fn is_there(drive: &Drive, at: u64, len: u64) -> bool {
    at.checked_add(len).is_some_and(|end| end <= drive.len_bytes())
}

/// Bytes of the file at any address and of any length, which was checked against a limit. Past the end of the
/// file is an error.
async fn read_bytes(drive: &Drive, at: u64, len: u64, what: &str) -> Result<Vec<u8>, VdiskError> {
    if !is_there(drive, at, len) {
        let cause =
            format!("{len} bytes at {at} are past the end of the file at {} bytes", drive.len_bytes());
        return Err(VdiskError::damaged(what, cause));
    }
    let before = at % 512;
    let mut bytes = read_vec(drive, at - before, (before + len).next_multiple_of(512)).await?;
    bytes.drain(..before as usize);
    bytes.truncate(len as usize);
    Ok(bytes)
}

/// Decompresses until `to`, a cluster or grain, is full.
fn inflate(from: &[u8], to: &mut [u8], zlib_header: bool, place: &str) -> Result<(), VdiskError> {
    use miniz_oxide::inflate::core::{DecompressorOxide, decompress, inflate_flags};
    let header = if zlib_header { inflate_flags::TINFL_FLAG_PARSE_ZLIB_HEADER } else { 0 };
    let flags = inflate_flags::TINFL_FLAG_USING_NON_WRAPPING_OUTPUT_BUF | header;
    let (status, _, written) = decompress(&mut DecompressorOxide::new(), from, to, 0, flags);
    if written == to.len() {
        return Ok(());
    }
    Err(VdiskError::damaged(
        place,
        format!("only {written} of {} bytes can be decompressed ({status:?})", to.len()),
    ))
}

/// Deflate makes this many bytes of one at most (RFC 1951: a match of 258 bytes takes two bits or more).
const INFLATED_PER_BYTE: u64 = 1032;

/// What is still decompressed of a file to examine it: no more than all of it can be. Entries that all name
/// the same bytes would take as long as the disk is large.
struct Budget(u64);

impl Budget {
    fn of(drive: &Drive) -> Budget {
        Budget(drive.len_bytes().saturating_mul(INFLATED_PER_BYTE))
    }

    /// What is wrong with compressed data that make so many bytes.
    async fn fault(
        &mut self,
        bytes: u64,
        unpacked: impl Future<Output = Result<Vec<u8>, VdiskError>>,
    ) -> Result<Option<String>, VdiskError> {
        let Some(left) = self.0.checked_sub(bytes) else {
            return Ok(Some("its compressed bytes are those of others, too".into()));
        };
        self.0 = left;
        match unpacked.await {
            Ok(_) => Ok(None),
            Err(VdiskError::Damaged { cause, .. }) => Ok(Some(format!("its compressed bytes: {cause}"))),
            Err(error) => Err(error),
        }
    }
}

/// Whether the limit of faults is reached; a last one then says that further ones were not examined.
fn is_enough(faults: &mut Vec<String>) -> bool {
    if faults.len() < FAULTS_MAX {
        return false;
    }
    if faults.len() == FAULTS_MAX {
        faults.push("further ones were not examined".into());
    }
    true
}
