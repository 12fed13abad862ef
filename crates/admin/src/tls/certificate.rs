//! The certificate: from files, read again when they change; or made at the first start.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::SystemTime;

use config::read_small;
use rustls::ServerConfig;
use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

use super::expiry::end_of;
use crate::digest::sha256;
use crate::store::{Store, StoreError};

/// What is made at the first start, in the data directory.
const OWN_CERTIFICATE: &str = "api.cert.pem";
const OWN_KEY: &str = "api.key.pem";

/// Longer than any chain of certificates.
const PEM_BYTES_MAX: u64 = 1 << 20;

/// Where a certificate and its key are, as PEM.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CertificateFiles {
    /// The certificate of the server, then those that lead to its root.
    pub certificate: PathBuf,
    /// The key of the first one.
    pub key: PathBuf,
}

/// A chain of certificates, and the key of the first one.
pub(super) type Pair = (Vec<CertificateDer<'static>>, PrivateKeyDer<'static>);

/// Why TLS cannot be served.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// A file cannot be read, or is not what it should be.
    #[error("{path}: {cause}")]
    File {
        /// The file.
        path: String,
        /// What is wrong.
        cause: String,
    },
    /// They do not belong together.
    #[error("{certificate} and {key}: not a certificate and its key: {cause}")]
    Pair {
        /// The file of the certificate.
        certificate: String,
        /// The file of the key.
        key: String,
        /// What rustls said.
        cause: String,
    },
    /// None can be made.
    #[error("cannot make a certificate: {0}")]
    Make(String),
    /// The one that was made cannot be kept.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// TLS of a server: always the newest certificate that can be used.
#[derive(Debug)]
pub struct Tls {
    files: CertificateFiles,
    now: RwLock<Loaded>,
}

#[derive(Clone, Debug)]
struct Loaded {
    config: Arc<ServerConfig>,
    sha256: String,
    /// The end of the first of the chain to end, in seconds since 1970.
    end_s: Option<u64>,
    modified: [Option<SystemTime>; 2],
}

impl Tls {
    /// Reads a certificate and its key.
    ///
    /// # Errors
    /// They cannot be read, or do not belong together.
    pub fn open(files: CertificateFiles) -> Result<Tls, TlsError> {
        let loaded = load(&files, modified(&files))?;
        Ok(Tls { files, now: RwLock::new(loaded) })
    }

    /// That of the data directory, which is made if it is not there: signed by itself, for this machine's
    /// names and the address.
    ///
    /// # Errors
    /// It cannot be made, kept or read.
    pub fn own(store: &Store, address: SocketAddr) -> Result<Tls, TlsError> {
        let names = || {
            let mut names: Vec<String> = ["localhost", "127.0.0.1", "::1"].map(Into::into).into();
            let own = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
            names.extend(Some(own.trim().to_owned()).filter(|name| !name.is_empty() && name.is_ascii()));
            if !address.ip().is_unspecified() {
                names.push(address.ip().to_string());
            }
            names.sort();
            names.dedup();
            names
        };
        Tls::open(own(store, [OWN_CERTIFICATE, OWN_KEY], names)?)
    }

    /// Where the certificate of a data directory is, if it has one.
    pub fn own_certificate(data: &Path) -> PathBuf {
        data.join(OWN_CERTIFICATE)
    }

    /// The SHA-256 of the certificate, in hexadecimal digits: what a client can be told to expect.
    pub fn fingerprint(&self) -> String {
        self.now().sha256
    }

    /// When it can no longer be used, in seconds since 1970.
    pub(crate) fn end_s(&self) -> Option<u64> {
        self.now().end_s
    }

    pub(crate) fn config(&self) -> Arc<ServerConfig> {
        self.now().config
    }

    fn now(&self) -> Loaded {
        self.now.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Reads the files again if they have changed. What cannot be used is told, and the last one stays.
    pub(crate) fn look_again(&self) {
        // Before they are read: a change meanwhile is seen at the next look, also if they cannot be used.
        let modified = modified(&self.files);
        if modified == self.now().modified {
            return;
        }
        match load(&self.files, modified) {
            Ok(loaded) => {
                tracing::info!("the API has another certificate: SHA-256 {}", loaded.sha256);
                *self.now.write().unwrap_or_else(PoisonError::into_inner) = loaded;
            }
            Err(error) => {
                tracing::warn!(
                    "cannot load the new certificate of the API, which keeps the old one: {error}"
                );
                // Told once for each change.
                self.now.write().unwrap_or_else(PoisonError::into_inner).modified = modified;
            }
        }
    }
}

fn modified(files: &CertificateFiles) -> [Option<SystemTime>; 2] {
    [&files.certificate, &files.key].map(|path| path.metadata().and_then(|data| data.modified()).ok())
}

/// The provider that both sides use: no other is compiled in.
pub(super) fn provider() -> Arc<CryptoProvider> {
    Arc::new(ring::default_provider())
}

/// All certificates of a PEM file.
///
/// # Errors
/// It cannot be read, or has none.
pub(super) fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let failed = |cause: String| TlsError::File { path: path.display().to_string(), cause };
    let pem = read_small(path, PEM_BYTES_MAX).map_err(|e| failed(e.to_string()))?;
    let all = CertificateDer::pem_slice_iter(&pem);
    match all.collect::<Result<Vec<_>, _>>() {
        Ok(all) if !all.is_empty() => Ok(all),
        _ => Err(failed("no certificate in PEM form, or a damaged one: name another file".into())),
    }
}

/// When the certificate in a file ends, in seconds since 1970: that of its chain that ends first.
///
/// # Errors
/// It cannot be read, or has no certificate.
pub fn certificate_end_s(path: &Path) -> Result<Option<u64>, TlsError> {
    Ok(end_of(&certificates(path)?))
}

/// A certificate of the data directory and its key, by their names. They are made if they are not there.
///
/// # Errors
/// They cannot be made or kept.
pub(super) fn own(
    store: &Store,
    files: [&str; 2],
    names: impl FnOnce() -> Vec<String>,
) -> Result<CertificateFiles, TlsError> {
    let [certificate, key] = files.map(|name| store.dir().join(name));
    if !certificate.exists() || !key.exists() {
        let made = rcgen::generate_simple_self_signed(names()).map_err(|e| TlsError::Make(e.to_string()))?;
        // The key first: a certificate without one would be of no use after a crash between them.
        store.keep_private(files[1], &made.key_pair.serialize_pem())?;
        store.keep_private(files[0], &made.cert.pem())?;
    }
    Ok(CertificateFiles { certificate, key })
}

/// A chain of certificates, and the key of the first one.
///
/// # Errors
/// They cannot be read.
pub(super) fn read(files: &CertificateFiles) -> Result<Pair, TlsError> {
    let chain = certificates(&files.certificate)?;
    let failed = |cause| TlsError::File { path: files.key.display().to_string(), cause };
    let pem = read_small(&files.key, PEM_BYTES_MAX).map_err(|e| failed(e.to_string()))?;
    let key = PrivateKeyDer::from_pem_slice(&pem);
    let key =
        key.map_err(|_| failed("no private key in PEM form, or a damaged one: name another file".into()))?;
    Ok((chain, key))
}

/// What rustls says of files that do not belong together.
pub(super) fn not_a_pair(files: &CertificateFiles, error: &rustls::Error) -> TlsError {
    TlsError::Pair {
        certificate: files.certificate.display().to_string(),
        key: files.key.display().to_string(),
        cause: error.to_string(),
    }
}

fn load(files: &CertificateFiles, modified: [Option<SystemTime>; 2]) -> Result<Loaded, TlsError> {
    let (chain, key) = read(files)?;
    let (sha256, end_s) = (sha256(&chain[0]), end_of(&chain));
    let pair = |e: rustls::Error| not_a_pair(files, &e);
    let config = ServerConfig::builder_with_provider(provider()).with_safe_default_protocol_versions();
    let mut config =
        config.map_err(pair)?.with_no_client_auth().with_single_cert(chain, key).map_err(pair)?;
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(Loaded { config: Arc::new(config), sha256, end_s, modified })
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;
    use std::time::Duration;

    use super::*;

    fn address() -> SocketAddr {
        SocketAddr::from(([10, 0, 0, 1], 8443))
    }

    #[test]
    fn a_certificate_is_made_once_and_its_key_is_private() {
        let dir = tempfile::tempdir().expect("a directory");
        let store = Store::open(dir.path()).expect("a store");
        let first = Tls::own(&store, address()).expect("made").fingerprint();
        let again = Tls::own(&store, address()).expect("read").fingerprint();
        assert_eq!(first, again);
        let end_s = certificate_end_s(&Tls::own_certificate(dir.path())).expect("read");
        assert!(end_s > Some(4_000_000_000), "{end_s:?}");
        let key = dir.path().join(OWN_KEY).metadata().expect("the key");
        assert_eq!(key.permissions().mode() & 0o777, 0o600);
    }

    #[test]
    fn another_certificate_is_taken_and_a_broken_one_is_not() {
        let dir = tempfile::tempdir().expect("a directory");
        let store = Store::open(dir.path()).expect("a store");
        let tls = Tls::own(&store, address()).expect("made");
        let (first, [certificate, key]) =
            (tls.fingerprint(), [OWN_CERTIFICATE, OWN_KEY].map(|n| dir.path().join(n)));
        let touch = |path: &Path, text: &str, seconds: u64| {
            std::fs::write(path, text).expect("written");
            let later = SystemTime::now() + Duration::from_secs(seconds);
            std::fs::File::options()
                .write(true)
                .open(path)
                .and_then(|f| f.set_modified(later))
                .expect("dated");
        };
        touch(&certificate, "nonsense", 10);
        tls.look_again();
        assert_eq!(tls.fingerprint(), first);
        let other = rcgen::generate_simple_self_signed(vec!["x".into()]).expect("made");
        touch(&certificate, &other.cert.pem(), 20);
        tls.look_again();
        assert_eq!(tls.fingerprint(), first, "its key is that of the first one");
        touch(&key, &other.key_pair.serialize_pem(), 30);
        tls.look_again();
        assert_eq!(tls.fingerprint(), sha256(other.cert.der()));
        assert!(tls.end_s() > Some(4_000_000_000), "the end of the new one");
    }

    #[test]
    fn what_is_no_certificate_is_refused_with_its_file() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("empty.pem");
        std::fs::write(&path, "").expect("written");
        let files = CertificateFiles { certificate: path.clone(), key: path };
        let said = Tls::open(files).expect_err("refused").to_string();
        assert!(said.contains("empty.pem") && said.contains("no certificate"), "{said}");
    }
}
