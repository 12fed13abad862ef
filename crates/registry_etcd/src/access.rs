//! Who the client is, and whom it trusts: from files and the environment, never from the command line.

#![expect(clippy::disallowed_types, reason = "files of a user, of which no more is read than they may have")]

use std::fmt;
use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use crate::Location;

/// Longer than any certificate chain, login or key.
const FILE_LEN_MAX: u64 = 1 << 20;

const CERTIFICATE: &str = "CERTIFICATE";
const KEY: &str = "PRIVATE KEY";

/// A user of etcd.
#[derive(Clone, PartialEq, Eq)]
pub struct Login {
    /// Its name.
    pub user: String,
    /// Sent in the clear, unless the address is `etcds://`.
    pub password: String,
}

impl fmt::Debug for Login {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Login({}, password not shown)", self.user)
    }
}

/// How etcd is reached; nothing of it is needed for a directory.
#[derive(Clone, Default)]
pub struct Access {
    /// None: without authentication.
    pub login: Option<Login>,
    /// The certificates that those of the members must lead to, as PEM.
    pub authority: Option<Vec<u8>>,
    /// The client's own certificate and its key, as PEM.
    pub identity: Option<(Vec<u8>, Vec<u8>)>,
    /// From where they were read, to be read again: what is replaced there is used without a restart.
    pub files: AccessFiles,
}

/// The files that an access is read from.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AccessFiles {
    /// User and password, one in each of two lines.
    pub login: Option<PathBuf>,
    /// [`Access::authority`]
    pub authority: Option<PathBuf>,
    /// The client's certificate.
    pub certificate: Option<PathBuf>,
    /// That of the certificate, in a file that other users cannot read.
    pub key: Option<PathBuf>,
}

/// Why there is no access.
#[derive(Debug, thiserror::Error)]
pub enum AccessError {
    /// What is wrong with the file of an option.
    #[error("{option}: {cause}")]
    #[expect(missing_docs, reason = "self-explanatory names")]
    Option { option: &'static str, cause: Box<AccessError> },
    /// The file cannot be read.
    #[error("cannot read {}: {cause}", path.display())]
    #[expect(missing_docs, reason = "self-explanatory names")]
    File { path: PathBuf, cause: std::io::Error },
    /// Anybody could take the secret.
    #[error("{} is readable by every user of this machine: remove that permission (chmod o-rwx)", path.display())]
    #[expect(missing_docs, reason = "self-explanatory names")]
    Exposed { path: PathBuf },
    /// Reading it may never end.
    #[error("{} is a directory, a pipe or a device: name a file", path.display())]
    #[expect(missing_docs, reason = "self-explanatory names")]
    Kind { path: PathBuf },
    /// Not what it should be.
    #[error("{} is longer than {FILE_LEN_MAX} bytes: name another file", path.display())]
    #[expect(missing_docs, reason = "self-explanatory names")]
    Long { path: PathBuf },
    /// Not what it should be.
    #[error("{} has no {what} in PEM form: name another file", path.display())]
    #[expect(missing_docs, reason = "self-explanatory names")]
    Pem { path: PathBuf, what: &'static str },
    /// Not a login.
    #[error("{} is not a login: must be the user in the first line and the password in the second", path.display())]
    #[expect(missing_docs, reason = "self-explanatory names")]
    Login { path: PathBuf },
    /// A user and a password belong together.
    #[error("only one of MASU_ETCD_USER and MASU_ETCD_PASSWORD is set: set both")]
    HalfLogin,
    /// They prove something only together.
    #[error("only one of the client's certificate and its key is given: give both")]
    HalfIdentity,
    /// Nobody to trust.
    #[error("etcds:// without a certificate authority: give its certificate as a file (--registry-ca)")]
    NoAuthority,
    /// They would not be used.
    #[error("certificates for {0}: use etcds:// for TLS")]
    NotTls(Location),
    /// It would not be used.
    #[error("user and password for a directory: remove them, or name etcd")]
    NotEtcd,
}

/// The text of a file with a secret, which others than its owner and group must not read.
///
/// # Errors
/// It cannot be read, is too long, or others can read it.
pub fn read_secret(path: &Path) -> Result<String, AccessError> {
    Ok(String::from_utf8_lossy(&read(path, true)?).into_owned())
}

fn read(path: &Path, is_secret: bool) -> Result<Vec<u8>, AccessError> {
    let failed = |cause| AccessError::File { path: path.into(), cause };
    let about = std::fs::metadata(path).map_err(failed)?;
    if !about.is_file() {
        return Err(AccessError::Kind { path: path.into() });
    }
    if is_secret && about.mode() & 0o007 != 0 {
        return Err(AccessError::Exposed { path: path.into() });
    }
    let mut bytes = Vec::new();
    // Files of /proc and /sys say that they are empty.
    let file = std::fs::File::open(path).map_err(failed)?;
    file.take(FILE_LEN_MAX + 1).read_to_end(&mut bytes).map_err(failed)?;
    match bytes.len() as u64 > FILE_LEN_MAX {
        true => Err(AccessError::Long { path: path.into() }),
        false => Ok(bytes),
    }
}

/// A file of PEM that has at least one of these.
fn read_pem(path: &Path, what: &'static str) -> Result<Vec<u8>, AccessError> {
    let pem = read(path, what == KEY)?;
    let mut lines = pem.split(|byte| *byte == b'\n');
    let ends = format!("{what}-----");
    let is_one =
        |line: &[u8]| line.starts_with(b"-----BEGIN ") && line.trim_ascii_end().ends_with(ends.as_bytes());
    if lines.any(is_one) { Ok(pem) } else { Err(AccessError::Pem { path: path.into(), what }) }
}

fn login_of(path: &Path) -> Result<Login, AccessError> {
    of("--registry-login", read_login(path))
}

fn read_login(path: &Path) -> Result<Login, AccessError> {
    let text = String::from_utf8(read(path, true)?).unwrap_or_default();
    let mut lines = text.lines();
    match (lines.next(), lines.next(), lines.next()) {
        (Some(user), Some(password), None) if !user.is_empty() && !password.is_empty() => {
            Ok(Login { user: user.into(), password: password.into() })
        }
        _ => Err(AccessError::Login { path: path.into() }),
    }
}

/// The authority, and the client's certificate with its key.
type Certificates = (Option<Vec<u8>>, Option<(Vec<u8>, Vec<u8>)>);

/// Says which option names the file.
fn of<T>(option: &'static str, read: Result<T, AccessError>) -> Result<T, AccessError> {
    read.map_err(|cause| AccessError::Option { option, cause: Box::new(cause) })
}

fn certificates(files: &AccessFiles) -> Result<Certificates, AccessError> {
    let authority = files.authority.as_deref().map(|path| read_pem(path, CERTIFICATE)).transpose();
    let authority = of("--registry-ca", authority)?;
    let identity = match (&files.certificate, &files.key) {
        (None, None) => None,
        (Some(certificate), Some(key)) => Some((
            of("--registry-cert", read_pem(certificate, CERTIFICATE))?,
            of("--registry-key", read_pem(key, KEY))?,
        )),
        _ => return Err(AccessError::HalfIdentity),
    };
    Ok((authority, identity))
}

impl Access {
    /// Reads the files. `user` and `password` are those of the environment, for who has no login file.
    ///
    /// # Errors
    /// [`AccessError`]: a file, a secret that others can read, or what does not fit the location.
    pub fn read(
        location: &Location,
        files: &AccessFiles,
        user: Option<String>,
        password: Option<String>,
    ) -> Result<Access, AccessError> {
        let has_certificates = [&files.authority, &files.certificate, &files.key].iter().any(|f| f.is_some());
        let login = match (&files.login, user, password) {
            (Some(path), _, _) => Some(login_of(path)?),
            (None, Some(user), Some(password)) => Some(Login { user, password }),
            (None, None, None) => None,
            (None, ..) => return Err(AccessError::HalfLogin),
        };
        let has_tls = matches!(location, Location::Etcd(address) if address.has_tls());
        match location {
            // The environment may be there for other processes.
            Location::Directory(_) if files.login.is_some() => return Err(AccessError::NotEtcd),
            _ if has_tls && files.authority.is_none() => return Err(AccessError::NoAuthority),
            _ if !has_tls && has_certificates => return Err(AccessError::NotTls(location.clone())),
            _ => {}
        }
        let (authority, identity) = certificates(files)?;
        Ok(Access { login, authority, identity, files: files.clone() })
    }

    /// With what its files have now. What was not read from a file stays.
    ///
    /// # Errors
    /// [`AccessError`]: a file that cannot be used now.
    pub fn again(&self) -> Result<Access, AccessError> {
        let read = self.files.login.as_deref().map(login_of).transpose()?;
        let (authority, identity) = certificates(&self.files)?;
        Ok(Access {
            login: read.or_else(|| self.login.clone()),
            authority: authority.or_else(|| self.authority.clone()),
            identity: identity.or_else(|| self.identity.clone()),
            files: self.files.clone(),
        })
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn access(location: &str, files: &AccessFiles) -> Result<Access, AccessError> {
        Access::read(&location.parse().expect("a location"), files, None, None)
    }

    /// What is wrong with the file of this option.
    fn wrong(access: Result<Access, AccessError>, named: &str) -> AccessError {
        match access.map(drop).expect_err("refused") {
            AccessError::Option { option, cause } if option == named => *cause,
            other => panic!("{named}: {other}"),
        }
    }

    #[test]
    fn a_login_is_read_from_a_file_that_others_cannot_read() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("login");
        let files = AccessFiles { login: Some(path.clone()), ..AccessFiles::default() };
        let mode = |mode| {
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).expect("permissions");
        };
        let wrong = || wrong(access("etcd://a", &files), "--registry-login");
        assert!(matches!(wrong(), AccessError::File { .. }));
        std::fs::write(&path, "root\ngeheim\n").expect("written");
        mode(0o644);
        assert!(matches!(wrong(), AccessError::Exposed { .. }));
        mode(0o640);
        let login = access("etcd://a", &files).expect("access").login.expect("a login");
        assert_eq!((login.user.as_str(), login.password.as_str()), ("root", "geheim"));
        assert!(!format!("{login:?}").contains("geheim"));
        assert!(matches!(access("dir", &files), Err(AccessError::NotEtcd)));
        for bad in ["", "root", "root\n\n", "\nx\n", "a\nb\nc\n"] {
            std::fs::write(&path, bad).expect("written");
            assert!(matches!(wrong(), AccessError::Login { .. }), "{bad:?}");
        }
    }

    #[test]
    fn what_is_no_file_is_named_and_not_waited_for() {
        let dir = tempfile::tempdir().expect("a directory");
        let pipe = dir.path().join("pipe");
        assert!(std::process::Command::new("mkfifo").arg(&pipe).status().expect("mkfifo").success());
        let good = dir.path().join("good.pem");
        std::fs::write(&good, "-----BEGIN CERTIFICATE-----\n").expect("written");
        let some_good = || Some(good.clone());
        for path in [dir.path(), &pipe, Path::new("/dev/zero")] {
            let authority = some_good();
            let some = || Some(path.to_owned());
            for (option, files) in [
                ("--registry-ca", AccessFiles { authority: some(), ..AccessFiles::default() }),
                ("--registry-login", AccessFiles { login: some(), ..AccessFiles::default() }),
                (
                    "--registry-cert",
                    AccessFiles {
                        certificate: some(),
                        key: some(),
                        authority: authority.clone(),
                        login: None,
                    },
                ),
                (
                    "--registry-key",
                    AccessFiles { certificate: some_good(), key: some(), authority, login: None },
                ),
            ] {
                let refused = wrong(access("etcds://a", &files), option);
                assert!(matches!(refused, AccessError::Kind { .. }), "{refused}");
                assert!(refused.to_string().contains("name a file"), "{refused}");
            }
        }
        let long = dir.path().join("long");
        std::fs::File::create(&long).and_then(|file| file.set_len(FILE_LEN_MAX + 1)).expect("made");
        assert!(matches!(read(&long, false), Err(AccessError::Long { .. })));
    }

    #[test]
    fn halves_and_certificates_without_tls_are_refused() {
        let some = |name: &str| Some(PathBuf::from(name));
        let authority = AccessFiles { authority: some("ca"), ..AccessFiles::default() };
        assert!(matches!(access("etcd://a", &authority), Err(AccessError::NotTls(_))));
        assert!(matches!(access("dir", &authority), Err(AccessError::NotTls(_))));
        assert!(matches!(access("etcds://a", &AccessFiles::default()), Err(AccessError::NoAuthority)));
        let dir = tempfile::tempdir().expect("a directory");
        let ca = dir.path().join("ca.pem");
        std::fs::write(&ca, "").expect("written");
        let empty = AccessFiles { authority: Some(ca.clone()), ..AccessFiles::default() };
        assert!(matches!(wrong(access("etcds://a", &empty), "--registry-ca"), AccessError::Pem { .. }));
        std::fs::write(&ca, "-----BEGIN CERTIFICATE-----\n").expect("written");
        let half = AccessFiles { authority: Some(ca), key: some("key"), ..AccessFiles::default() };
        assert!(matches!(access("etcds://a", &half), Err(AccessError::HalfIdentity)));
        let location: Location = "etcd://a".parse().expect("a location");
        let lone = Access::read(&location, &AccessFiles::default(), Some("root".into()), None);
        assert!(matches!(lone, Err(AccessError::HalfLogin)));
    }
}
