//! The volume of a server grows with its disk, and files are deleted from it. No line of Windows runs here:
//! what is written, and in which order, is what the formats need.

use anyhow::{Result, ensure};

use super::layout::{CLUSTER_BYTES, Range, system_record};
use super::lu::Ended;
use super::server::Server;

const SECTOR_BYTES: u64 = 512;
/// The partition table (UEFI 2.10, 5.3): a protective MBR, a header and 32 sectors of entries at the
/// beginning of the disk; entries and a header at its end.
const TABLE: Range = Range { at: 0, bytes: 34 * SECTOR_BYTES };
const TABLE_COPY_BYTES: u64 = 33 * SECTOR_BYTES;
/// NTFS: the records of $Bitmap, and of $BadClus, which is as long as the volume.
const RECORDS: [u64; 2] = [6, 8];
/// The first record of a file that is not the file system's own.
pub(super) const FIRST_RECORD: u64 = 24;

impl Server {
    /// Partition and file system take what the disk has grown by, while they are used.
    pub(super) async fn grow_volume(&self, from: u64, to: u64) -> Result<()> {
        // The copy at the new end first: whatever interrupts it, one of the two is whole.
        let table_copy = Range { at: to - TABLE_COPY_BYTES, bytes: TABLE_COPY_BYTES };
        self.write_now(table_copy).await?;
        self.write_now(TABLE).await?;
        // A bit for each new cluster, in the first of them.
        let end = table_copy.at / CLUSTER_BYTES * CLUSTER_BYTES;
        let bits = (end - from).div_ceil(CLUSTER_BYTES).div_ceil(8).next_multiple_of(CLUSTER_BYTES);
        let bitmap = Range { at: from, bytes: bits };
        self.log();
        self.write_log().await?;
        self.write_now(bitmap).await?;
        for record in RECORDS {
            self.write_now(system_record(record)).await?;
        }
        // The boot sector has the length; its copy is the volume's last sector.
        self.write_now(Range { at: end - SECTOR_BYTES, bytes: SECTOR_BYTES }).await?;
        self.write_now(Range { at: 0, bytes: SECTOR_BYTES }).await?;
        self.grown.set(Some((from, bitmap.at)));
        let free = Range { at: bitmap.end(), bytes: end - CLUSTER_BYTES - bitmap.end() };
        self.space.borrow_mut().free(self.fabric.world.now().0, free);
        Ok(())
    }

    /// Deletes files, each with its record: what waits of them is not written any more, and the disk is told
    /// after the next checkpoint that it need not keep them. Returns how much of them had been written.
    pub(super) async fn delete(&self, files: &[(u64, Range)]) -> Result<u64> {
        let mut written_bytes = 0;
        for (record, file) in files {
            self.log();
            let mut memory = self.memory.borrow_mut();
            written_bytes += file.bytes - memory.purge(*file);
            memory.soil_table(system_record(*record));
            memory.soil_table(self.bitmap_of(file.at));
            self.whole.borrow_mut().remove(&file.at);
        }
        self.write_log().await?;
        self.fabric.world.sleep(self.costs.checkpoint.0).await;
        let mut runs: Vec<Range> = files.iter().map(|(_, file)| *file).collect();
        runs.sort_unstable();
        runs.dedup_by(|next, run| {
            let touches = run.end() == next.at;
            if touches {
                run.bytes += next.bytes;
            }
            touches
        });
        for run in runs {
            self.disk.unmap(run).await?;
            self.space.borrow_mut().free(self.fabric.world.now().0, run);
        }
        Ok(written_bytes)
    }

    async fn write_now(&self, range: Range) -> Result<()> {
        for part in range.parts(self.costs.transfer.0) {
            let ended = self.disk.write(part, self.durable()).await?;
            ensure!(ended == Ended::Done, "the pool has no page for a table of the volume");
        }
        Ok(())
    }
}
