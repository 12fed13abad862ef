//! iSCSI URLs in the form of libiscsi and QEMU: `iscsi://[user[%password]@]host[:port]/target/lun`.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use crate::target::Secret;

/// The TCP port of iSCSI (RFC 7143 clause 14).
const PORT_DEFAULT: u16 = 3260;

/// The address of a LU.
#[derive(Clone, PartialEq, Eq)]
#[expect(missing_docs, reason = "self-explanatory names")]
pub struct Url {
    /// Name or address of the host.
    pub host: String,
    /// TCP port.
    pub port: u16,
    /// The target's name.
    pub target: String,
    pub lun: u16,
    /// CHAP name and secret.
    pub chap: Option<Secret>,
    /// The target's CHAP name and secret: `?target_user=…&target_password=…`.
    pub target_chap: Option<Secret>,
    /// `?header_digest=crc32c`.
    pub header_digest: bool,
    /// `?data_digest=crc32c`.
    pub data_digest: bool,
}

/// Why a URL is invalid.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("invalid iSCSI URL {url}: {cause}; expected iscsi://[user[%password]@]host[:port]/target/lun")]
pub struct UrlError {
    /// The URL, without its secrets.
    pub url: String,
    /// The reason.
    pub cause: &'static str,
}

impl Url {
    /// Parses a URL.
    ///
    /// # Errors
    ///
    /// The part that is missing or wrong.
    pub fn parse(url: &str) -> Result<Url, UrlError> {
        // The text before the last @ may contain a secret, and is never part of a message.
        let shown = url.rsplit_once('@').map_or(url.to_owned(), |(_, rest)| format!("iscsi://…@{rest}"));
        read(url)
            .map_err(|cause| UrlError { url: shown.split('?').next().unwrap_or_default().to_owned(), cause })
    }

    /// The portal's address, if the host is an address or `localhost`; the caller resolves names.
    pub fn address(&self) -> Option<SocketAddr> {
        let ip = match self.host.as_str() {
            "localhost" => IpAddr::V4(Ipv4Addr::LOCALHOST),
            host => host.parse().ok()?,
        };
        Some(SocketAddr::new(ip, self.port))
    }
}

fn read(url: &str) -> Result<Url, &'static str> {
    let rest = url.strip_prefix("iscsi://").ok_or("must begin with iscsi://")?;
    let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
    let (portal, path) = rest.split_once('/').ok_or("missing target")?;
    let (user, portal) = match portal.rsplit_once('@') {
        Some((user, portal)) => (Some(user), portal),
        None => (None, portal),
    };
    let chap = user.map(|user| {
        let (name, secret) = user.split_once('%').unwrap_or((user, ""));
        Secret { name: name.into(), secret: secret.into() }
    });
    let (host, port) = split_port(portal)?;
    let (target, lun) = path.split_once('/').ok_or("missing LUN")?;
    if host.is_empty() || target.is_empty() {
        return Err("empty host or target");
    }
    let lun =
        lun.parse::<u16>().ok().filter(|lun| *lun < 1 << 14).ok_or("LUN must be a number up to 16383")?;
    let mut read = Url {
        host: host.into(),
        port,
        target: target.into(),
        lun,
        chap,
        target_chap: None,
        header_digest: false,
        data_digest: false,
    };
    for option in query.split('&').filter(|o| !o.is_empty()) {
        apply(&mut read, option)?;
    }
    Ok(read)
}

fn split_port(portal: &str) -> Result<(&str, u16), &'static str> {
    let (host, port) = match portal.strip_prefix('[') {
        Some(v6) => {
            let (host, rest) = v6.split_once(']').ok_or("missing closing bracket of the address")?;
            (host, rest.strip_prefix(':'))
        }
        None => portal.split_once(':').map_or((portal, None), |(host, port)| (host, Some(port))),
    };
    match port {
        None => Ok((host, PORT_DEFAULT)),
        Some(port) => Ok((host, port.parse().map_err(|_| "port must be a number up to 65535")?)),
    }
}

fn apply(url: &mut Url, option: &str) -> Result<(), &'static str> {
    let (key, value) = option.split_once('=').ok_or("option without a value")?;
    let mut target = |f: fn(&mut Secret, &str)| {
        let secret =
            url.target_chap.get_or_insert_with(|| Secret { name: String::new(), secret: String::new() });
        f(secret, value);
    };
    match (key, value) {
        ("target_user", _) => target(|s, v| s.name = v.into()),
        ("target_password", _) => target(|s, v| s.secret = v.into()),
        ("header_digest", "crc32c" | "none") => url.header_digest = value == "crc32c",
        ("data_digest", "crc32c" | "none") => url.data_digest = value == "crc32c",
        _ => return Err("an unknown option"),
    }
    Ok(())
}

impl std::fmt::Display for Url {
    /// Without the secrets.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (open, close) = if self.host.contains(':') { ("[", "]") } else { ("", "") };
        write!(f, "iscsi://{open}{}{close}:{}/{}/{}", self.host, self.port, self.target, self.lun)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_are_read() {
        let url = Url::parse("iscsi://alice%s@cret@10.0.0.1:3261/iqn.2026-01.x:disk/7?header_digest=crc32c&target_user=t&target_password=p")
            .unwrap_or_else(|e| panic!("{e}"));
        let chap = url.chap.clone().unwrap();
        assert_eq!((chap.name.as_str(), chap.secret.as_str()), ("alice", "s@cret"));
        assert_eq!(url.target_chap.clone().unwrap().secret, "p");
        assert_eq!(url.address(), Some("10.0.0.1:3261".parse().unwrap()));
        assert!(url.header_digest && !url.data_digest);
        assert_eq!(url.to_string(), "iscsi://10.0.0.1:3261/iqn.2026-01.x:disk/7");
        let url = Url::parse("iscsi://[::1]/iqn.2026-01.x:disk/0").unwrap_or_else(|e| panic!("{e}"));
        assert_eq!(url.address(), Some("[::1]:3260".parse().unwrap()));
        assert_eq!(url.to_string(), "iscsi://[::1]:3260/iqn.2026-01.x:disk/0");
    }

    #[test]
    fn bad_urls_are_told_without_their_secrets() {
        for bad in [
            "",
            "http://x/y/0",
            "iscsi://host",
            "iscsi://host/iqn",
            "iscsi://host/iqn/x",
            "iscsi://host/iqn/16384",
            "iscsi:///iqn/0",
            "iscsi://host:x/iqn/0",
            "iscsi://[::1/iqn/0",
            "iscsi://host/iqn/0?colour=red",
        ] {
            assert!(Url::parse(bad).is_err(), "{bad}");
        }
        let error = Url::parse("iscsi://u%topsecret@host/iqn/x").err().unwrap();
        assert!(!error.to_string().contains("topsecret"), "{error}");
    }
}
