//! Operations of several drives at once.

use smallvec::SmallVec;
use world::{DriveError, Io};

/// Waits for all operations. The first failure is returned, with the index of its drive.
pub(crate) async fn await_all(
    operations: SmallVec<[Io<Result<(), DriveError>>; 4]>,
) -> Result<(), (usize, DriveError)> {
    let mut outcome = Ok(());
    for (i, io) in operations.into_iter().enumerate() {
        if let Err(error) = io.await {
            outcome = outcome.and(Err((i, error)));
        }
    }
    outcome
}
