//! The name of a Ceph RBD image as a drive.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

/// What such a name begins with.
const PREFIX: &str = "rbd:";

/// A Ceph RBD image, and how its cluster is reached. As text: `rbd:POOL/IMAGE[:id=USER][:conf=FILE]`, which
/// QEMU takes, too.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RbdImage {
    /// The Ceph pool.
    pub pool: String,
    /// Its name in the Ceph pool.
    pub image: String,
    /// The Ceph user without `client.`; `None`: the cluster's usual one, `admin`.
    pub user: Option<String>,
    /// The file with the cluster's addresses; `None`: where Ceph's programs look (`/etc/ceph/ceph.conf`).
    pub conf: Option<PathBuf>,
}

impl RbdImage {
    /// An image of `POOL/IMAGE`, reached in the usual way.
    ///
    /// # Errors
    /// It is not of this form.
    pub fn named(name: &str) -> Result<RbdImage, String> {
        let invalid = || format!("invalid RBD image {name:?}: must be POOL/IMAGE");
        let (pool, image) = name.split_once('/').ok_or_else(invalid)?;
        // Ceph separates its own names with these.
        let is_name = |part: &str| !part.is_empty() && !part.contains(['/', '@', ':', '\0']);
        if !is_name(pool) || !is_name(image) {
            return Err(invalid());
        }
        Ok(RbdImage { pool: pool.to_owned(), image: image.to_owned(), user: None, conf: None })
    }

    /// `POOL/IMAGE`.
    pub fn path(&self) -> String {
        format!("{}/{}", self.pool, self.image)
    }

    /// Whether the text is meant to name an image.
    pub fn is_named_by(text: &str) -> bool {
        text.starts_with(PREFIX)
    }
}

/// The whole text, with the options.
impl fmt::Display for RbdImage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{PREFIX}{}", self.path())?;
        if let Some(user) = &self.user {
            write!(f, ":id={user}")?;
        }
        match &self.conf {
            Some(conf) => write!(f, ":conf={}", conf.display()),
            None => Ok(()),
        }
    }
}

impl FromStr for RbdImage {
    type Err = String;

    fn from_str(text: &str) -> Result<RbdImage, String> {
        let form = "must be rbd:POOL/IMAGE[:id=USER][:conf=FILE]";
        let rest = text.strip_prefix(PREFIX).ok_or_else(|| format!("invalid RBD image {text:?}: {form}"))?;
        let mut parts = rest.split(':');
        let mut image = RbdImage::named(parts.next().unwrap_or_default())?;
        for part in parts {
            match part.split_once('=') {
                Some(("id", user)) if !user.is_empty() => image.user = Some(user.to_owned()),
                Some(("conf", conf)) if !conf.is_empty() => image.conf = Some(conf.into()),
                _ => return Err(format!("invalid option {part:?} of RBD image {text:?}: {form}")),
            }
        }
        Ok(image)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_as_they_are_written() {
        for text in ["rbd:vms/d0", "rbd:vms/d0:id=masu", "rbd:vms/d0:id=masu:conf=/etc/ceph/b.conf"] {
            assert_eq!(text.parse::<RbdImage>().map(|image| image.to_string()), Ok(text.to_owned()));
        }
        let image: RbdImage = "rbd:vms/d0:conf=c".parse().expect("a name");
        assert_eq!((image.path().as_str(), image.conf, image.user), ("vms/d0", Some("c".into()), None));
    }

    #[test]
    fn what_is_no_name_is_refused() {
        for text in ["vms/d0", "rbd:", "rbd:vms", "rbd:/d0", "rbd:vms/", "rbd:a/b/c", "rbd:a/b@snap"] {
            assert!(text.parse::<RbdImage>().is_err(), "{text}");
        }
        for text in ["rbd:a/b:id=", "rbd:a/b:id", "rbd:a/b:pool=c", "rbd:a/b:"] {
            let error = text.parse::<RbdImage>().expect_err("refused");
            assert!(error.starts_with("invalid option"), "{text}: {error}");
        }
    }
}
