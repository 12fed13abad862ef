//! TLS between the nodes of an array: each has a certificate of its own, signed by itself. Both sides show
//! theirs, and know each other by the hashes in the registry, whatever the certificates say of names and
//! times.

use std::fmt;
use std::io;
use std::sync::Arc;

use rustls::client::Resumption;
use rustls::client::danger::HandshakeSignatureValid;
use rustls::crypto::{WebPkiSupportedAlgorithms, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::NoServerSessionStorage;
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::version::TLS13;
use rustls::{ClientConfig, DigitallySignedStruct, DistinguishedName, Error, ServerConfig, SignatureScheme};
use tokio::net::TcpStream;
use tokio_rustls::{TlsAcceptor, TlsConnector, client, server};

use super::certificate::{CertificateFiles, Pair, TlsError, not_a_pair, own, provider, read};
use super::trust::Pinned;
use crate::digest::sha256;
use crate::store::Store;

/// In the data directory of a node.
const CERTIFICATE: &str = "node.cert.pem";
const KEY: &str = "node.key.pem";

/// What nodes say to each other inside. Nodes that know no common one do not connect.
const PROTOCOL: &[u8] = b"masu-node/1";

/// A node as the others know it: its certificate, and the key of that.
pub struct NodeTls {
    files: CertificateFiles,
    pair: Pair,
    sha256: String,
    server: Arc<ServerConfig>,
}

impl fmt::Debug for NodeTls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NodeTls").field("sha256", &self.sha256).finish_non_exhaustive()
    }
}

impl NodeTls {
    /// That of a data directory, which is made if it is not there.
    ///
    /// # Errors
    /// It cannot be made, kept or read.
    pub fn own(store: &Store) -> Result<NodeTls, TlsError> {
        let files = own(store, [CERTIFICATE, KEY], || vec!["node".into()])?;
        let pair = read(&files)?;
        let server = server_config(&pair).map_err(|error| not_a_pair(&files, &error))?;
        let sha256 = sha256(&pair.0[0]);
        Ok(NodeTls { files, pair, sha256, server: Arc::new(server) })
    }

    /// The SHA-256 of the certificate, in hexadecimal digits.
    pub fn fingerprint(&self) -> &str {
        &self.sha256
    }

    /// Connects to the node whose certificate has this SHA-256.
    ///
    /// # Errors
    /// The peer has another certificate, refuses this node's, or does not speak TLS.
    pub async fn connect(&self, stream: TcpStream, sha256: &str) -> io::Result<client::TlsStream<TcpStream>> {
        let config = self.client_config(sha256).map_err(|error| io::Error::other(error.to_string()))?;
        let name = ServerName::try_from("node").expect("a name");
        TlsConnector::from(Arc::new(config)).connect(name, stream).await
    }

    /// Accepts whoever shows a certificate and has its key. Returns the SHA-256 of the certificate: the
    /// caller says whether it knows that node.
    ///
    /// # Errors
    /// The peer has no certificate, or does not speak TLS.
    pub async fn accept(&self, stream: TcpStream) -> io::Result<(server::TlsStream<TcpStream>, String)> {
        let stream = TlsAcceptor::from(self.server.clone()).accept(stream).await?;
        let shown = stream.get_ref().1.peer_certificates().and_then(|chain| chain.first());
        let shown = shown.map(|shown| sha256(shown));
        Ok((stream, shown.ok_or_else(|| io::Error::other("no certificate was shown"))?))
    }

    fn client_config(&self, sha256: &str) -> Result<ClientConfig, TlsError> {
        let (provider, (chain, key)) = (provider(), &self.pair);
        let algorithms = provider.signature_verification_algorithms;
        let pinned = Arc::new(Pinned { sha256: sha256.into(), algorithms });
        let config = ClientConfig::builder_with_provider(provider).with_protocol_versions(&[&TLS13]);
        let config = config.map(|config| config.dangerous().with_custom_certificate_verifier(pinned));
        let config = config.and_then(|config| config.with_client_auth_cert(chain.clone(), key.clone_key()));
        let mut config = config.map_err(|error| not_a_pair(&self.files, &error))?;
        config.alpn_protocols = vec![PROTOCOL.to_vec()];
        config.resumption = Resumption::disabled();
        Ok(config)
    }
}

fn server_config((chain, key): &Pair) -> Result<ServerConfig, Error> {
    let provider = provider();
    let any = Arc::new(Any(provider.signature_verification_algorithms));
    let config = ServerConfig::builder_with_provider(provider).with_protocol_versions(&[&TLS13])?;
    let config = config.with_client_cert_verifier(any);
    let mut config = config.with_single_cert(chain.clone(), key.clone_key())?;
    config.alpn_protocols = vec![PROTOCOL.to_vec()];
    // Each connection shows both certificates.
    config.session_storage = Arc::new(NoServerSessionStorage {});
    config.send_tls13_tickets = 0;
    Ok(config)
}

/// Takes any certificate whose key the peer has: it is looked for in the registry afterwards, which takes
/// time.
#[derive(Debug)]
struct Any(WebPkiSupportedAlgorithms);

impl ClientCertVerifier for Any {
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &[]
    }

    fn verify_client_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        Ok(ClientCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Err(Error::General("TLS 1.2 between nodes".into()))
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, certificate, signature, &self.0)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.supported_schemes()
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpListener;

    use super::*;

    fn node() -> (tempfile::TempDir, NodeTls) {
        let dir = tempfile::tempdir().expect("a directory");
        let tls = NodeTls::own(&Store::open(dir.path()).expect("a store")).expect("made");
        (dir, tls)
    }

    async fn pair() -> (TcpStream, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let connecting = TcpStream::connect(listener.local_addr().expect("its address"));
        let (connected, accepted) = tokio::join!(connecting, listener.accept());
        (connected.expect("connected"), accepted.expect("accepted").0)
    }

    #[test]
    fn a_node_keeps_its_certificate_and_a_private_key() {
        let (dir, tls) = node();
        let again = NodeTls::own(&Store::open(dir.path()).expect("a store")).expect("read");
        assert_eq!(tls.fingerprint(), again.fingerprint());
        assert_eq!(tls.fingerprint().len(), 64);
        let key = dir.path().join(KEY).metadata().expect("the key");
        assert_eq!(key.permissions().mode() & 0o777, 0o600);
        assert!(!format!("{tls:?}").contains("PRIVATE"));
    }

    #[tokio::test]
    async fn both_sides_know_each_other_by_the_hashes_of_their_certificates() {
        let ((_a, standby), (_b, owner)) = (node(), node());
        let (near, far) = pair().await;
        let (connected, accepted) =
            tokio::join!(standby.connect(near, owner.fingerprint()), owner.accept(far));
        let ((mut near, (mut far, shown)), mut text) =
            ((connected.expect("connected"), accepted.expect("accepted")), [0; 4]);
        assert_eq!(shown, standby.fingerprint());
        near.write_all(b"ping").await.expect("sent");
        far.read_exact(&mut text).await.expect("received");
        assert_eq!(&text, b"ping");
    }

    #[tokio::test]
    async fn a_node_connects_to_no_other_one_than_it_means() {
        let ((_a, standby), (_b, owner)) = (node(), node());
        let (near, far) = pair().await;
        let (connected, accepted) =
            tokio::join!(standby.connect(near, standby.fingerprint()), owner.accept(far));
        let said = connected.expect_err("refused").to_string();
        assert!(said.contains("another certificate") && said.contains(owner.fingerprint()), "{said}");
        assert!(accepted.is_err());
    }

    #[tokio::test]
    async fn a_peer_without_a_certificate_or_without_tls_is_refused() {
        let (_dir, owner) = node();
        let (near, far) = pair().await;
        let trust = crate::Trust::Fingerprint(owner.fingerprint().into());
        let (connected, accepted) =
            tokio::join!(crate::tls::connect(near, "127.0.0.1:1", &trust), owner.accept(far));
        assert!(accepted.is_err(), "without a certificate");
        drop(connected);
        let (mut near, far) = pair().await;
        near.write_all(b"\r\n\r\n\0\r\nQUIT\n").await.expect("sent");
        assert!(owner.accept(far).await.is_err(), "in the clear");
    }
}
