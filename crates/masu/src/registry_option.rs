//! The options that name a registry, of every command that has one.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use anyhow::{Context, Result, ensure};
use registry::Registry;
use registry_etcd::{Access, AccessFiles, Location, open};
use world::World;

/// Of the group, and of all others: to list, and to enter.
const OTHERS_READ: u32 = 0o055;

const UNNAMED: &str = "no registry: pass --registry DIR or --registry etcd://HOST:PORT";

/// The longest name of a node: the keys that have it are at most 200 characters long.
const NODE_LEN_MAX: usize = 128;

/// A name for this node, as `--node` takes it: a part of keys of the registry, and of file names.
pub(crate) fn node_name(text: &str) -> Result<String, String> {
    config::new_name(text, NODE_LEN_MAX).map(|()| text.into())
}

/// Where the registry is, and how it is reached. Passwords come from a file or the environment: the command
/// line is visible to every user of the machine.
#[derive(Clone, clap::Args)]
pub(crate) struct RegistryOption {
    /// Registry that nodes share: a directory, the same for all processes of this machine, or an etcd
    /// cluster: `etcd://HOST:PORT[,HOST:PORT...][/PREFIX]`, or `etcds://` with TLS. The default prefix is
    /// masu/default
    #[arg(long, value_name = "DIR|ADDRESS")]
    registry: Option<String>,
    /// File with the user of etcd in its first line and the password in the second, which other users cannot
    /// read; without it MASU_ETCD_USER and MASU_ETCD_PASSWORD are used
    #[arg(long, value_name = "FILE", requires = "registry")]
    registry_login: Option<PathBuf>,
    /// Certificates (PEM) of the authorities that certify the members of etcd; required with etcds://
    #[arg(long, value_name = "FILE", requires = "registry")]
    registry_ca: Option<PathBuf>,
    /// Certificate (PEM) of this client of etcd
    #[arg(long, value_name = "FILE", requires = "registry_key")]
    registry_cert: Option<PathBuf>,
    /// Key (PEM) of this client of etcd, in a file that other users cannot read
    #[arg(long, value_name = "FILE", requires = "registry_cert")]
    registry_key: Option<PathBuf>,
}

/// Options of a command line, and the files that they name.
#[derive(Default)]
pub(crate) struct Words {
    pub(crate) options: Vec<(&'static str, String)>,
    pub(crate) files: Vec<PathBuf>,
}

impl Words {
    pub(crate) fn add(&mut self, option: &'static str, file: PathBuf) {
        self.options.push((option, file.display().to_string()));
        self.files.push(file);
    }
}

impl RegistryOption {
    /// What is named. Not parsed by clap, which repeats a wrong value, with a password that may be in it.
    fn location(&self) -> Result<Option<Location>> {
        let parsed = self.registry.as_deref().map(str::parse).transpose();
        parsed.context("invalid --registry")
    }

    /// Whether one is named.
    pub(crate) fn is_named(&self) -> bool {
        self.registry.is_some()
    }

    /// Whether nodes of several machines reach it.
    pub(crate) fn spans_machines(&self) -> Result<bool> {
        Ok(matches!(self.location()?, Some(Location::Etcd(_))))
    }

    /// Opens the registry, which must be named.
    pub(crate) fn open_named(&self, world: &World) -> Result<Rc<dyn Registry>> {
        self.open(world)?.context(UNNAMED)
    }

    /// Opens the registry, which must be named and be there: who only reads creates none.
    pub(crate) fn open_existing(&self, world: &World) -> Result<Rc<dyn Registry>> {
        if let Some(Location::Directory(path)) = self.location()? {
            // One that has lost its format is opened, which says what to do.
            let has = |name: &str| path.join(name).try_exists().with_context(|| path.display().to_string());
            ensure!(
                has("format")? || has("keys")?,
                "no registry in {}: name the directory that the nodes have as --registry",
                path.display()
            );
        }
        self.open_named(world)
    }

    /// Warns if other users can read a directory, which an older version has made.
    pub(crate) fn warn_if_readable(&self) -> Result<()> {
        let Some(Location::Directory(path)) = self.location()? else { return Ok(()) };
        let is_open = |path: &Path| {
            std::fs::metadata(path).is_ok_and(|about| about.permissions().mode() & OTHERS_READ != 0)
        };
        if is_open(&path) && is_open(&path.join("keys")) {
            let path = path.display();
            tracing::warn!(
                "other users can read the registry, which has the secrets of hosts: chmod -R go= {path}"
            );
        }
        Ok(())
    }

    /// The options as they name this registry, for a command line on another machine, and their files.
    /// Nothing secret is among them.
    ///
    /// # Errors
    /// None is named, or a relative path cannot be resolved.
    pub(crate) fn words(&self) -> Result<Words> {
        let location = self.location()?.context(UNNAMED)?;
        let mut words = Words::default();
        let absolute = |path: &Path| -> Result<PathBuf> {
            std::path::absolute(path).with_context(|| path.display().to_string())
        };
        let place = match &location {
            Location::Directory(path) => absolute(path)?.display().to_string(),
            Location::Etcd(_) => location.to_string(),
        };
        words.options.push(("--registry", place));
        for (option, file) in [
            ("--registry-ca", &self.registry_ca),
            ("--registry-cert", &self.registry_cert),
            ("--registry-key", &self.registry_key),
            ("--registry-login", &self.registry_login),
        ] {
            let Some(file) = file else { continue };
            let file = absolute(file)?;
            words.add(option, file);
        }
        Ok(words)
    }

    /// Whether user and password of etcd come from the environment.
    pub(crate) fn has_login_in_environment(&self) -> Result<bool> {
        Ok(self.spans_machines()? && self.registry_login.is_none() && variable("MASU_ETCD_USER")?.is_some())
    }

    /// Opens the registry; none: none is named.
    pub(crate) fn open(&self, world: &World) -> Result<Option<Rc<dyn Registry>>> {
        let Some(location) = self.location()? else { return Ok(None) };
        let files = AccessFiles {
            login: self.registry_login.clone(),
            authority: self.registry_ca.clone(),
            certificate: self.registry_cert.clone(),
            key: self.registry_key.clone(),
        };
        let (user, password) = (variable("MASU_ETCD_USER")?, variable("MASU_ETCD_PASSWORD")?);
        let access = Access::read(&location, &files, user, password)?;
        let opened = open(world, &location, &access);
        // etcd's own errors name the address.
        Ok(Some(match location {
            Location::Directory(_) => opened.with_context(|| format!("cannot open registry {location}"))?,
            Location::Etcd(_) => opened?,
        }))
    }
}

/// One of the environment; none: it is not set, or empty.
#[expect(
    clippy::disallowed_methods,
    reason = "as an option of clap, a password could be on the command line"
)]
fn variable(name: &str) -> Result<Option<String>> {
    match std::env::var(name) {
        Ok(text) => Ok(Some(text).filter(|text| !text.is_empty())),
        Err(std::env::VarError::NotPresent) => Ok(None),
        Err(std::env::VarError::NotUnicode(_)) => anyhow::bail!("invalid {name}: must be UTF-8"),
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        registry: RegistryOption,
    }

    #[test]
    fn a_name_of_a_node_is_one_part_of_a_key() {
        let longest = "n".repeat(NODE_LEN_MAX);
        for good in ["n1", "host-7.example.net", "a_b", "...", &longest] {
            assert_eq!(node_name(good).as_deref(), Ok(good));
        }
        for bad in ["", ".", "..", "-n", "--help", "a/b", "/", "a b", "ä", "a\n", &format!("{longest}n")] {
            let refused = node_name(bad).expect_err(bad);
            let begins = ["a name, ", "a name begins with ", "invalid name: must have 1 to "];
            assert!(begins.iter().any(|begin| refused.starts_with(begin)), "{bad}: {refused}");
        }
    }

    #[test]
    fn a_password_on_the_command_line_is_refused_and_not_repeated() {
        let location = |text: &str| {
            Line::try_parse_from(["x", "--registry", text]).expect("options").registry.location()
        };
        assert!(location("etcds://a:2379,b/masu/one").is_ok_and(|location| location.is_some()));
        let refused = format!("{:#}", location("etcd://root:geheim@a:2379").expect_err("refused"));
        assert!(refused.contains("--registry-login") && !refused.contains("geheim"), "{refused}");
        for alone in ["--registry-ca", "--registry-cert", "--registry-key", "--registry-login"] {
            assert!(Line::try_parse_from(["x", alone, "file"]).is_err(), "{alone}");
        }
    }
}
