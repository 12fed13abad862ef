//! A host of the model whose data are real: a machine with its own power, and a LU of the array as its drive.

pub(super) mod lu_drive;
pub(super) mod machine;
