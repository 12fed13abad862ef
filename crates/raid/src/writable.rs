//! Whether drives accept writes, before anything changes on one: each is given what stands in the place of a copy of its label already.

use smallvec::SmallVec;
use world::{Buf, Drive, DriveError};

use crate::GroupError;
use crate::label::{COPIES_AT, LABEL_LEN, Label};
use crate::member::Member;

/// Refuses a group of whose drives too few accept a write for the group to serve. Without this the labels of those that do would say that
/// the others are out, before the group gives up.
pub(crate) async fn refuse_unwritable(label: &Label, members: &[Member]) -> Result<(), GroupError> {
    let (mut accepting, mut failure) = (0, None);
    let (mut positions, mut writes) = (SmallVec::<[usize; 8]>::new(), SmallVec::<[_; 8]>::new());
    for (p, member) in members.iter().enumerate() {
        let Some(drive) = member.active() else { continue };
        match copy_of_label(&drive).await {
            Ok((at, bytes)) => {
                positions.push(p);
                writes.push(drive.write(at, bytes.freeze()));
            }
            Err(error) => failure = Some(error),
        }
    }
    for (p, write) in positions.into_iter().zip(writes) {
        match write.await {
            Ok(()) => accepting |= 1 << p,
            Err(error) => failure = Some(error),
        }
    }
    match failure {
        Some(cause) if !label.level.can_serve(accepting, label.width) => {
            Err(GroupError::Unwritable { group: label.group_name.clone(), cause })
        }
        _ => Ok(()),
    }
}

/// What stands in the place of a copy of the label, whatever it is, and where that is.
async fn copy_of_label(drive: &Drive) -> Result<(u64, Buf), DriveError> {
    let [first, second] = COPIES_AT;
    let filled = drive.read(second, Buf::new(LABEL_LEN)).await;
    if filled.result.is_ok() {
        return Ok((second, filled.buf));
    }
    let filled = drive.read(first, Buf::new(LABEL_LEN)).await;
    filled.result.map(|()| (first, filled.buf))
}
