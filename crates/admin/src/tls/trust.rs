//! How a client knows the server: by the hash of its certificate, or by a root that has signed it.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{WebPkiSupportedAlgorithms, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{CertificateError, ClientConfig, DigitallySignedStruct, Error, RootCertStore, SignatureScheme};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use super::certificate::{certificates, provider};
use crate::digest::sha256;

/// What makes a server's certificate good.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Trust {
    /// Its SHA-256, in hexadecimal digits without colons, in lower case.
    Fingerprint(String),
    /// A root of this PEM file has signed it, and it is for the server's name.
    Roots(PathBuf),
}

impl Trust {
    /// A fingerprint as `masu serve`, openssl and browsers print it.
    ///
    /// # Errors
    /// It is not 64 hexadecimal digits.
    pub fn fingerprint(text: &str) -> Result<Trust, String> {
        let digits: String = text.chars().filter(|c| *c != ':').map(|c| c.to_ascii_lowercase()).collect();
        match digits.len() == 64 && digits.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            true => Ok(Trust::Fingerprint(digits)),
            false => Err("must be a SHA-256: 64 hexadecimal digits".into()),
        }
    }

    fn config(&self) -> Result<ClientConfig, String> {
        let provider = provider();
        let config = ClientConfig::builder_with_provider(provider.clone())
            .with_safe_default_protocol_versions()
            .map_err(|e| e.to_string())?;
        Ok(match self {
            Trust::Fingerprint(sha256) => {
                let algorithms = provider.signature_verification_algorithms;
                let pinned = Arc::new(Pinned { sha256: sha256.clone(), algorithms });
                config.dangerous().with_custom_certificate_verifier(pinned).with_no_client_auth()
            }
            Trust::Roots(path) => {
                let mut roots = RootCertStore::empty();
                let (added, _) =
                    roots.add_parsable_certificates(certificates(path).map_err(|e| e.to_string())?);
                if added == 0 {
                    return Err(format!("{}: no certificate in it can be a root", path.display()));
                }
                config.with_root_certificates(roots).with_no_client_auth()
            }
        })
    }
}

/// What a server has time for: the handshake takes two round trips.
const HANDSHAKE_TIME: Duration = Duration::from_secs(10);

/// Connects, and makes sure that the server is the one.
///
/// # Errors
/// It is not, does not speak TLS, or is silent.
pub(crate) async fn connect(
    stream: TcpStream,
    addr: &str,
    trust: &Trust,
) -> Result<TlsStream<TcpStream>, String> {
    let config = trust.config()?;
    let host = addr.rsplit_once(':').map_or(addr, |(host, _)| host);
    let host = host.trim_start_matches('[').trim_end_matches(']').to_owned();
    let name = ServerName::try_from(host).map_err(|e| e.to_string())?;
    let handshake = TlsConnector::from(Arc::new(config)).connect(name, stream);
    match tokio::time::timeout(HANDSHAKE_TIME, handshake).await {
        Ok(shaken) => shaken.map_err(|e| explained(&e, addr)),
        Err(_) => Err(format!("the server is silent for {} s", HANDSHAKE_TIME.as_secs())),
    }
}

/// What is wrong with a handshake, and what to do.
fn explained(error: &std::io::Error, addr: &str) -> String {
    let cause = error.get_ref().and_then(|cause| cause.downcast_ref::<Error>());
    match cause {
        Some(Error::InvalidMessage(_)) => {
            format!("the server does not speak TLS; if that is meant, pass --api {addr}")
        }
        Some(Error::InvalidCertificate(CertificateError::UnknownIssuer)) => {
            "no known root has signed the server's certificate; pass --api-fingerprint with the SHA-256 that `masu \
             serve` logs, or --api-ca with its root"
                .into()
        }
        _ => error.to_string(),
    }
}

/// Takes the one certificate with this hash, whatever it says of names and times.
#[derive(Debug)]
pub(super) struct Pinned {
    pub(super) sha256: String,
    pub(super) algorithms: WebPkiSupportedAlgorithms,
}

impl ServerCertVerifier for Pinned {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let found = sha256(end_entity);
        match found == self.sha256 {
            true => Ok(ServerCertVerified::assertion()),
            false => {
                Err(Error::General(format!("the server has another certificate, with the SHA-256 {found}")))
            }
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls12_signature(message, certificate, signature, &self.algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, certificate, signature, &self.algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.algorithms.supported_schemes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fingerprint_is_read_as_others_print_it() {
        let plain = "ab".repeat(32);
        let colons = vec!["AB"; 32].join(":");
        assert_eq!(Trust::fingerprint(&plain), Ok(Trust::Fingerprint(plain.clone())));
        assert_eq!(Trust::fingerprint(&colons), Ok(Trust::Fingerprint(plain)));
        for wrong in ["", "ab", &"zz".repeat(32), &"ab".repeat(33)] {
            assert!(Trust::fingerprint(wrong).is_err(), "{wrong}");
        }
    }
}
