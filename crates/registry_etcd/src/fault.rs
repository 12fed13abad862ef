//! What an answer of etcd means: one table.

use registry::RegistryError;
use tonic::{Code, Status};

/// Why an attempt has no result.
#[derive(Debug)]
pub(crate) enum Fault {
    /// The answer is an error of the registry: asking again brings the same.
    Refused(RegistryError),
    /// Nothing was done, because the login of this connection holds no more: log in again.
    LoggedOut(String),
    /// No answer, or one that leaves open what was done.
    Lost(String),
}

/// The meaning of a failed call.
pub(crate) fn fault_of(status: &Status) -> Fault {
    let text = status.message();
    let refused = |advice: &str| {
        let cause = format!("{text}{advice}");
        Fault::Refused(RegistryError::Unreachable { cause })
    };
    let has = |part: &str| text.contains(part);
    match status.code() {
        Code::NotFound if has("requested lease not found") => Fault::Refused(RegistryError::Expired),
        Code::Unauthenticated if has("invalid auth token") => Fault::LoggedOut(text.into()),
        Code::InvalidArgument if has("revision in header is old") || has("revision of auth store is old") => {
            Fault::LoggedOut(text.into())
        }
        // It asks for users since this connection was made, or there is none to give.
        Code::InvalidArgument if has("user name is empty") => {
            Fault::LoggedOut(format!("{text}: etcd asks for a user; give one with its password"))
        }
        Code::InvalidArgument | Code::Unauthenticated if has("authentication failed") => {
            refused(": check user and password")
        }
        Code::PermissionDenied => refused(": grant its user a role that may read and write the prefix"),
        Code::ResourceExhausted if has("database space exceeded") => {
            let cause = format!("{text}: compact and defragment etcd, then disarm its alarm");
            Fault::Refused(RegistryError::Unwritable { cause })
        }
        Code::InvalidArgument | Code::Unimplemented | Code::OutOfRange => refused(""),
        _ => Fault::Lost(with_sources(status)),
    }
}

/// The text of an error of transport names only the last of its causes.
fn with_sources(status: &Status) -> String {
    let mut text = status.message().to_owned();
    if text.is_empty() {
        text = status.code().to_string();
    }
    append_sources(&mut text, std::error::Error::source(status));
    text
}

/// Appends what the text does not have yet.
pub(crate) fn append_sources(text: &mut String, source: Option<&(dyn std::error::Error + 'static)>) {
    let mut next = source;
    while let Some(error) = next {
        let cause = error.to_string();
        if !text.contains(&cause) {
            text.push_str(": ");
            text.push_str(&cause);
        }
        next = error.source();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_an_answer_that_says_so_is_final() {
        let fault = |code: Code, text: &str| fault_of(&Status::new(code, text));
        let expired = fault(Code::NotFound, "etcdserver: requested lease not found");
        assert!(matches!(expired, Fault::Refused(RegistryError::Expired)));
        let old = fault(Code::Unauthenticated, "etcdserver: invalid auth token");
        assert!(matches!(old, Fault::LoggedOut(_)));
        for open in ["etcdserver: leader changed", "etcdserver: request timed out", "transport error"] {
            assert!(matches!(fault(Code::Unavailable, open), Fault::Lost(_)), "{open}");
        }
        let denied = fault(Code::PermissionDenied, "etcdserver: permission denied");
        assert!(matches!(denied, Fault::Refused(RegistryError::Unreachable { .. })));
    }
}
