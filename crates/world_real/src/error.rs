//! Why a world cannot run.

/// Why a world cannot run.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[expect(missing_docs, reason = "self-explanatory names")]
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
        cpu: usize,
        /// The error of the operating system.
        cause: String,
    },
    /// A thread can have only one world.
    #[error("a world already runs on this thread")]
    Nested,
    /// The system refused a thread or a descriptor.
    #[error("{what}: {cause}")]
    System {
        /// The requested resource.
        what: &'static str,
        /// The error of the operating system.
        cause: String,
    },
}
