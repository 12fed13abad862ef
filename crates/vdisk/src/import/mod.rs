//! Images of other formats, to read only: so that they can be converted.

mod qcow2;
mod vmdk;

use std::path::Path;

use block::Pieces;
use world::{Drive, DriveSpec, ImageAccess, World};

pub use qcow2::Qcow2;
pub use vmdk::Vmdk;

use crate::image::read_vec;
use crate::{Access, Image, VdiskError, open_file};

/// A disk in whatever format, to be read.
pub enum AnyDisk {
    /// Raw, VHD or VHDX.
    Image(Image),
    /// QCOW2.
    Qcow2(Qcow2),
    /// VMDK.
    Vmdk(Vmdk),
}

impl AnyDisk {
    /// Opens the file at `path` by what it begins (or ends) with; a file that is of no format known is an error, unless it `may_be_raw`.
    pub async fn open(world: &World, path: &Path, may_be_raw: bool) -> Result<AnyDisk, VdiskError> {
        let spec = DriveSpec::Image { path: path.to_owned(), access: ImageAccess::Read };
        let drive = world.open_drive(&spec).await.map_err(|e| VdiskError::refused(e.to_string()))?;
        let first = read_vec(&drive, 0, drive.len_bytes().min(512)).await?;
        if first.starts_with(b"QFI\xfb") {
            return Ok(AnyDisk::Qcow2(Qcow2::open(drive).await?));
        }
        if first.starts_with(b"KDMV") || first.starts_with(b"# Disk DescriptorFile") {
            return Ok(AnyDisk::Vmdk(Vmdk::open(world, drive, path).await?));
        }
        match open_file(world, path, Access::Read).await {
            Err(VdiskError::Foreign { .. }) if may_be_raw => {
                Ok(AnyDisk::Image(Image::open_raw(drive, Access::Read)?))
            }
            Err(VdiskError::Foreign { .. }) => Err(VdiskError::refused(format!(
                "{}: neither VHD, VHDX, QCOW2 nor VMDK; say that it is raw if it is",
                path.display()
            ))),
            opened => Ok(AnyDisk::Image(opened?)),
        }
    }

    /// How its format is called.
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
        match self {
            AnyDisk::Image(image) => image.read(at, len, out).await,
            AnyDisk::Qcow2(qcow2) => qcow2.read(at, len, out).await,
            AnyDisk::Vmdk(vmdk) => vmdk.read(at, len, out).await,
        }
    }

    /// How many bytes from here on are known to be zeros without being read; 0: the next ones may be something.
    pub fn hole(&self, at: u64) -> u64 {
        match self {
            AnyDisk::Image(image) => match image.extent(at, u64::MAX) {
                (len, false) => len,
                (_, true) => 0,
            },
            AnyDisk::Qcow2(_) | AnyDisk::Vmdk(_) => 0,
        }
    }
}

/// Bytes of the file at any address and of any length, which was checked.
async fn read_bytes(drive: &Drive, at: u64, len: u64) -> Result<Vec<u8>, VdiskError> {
    let from = at / 512 * 512;
    let mut bytes = read_vec(drive, from, (at + len - from).next_multiple_of(512)).await?;
    bytes.drain(..(at - from) as usize);
    bytes.truncate(len as usize);
    Ok(bytes)
}

/// Decompresses as much as fits `to`, which is what a cluster or grain has.
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
        format!("{written} of {} bytes can be decompressed ({status:?})", to.len()),
    ))
}
