//! TLS, by rustls. Of the API on TCP: the certificate that the server shows, and how a client knows it.
//! Between nodes: the certificates by which they know each other.

mod certificate;
mod expiry;
mod node;
mod trust;

pub use certificate::{CertificateFiles, Tls, TlsError, certificate_end_s};
pub(crate) use expiry::reminder;
pub use expiry::trouble_of_end;
pub use node::NodeTls;
pub use trust::Trust;
pub(crate) use trust::connect;
