//! The limits of one command. The block limits VPD page reports them, and the handlers enforce them.

/// The longest transfer of one command (MAXIMUM TRANSFER LENGTH of VPD page B0h): 65,536 blocks of 512 bytes.
pub(crate) const TRANSFER_BYTES_MAX: u64 = 32 << 20;
/// Longest data-out of any command.
pub(crate) const DATA_OUT_BYTES_MAX: u64 = TRANSFER_BYTES_MAX;
/// MAXIMUM COMPARE AND WRITE LENGTH in blocks. A hypervisor's lock is one block; 128 allow a host to compare
/// a whole page of metadata and still bound the time that the range is held.
pub const COMPARE_AND_WRITE_BLOCKS_MAX: u64 = 128;

/// Largest range of one WRITE SAME. 4 GiB is 8,388,608 blocks of 512 bytes: a metadata operation on a thin
/// disk, and more than Linux (8,388,607 blocks) and hypervisors put into one command.
pub const WRITE_SAME_BYTES_MAX: u64 = 4 << 30;

/// MAXIMUM UNMAP LBA COUNT, over all descriptors of a command.
pub const UNMAP_BLOCKS_MAX: u64 = 1 << 20;

/// Upper bound of OPTIMAL UNMAP GRANULARITY, also if space is released in larger units: initiators align
/// WRITE SAME to multiples of it, and some (QEMU) have no multiple left if it exceeds their longest transfer,
/// 65,535 blocks of 512 bytes.
pub const UNMAP_GRANULARITY_BYTES_MAX: u64 = 16 << 20;

/// MAXIMUM UNMAP BLOCK DESCRIPTOR COUNT.
pub const UNMAP_DESCRIPTORS_MAX: u64 = 256;

/// Largest WRITE ATOMIC(16): 256 blocks of 512 bytes, whose old content fits in three records of the disk.
pub const ATOMIC_BYTES_MAX: u64 = 128 << 10;

/// OPTIMAL TRANSFER LENGTH: one step of the data path.
pub const OPTIMAL_TRANSFER_BYTES: u64 = 1 << 20;

/// Commands of one LU at once that have a step of data in memory which no limit of a transport counts: VERIFY
/// without data or with one block, WRITE SAME with a pattern. More of them get TASK SET FULL.
pub(crate) const UNCOUNTED_MAX: u64 = 64;

/// Copies of one LU at once (EXTENDED COPY, WRITE USING TOKEN), of all nexuses: each may have some MiB in
/// memory that no transport counts. More of them get BUSY.
pub(crate) const COPIES_MAX: u64 = 64;

/// The same two of one host on all its LUs of a controller: a host with many LUs has no more memory than one
/// with a few, and takes none from others. More of them get BUSY.
pub(crate) const HOST_UNCOUNTED_MAX: u64 = 64;
pub(crate) const HOST_COPIES_MAX: u64 = 64;

/// Unit of a long metadata command (WRITE SAME of zeros, UNMAP) between two checks for an abort.
pub const METADATA_STEP_BYTES: u64 = 256 << 20;

const _: () = assert!(ATOMIC_BYTES_MAX <= TRANSFER_BYTES_MAX && OPTIMAL_TRANSFER_BYTES <= TRANSFER_BYTES_MAX);
