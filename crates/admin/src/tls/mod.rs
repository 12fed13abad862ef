//! TLS of the API on TCP, by rustls: the certificate that the server shows, and how a client knows it.

mod certificate;
mod trust;

pub use certificate::{CertificateFiles, Tls, TlsError};
pub use trust::Trust;
pub(crate) use trust::connect;
