//! What can be wrong with a parameter file of DiskSim.

use std::io;

use world_model::drives::ParameterError;

/// Errors in a parameter file of DiskSim.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "self-explanatory names")]
pub enum DisksimError {
    #[error("{path}: {cause}")]
    Read {
        path: String,
        /// The error of the operating system.
        cause: io::Error,
    },
    #[error("{path}:{line}: {cause}")]
    Syntax {
        path: String,
        /// From 1.
        line: usize,
        /// What is wrong.
        cause: String,
    },
    #[error("{path}: missing {what}")]
    Missing {
        path: String,
        /// A block, or a parameter.
        what: String,
    },
    #[error("{path}: {source}")]
    Parameters { path: String, source: ParameterError },
}
