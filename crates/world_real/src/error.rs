//! Why a world cannot run.

/// Why a world cannot run.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RunError {
    /// There is no usable io_uring.
    #[error("io_uring: {cause}")]
    Ring {
        /// What is wrong and what to do.
        cause: String,
    },
    /// The thread cannot be pinned.
    #[error("cannot pin the thread to cpu {cpu}: {cause}")]
    Pin {
        /// The CPU.
        cpu: usize,
        /// What the system said.
        cause: String,
    },
    /// One thread, one world.
    #[error("a world runs on this thread already")]
    Nested,
    /// The system refused a thread or a descriptor.
    #[error("{what}: {cause}")]
    System {
        /// What was asked for.
        what: &'static str,
        /// What the system said.
        cause: String,
    },
}
