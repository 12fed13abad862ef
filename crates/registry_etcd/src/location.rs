//! Where a registry is: a directory, or an etcd cluster.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use registry::Key;

/// Members of an address.
pub const MEMBERS_MAX: usize = 16;
/// The port of a member that names none: etcd's for clients.
pub const PORT: u16 = 2379;
/// Before the keys of an address without a prefix.
pub const PREFIX: &str = "/masu/default/";
/// The longest prefix: with the longest key still a short one for etcd.
const PREFIX_LEN_MAX: usize = 100;

/// Why an address is refused. None of them repeats a password.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LocationError {
    /// The text has no characters.
    #[error("empty registry: name a directory or etcd://HOST:PORT")]
    Empty,
    /// Everybody on the machine could read it in the list of processes.
    #[error(
        "the registry's address must not contain a user or password: put them into a file for \
         --registry-login, or into MASU_ETCD_USER and MASU_ETCD_PASSWORD"
    )]
    Login,
    /// Another scheme.
    #[error(
        "unknown registry {0}://: use a directory, etcd://HOST:PORT (what etcd calls http://), or etcds://HOST:PORT \
         for TLS (https://)"
    )]
    Scheme(String),
    /// More than one scheme.
    #[error(
        "a second :// in the registry's address: the scheme stands once, before all members, as in \
         etcds://a:2379,b:2379,c:2379; either all of them have TLS or none"
    )]
    Schemes,
    /// Somebody forgot the scheme; a new directory of that name would hide it.
    #[error(
        "registry {0} looks like an address: write etcd://HOST:PORT, or ./{0} for a directory of this name"
    )]
    NoScheme(String),
    /// Not a host with a port.
    #[error("invalid member {0:?} in the registry's address: must be HOST:PORT")]
    Member(String),
    /// The limit.
    #[error("too many members in the registry's address: at most {MEMBERS_MAX}")]
    TooMany,
    /// Not a path of keys.
    #[error("invalid prefix {0:?} in the registry's address: must be letters, digits, and . - _ /")]
    Prefix(String),
}

/// A cluster and the part of its keys that is the registry's: `etcd://HOST:PORT[,HOST:PORT…][/PREFIX]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Address {
    members: Vec<String>,
    prefix: String,
    has_tls: bool,
}

impl Address {
    /// `HOST:PORT` of each.
    pub fn members(&self) -> &[String] {
        &self.members
    }

    /// Before all keys: `/…/`.
    pub fn prefix(&self) -> &str {
        &self.prefix
    }

    /// `etcds://`.
    pub fn has_tls(&self) -> bool {
        self.has_tls
    }

    fn parse(rest: &str, has_tls: bool) -> Result<Address, LocationError> {
        if rest.contains('@') {
            return Err(LocationError::Login);
        }
        if rest.contains("://") {
            return Err(LocationError::Schemes);
        }
        let (hosts, prefix) = rest.split_once('/').unwrap_or((rest, ""));
        let members: Vec<String> = hosts.split(',').map(member).collect::<Result<_, _>>()?;
        if members.len() > MEMBERS_MAX {
            return Err(LocationError::TooMany);
        }
        let prefix = prefix.strip_suffix('/').unwrap_or(prefix);
        let prefix = match prefix {
            "" => PREFIX.to_owned(),
            _ if prefix.len() <= PREFIX_LEN_MAX && Key::new(prefix).is_ok() => format!("/{prefix}/"),
            _ => return Err(LocationError::Prefix(prefix.into())),
        };
        Ok(Address { members, prefix, has_tls })
    }
}

/// `etcd:…`, or `HOST:PORT`: who means a directory of this name puts `./` before it.
fn looks_like_address(text: &str) -> bool {
    let is_port = |port: &str| port.parse::<u16>().is_ok();
    match text.rsplit_once(':') {
        _ if text.starts_with("etcd:") || text.starts_with("etcds:") => true,
        Some((host, port)) => !host.is_empty() && !host.contains('/') && is_port(port),
        None => false,
    }
}

/// `HOST`, `HOST:PORT`, `[IPV6]` or `[IPV6]:PORT`.
fn member(text: &str) -> Result<String, LocationError> {
    let wrong = || LocationError::Member(text.into());
    let (host, port) = match text.strip_prefix('[') {
        Some(rest) => {
            let (host, after) = rest.split_once(']').ok_or_else(wrong)?;
            host.parse::<std::net::Ipv6Addr>().map_err(|_| wrong())?;
            let port = if after.is_empty() { None } else { Some(after.strip_prefix(':').ok_or_else(wrong)?) };
            (format!("[{host}]"), port)
        }
        None => {
            let (host, port) = match text.split_once(':') {
                Some((host, port)) => (host, Some(port)),
                None => (text, None),
            };
            let is_name = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '.';
            if host.is_empty() || !host.chars().all(is_name) {
                return Err(wrong());
            }
            (host.to_owned(), port)
        }
    };
    let port = match port {
        None => PORT,
        Some(port) => port.parse::<u16>().ok().filter(|port| *port > 0).ok_or_else(wrong)?,
    };
    Ok(format!("{host}:{port}"))
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = if self.has_tls { "etcds" } else { "etcd" };
        write!(f, "{scheme}://{}{}", self.members.join(","), self.prefix.trim_end_matches('/'))
    }
}

/// A registry, as `--registry` names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Location {
    /// Of files, for the processes of one machine.
    Directory(PathBuf),
    /// An etcd cluster.
    Etcd(Address),
}

impl FromStr for Location {
    type Err = LocationError;

    fn from_str(text: &str) -> Result<Location, LocationError> {
        match text.split_once("://") {
            _ if text.is_empty() => Err(LocationError::Empty),
            None if looks_like_address(text) => Err(LocationError::NoScheme(text.into())),
            None => Ok(Location::Directory(text.into())),
            Some(("etcd", rest)) => Address::parse(rest, false).map(Location::Etcd),
            Some(("etcds", rest)) => Address::parse(rest, true).map(Location::Etcd),
            Some((scheme, _)) if scheme.contains('/') => Ok(Location::Directory(text.into())),
            Some((_, rest)) if rest.contains('@') => Err(LocationError::Login),
            Some((scheme, _)) => Err(LocationError::Scheme(scheme.into())),
        }
    }
}

impl fmt::Display for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Location::Directory(path) => path.display().fmt(f),
            Location::Etcd(address) => address.fmt(f),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn etcd(text: &str) -> Address {
        match text.parse() {
            Ok(Location::Etcd(address)) => address,
            other => panic!("{text}: {other:?}"),
        }
    }

    #[test]
    fn directories_and_addresses_are_told_apart() {
        for path in ["registry", "/var/lib/shares", "a:b", "./x://y", "./etcd:2379", "/a:1", "etcd", ":1"] {
            assert_eq!(path.parse(), Ok(Location::Directory(path.into())));
        }
        let address = etcd("etcd://a:1,b.example,[::1]:3,[fe80::1]");
        assert_eq!(address.members(), ["a:1", "b.example:2379", "[::1]:3", "[fe80::1]:2379"]);
        assert_eq!((address.prefix(), address.has_tls()), (PREFIX, false));
        let address = etcd("etcds://a/masu/rack-1/");
        assert_eq!((address.prefix(), address.has_tls()), ("/masu/rack-1/", true));
        assert_eq!(address.to_string(), "etcds://a:2379/masu/rack-1");
        assert_eq!(etcd(&address.to_string()), address);
    }

    #[test]
    fn what_is_wrong_with_an_address_is_said_without_its_password() {
        let refused = |text: &str| text.parse::<Location>().expect_err(text);
        assert_eq!(refused(""), LocationError::Empty);
        for text in ["etcd://root:geheim@a:2379", "etcds://root@a", "https://root:geheim@a"] {
            let error = refused(text);
            assert_eq!(error, LocationError::Login);
            assert!(!error.to_string().contains("geheim"));
        }
        assert_eq!(refused("http://a:2379"), LocationError::Scheme("http".into()));
        for bad in ["", ":1", "a:", "a:0", "a:65536", "a:b:c", "a b", "[::1", "[a]:1", "[::1]x", "a,", "a_b"]
        {
            assert!(matches!(refused(&format!("etcd://{bad}")), LocationError::Member(_)), "{bad}");
        }
        for bad in ["a//b", "a b", "ä", "/a", &"a".repeat(PREFIX_LEN_MAX + 1)] {
            assert!(matches!(refused(&format!("etcd://h/{bad}")), LocationError::Prefix(_)), "{bad}");
        }
        for mixed in ["etcd://a:1,https://b:2", "etcds://a:1,etcd://b:2", "etcd://http://a:1"] {
            assert_eq!(refused(mixed), LocationError::Schemes, "{mixed}");
        }
        for forgotten in ["etcd:/a:1", "etcd:2379", "etcds:a", "127.0.0.1:2379", "a.example:1", "[::1]:2379"]
        {
            let error = refused(forgotten);
            assert_eq!(error, LocationError::NoScheme(forgotten.into()));
            assert!(error.to_string().contains("etcd://HOST:PORT"), "{error}");
        }
        let many = vec!["a"; MEMBERS_MAX + 1].join(",");
        assert_eq!(refused(&format!("etcd://{many}")), LocationError::TooMany);
    }
}
