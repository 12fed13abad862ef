//! What an answer of etcd means: one table.

use registry::RegistryError;
use tonic::{Code, Status};

use crate::members::ANSWER_LEN_MAX;

/// After what etcd says to who names no user.
const NO_USER: &str = ": etcd asks for a user; give one with its password (--registry-login FILE)";

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

impl Fault {
    /// With another cause, if there is one, that may explain it.
    pub(crate) fn beside(self, cause: Option<&str>) -> Fault {
        let Some(other) = cause else { return self };
        let both = |cause: String| format!("{cause}; {other}");
        match self {
            Fault::Lost(cause) => Fault::Lost(both(cause)),
            Fault::Refused(RegistryError::Refused { cause }) => {
                Fault::Refused(RegistryError::Refused { cause: both(cause) })
            }
            fault => fault,
        }
    }
}

/// The meaning of a failed call.
pub(crate) fn fault_of(status: &Status) -> Fault {
    let text = status.message();
    let refused = |advice: &str| Fault::Refused(RegistryError::Refused { cause: format!("{text}{advice}") });
    let has = |part: &str| text.contains(part);
    match status.code() {
        Code::NotFound if has("requested lease not found") => Fault::Refused(RegistryError::Expired),
        Code::Unauthenticated if has("invalid auth token") => Fault::LoggedOut(text.into()),
        Code::InvalidArgument if has("revision in header is old") || has("revision of auth store is old") => {
            Fault::LoggedOut(text.into())
        }
        // It asks for users since this connection was made, or there is none to give.
        Code::InvalidArgument if has("user name is empty") => Fault::LoggedOut(format!("{text}{NO_USER}")),
        Code::InvalidArgument | Code::Unauthenticated if has("authentication failed") => refused(
            ": check the user and the password in the file of --registry-login, or in MASU_ETCD_USER and \
             MASU_ETCD_PASSWORD (of the environment they are read at the start alone)",
        ),
        Code::PermissionDenied => refused(
            ": grant its user a role that may read and write the prefix (etcdctl role grant-permission)",
        ),
        Code::ResourceExhausted if has("database space exceeded") => {
            let cause = format!("{text}: compact and defragment etcd, then disarm its alarm");
            Fault::Refused(RegistryError::Unwritable { cause })
        }
        Code::OutOfRange if has("message length too large") => {
            Fault::Refused(RegistryError::Limit { what: "bytes of an answer", max: ANSWER_LEN_MAX })
        }
        Code::InvalidArgument | Code::Unimplemented | Code::OutOfRange => {
            Fault::Refused(RegistryError::Unreachable { cause: text.into() })
        }
        _ => Fault::Lost(advised(&with_sources(status))),
    }
}

/// What to do about what sockets and TLS say, by a part of it (rustls 0.23).
const ADVICE: &[(&str, &str)] = &[
    ("Connection refused", "no etcd listens there: start it, or correct the address"),
    ("failed to lookup address", "check the name of the member"),
    (
        "UnknownIssuer",
        "its certificate is of another authority: give the certificate of that one as --registry-ca",
    ),
    (
        "not valid for name",
        "name the member in --registry as its certificate does, or renew that with this name (subjectAltName)",
    ),
    ("certificate expired", "renew the member's certificate, or set the clock of this machine"),
    ("certificate not valid yet", "set the clock of this machine, or renew the member's certificate"),
    ("tls handshake eof", "it may not speak TLS: etcd:// is without"),
    ("KeyMismatch", "give the key of this certificate"),
];

/// With what to do about it.
pub(crate) fn advised(text: &str) -> String {
    // What each of them begins with says nothing.
    let text = text.strip_prefix("transport error: ").unwrap_or(text);
    match ADVICE.iter().find(|(part, _)| text.contains(part)) {
        Some((_, advice)) => format!("{text}: {advice}"),
        None => text.into(),
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
    fn what_to_do_about_a_connection_is_said() {
        for (said, advice) in [
            ("transport error: tcp connect error: Connection refused (os error 111)", "start it"),
            ("transport error: invalid peer certificate: UnknownIssuer", "--registry-ca"),
            (
                "invalid peer certificate: certificate not valid for name \"x\"; certificate is only",
                "--registry",
            ),
            ("invalid peer certificate: certificate expired: verification time 1 (UNIX), but", "renew"),
            ("transport error: tls handshake eof", "etcd:// is without"),
        ] {
            let text = advised(said);
            assert!(text.contains(advice) && !text.contains("transport error"), "{text}");
        }
        assert_eq!(advised("etcdserver: request timed out"), "etcdserver: request timed out");
    }

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
        assert!(matches!(denied, Fault::Refused(RegistryError::Refused { .. })));
    }
}
