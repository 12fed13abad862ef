//! TLS of the API on TCP, by rustls: the certificate that the server shows, and how a client knows it.

mod certificate;
mod listener;
mod trust;

pub use certificate::{CertificateFiles, Tls, TlsError};
pub(crate) use listener::TlsListener;
pub use trust::Trust;
pub(crate) use trust::connect;
