//! TLS of the API on TCP, by rustls: the certificate that the server shows, and how a client knows it.

mod certificate;
mod expiry;
mod trust;

pub use certificate::{CertificateFiles, Tls, TlsError, certificate_end_s};
pub(crate) use expiry::reminder;
pub use expiry::trouble_of_end;
pub use trust::Trust;
pub(crate) use trust::connect;
