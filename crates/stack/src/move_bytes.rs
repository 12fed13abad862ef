//! A copy by reading and writing.

use block::{BlockError, Pieces};
use lu::{CommandContext, Copied, Durability, LogicalDisk};

/// Unit of the copy.
const PIECE_BYTES: u64 = 1 << 20;

/// Copies `len` bytes from a disk and address to another, piece by piece.
pub(crate) async fn move_bytes<S: LogicalDisk, D: LogicalDisk>(
    command: CommandContext<'_>,
    (source, from): (&S, u64),
    (to, at): (&D, u64),
    len: u64,
) -> Result<Copied, BlockError> {
    let mut done = 0;
    while done < len {
        let n = PIECE_BYTES.min(len - done);
        // If a range moves over itself to higher addresses, it is copied from its end.
        let offset = if at > from { len - done - n } else { done };
        let mut bytes = Pieces::new();
        source.read(command, from + offset, n as usize, &mut bytes).await?;
        to.write(command, at + offset, &bytes, Durability::Volatile).await?;
        done += n;
    }
    Ok(Copied { shared_bytes: 0, moved_bytes: len })
}
