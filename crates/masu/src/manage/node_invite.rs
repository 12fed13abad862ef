//! `masu node invite`: what to type on a machine that is to be a node. Nothing secret is in it: a node makes
//! its own certificate, and who can write to the registry can be a node (docs/decisions/0011).

use std::path::Path;

use admin::Store;
use anyhow::{Context, Result, bail, ensure};
use cluster::{MEMBERS, NODES, Overview, kept_text};
use registry::{Key, Registry};

use crate::known_nodes::known_nodes;
use crate::registry_option::{RegistryOption, Words, node_name};
use crate::state_key::StateKeys;

/// What the new node and the others must agree in.
struct Invitation {
    name: String,
    /// The options by which this command reached the registry, with their files.
    words: Words,
    /// User and password came from the environment.
    has_login_in_environment: bool,
    spans_machines: bool,
    nodes: Vec<admin::Node>,
    /// Where the other nodes have their portals.
    port: u16,
}

/// The port of iSCSI.
const PORT_DEFAULT: u16 = 3260;
/// Stands for an address of the new machine.
const ADDRESS: &str = "ADDRESS";

/// Checks that a node of this name can join, and says how.
///
/// # Errors
/// The name is taken, the registry does not answer, or the key of the state is not the nodes' one.
pub(super) async fn invite(
    registry: &dyn Registry,
    name: &str,
    (place, state_key): (&RegistryOption, Option<&Path>),
) -> Result<String> {
    node_name(name).map_err(|cause| anyhow::anyhow!("invalid node name {name:?}: {cause}"))?;
    let seen = Overview::look(registry, &[]).await?;
    let nodes = known_nodes(&seen, None);
    for kind in [NODES, MEMBERS] {
        // Also where its record cannot be read.
        if registry.get(&Key::new(&format!("{kind}{name}"))?).await?.is_some() {
            let role = nodes.iter().find(|node| node.name == name).map_or("known", |node| &node.role);
            bail!(
                "node {name} has joined already ({role}): choose another name, or, if it is down and is to be replaced, \
                 remove it first: masu node remove {name}"
            );
        }
    }
    refuse_other_key(registry, state_key).await?;
    let mut words = place.words()?;
    if let Some(key) = state_key {
        let key = std::path::absolute(key).with_context(|| key.display().to_string())?;
        words.add("--state-key", key);
    }
    let port = nodes
        .iter()
        .flat_map(|node| &node.portals)
        .find_map(|portal| portal.rsplit_once(':')?.1.parse().ok());
    let (name, port) = (name.to_owned(), port.unwrap_or(PORT_DEFAULT));
    let (spans_machines, has_login_in_environment) =
        (place.spans_machines()?, place.has_login_in_environment()?);
    let invitation = Invitation { name, words, has_login_in_environment, spans_machines, nodes, port };
    Ok(invitation.text())
}

/// A node with another key than the others would end at its start.
async fn refuse_other_key(registry: &dyn Registry, state_key: Option<&Path>) -> Result<()> {
    let keys = state_key.map(StateKeys::read).transpose()?.unwrap_or_default();
    for name in Store::SHARED {
        // A state that cannot be read is the matter of the nodes, which wait for it.
        let Ok(Some(text)) = kept_text(registry, name).await else { continue };
        let text = String::from_utf8_lossy(&text);
        keys.open(name, &text)?;
        ensure!(
            StateKeys::is_sealed(&text) || !keys.encrypt(),
            "the state in the registry is not encrypted: the nodes have no --state-key; leave it out, or give it to all of them"
        );
    }
    Ok(())
}

impl Invitation {
    fn text(&self) -> String {
        let Invitation { name, port, .. } = self;
        let mut lines = vec![
            format!("# {ADDRESS} below is an address of node {name}'s machine that hosts reach."),
            "# The declaration is the same on all nodes (the portals are those of --listen if it has no [[portal]]); \
             --data is the node's own, and empty."
                .into(),
        ];
        let files: Vec<String> = self.words.files.iter().map(|file| file.display().to_string()).collect();
        if !files.is_empty() {
            lines.push(format!(
                "# Copy there, to the same places, with their owners and modes: {}",
                files.join(" ")
            ));
        }
        if self.has_login_in_environment {
            lines.push(
                "# MASU_ETCD_USER and MASU_ETCD_PASSWORD as here, in the environment of that process.".into(),
            );
        }
        lines.extend(self.about_others());
        let options: String =
            self.words.options.iter().map(|(option, value)| format!(" {option} {}", quoted(value))).collect();
        lines.push(format!(
            "masu serve --node {name} --listen {ADDRESS}:{port} --data /var/lib/masu/{name} --config /etc/masu/array.toml\
             {options}"
        ));
        lines.join("\n")
    }

    /// What it must reach, and what it must be like.
    fn about_others(&self) -> Vec<String> {
        let mut lines = Vec::new();
        if !self.spans_machines {
            lines.push(
                "# The registry is a directory: the node runs on this machine, with a port or address of its own, as the user of the other nodes. Nodes of \
                 several machines need etcd."
                    .into(),
            );
        }
        let Some(owner) = self.nodes.iter().find(|node| node.role == "owner") else {
            lines.push("# No node owns the array now: the new one may be the first that does.".into());
            return lines;
        };
        let version = owner.version.as_deref().unwrap_or("unknown");
        lines.push(format!(
            "# Version of node {}, which owns the array: {version}; this is {}.",
            owner.name,
            env!("CARGO_PKG_VERSION")
        ));
        if self.spans_machines {
            lines.push(
                "# Each machine reaches the drives and the registry, and connects to the node ports of the others: a free \
                 port at the address of --listen, or that of --node-listen ADDR:PORT."
                    .into(),
            );
        }
        lines
    }
}

/// As a word of a shell.
fn quoted(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "/.,:_-+@%=".contains(c);
    if !word.is_empty() && word.chars().all(is_plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn invitation() -> Invitation {
        let options = vec![
            ("--registry", "etcds://a:2379,b:2379/masu/x".to_owned()),
            ("--registry-ca", "/etc/it's.pem".into()),
        ];
        Invitation {
            name: "n3".into(),
            words: Words { options, files: vec!["/etc/it's.pem".into()] },
            has_login_in_environment: false,
            spans_machines: true,
            nodes: vec![],
            port: 3261,
        }
    }

    #[test]
    fn the_line_has_what_reaches_the_registry_and_each_file_is_named() {
        let text = invitation().text();
        let line = text.lines().last().unwrap_or_default();
        assert!(
            line.starts_with("masu serve --node n3 --listen ADDRESS:3261 --data /var/lib/masu/n3 "),
            "{line}"
        );
        assert!(
            line.ends_with(r" --registry etcds://a:2379,b:2379/masu/x --registry-ca '/etc/it'\''s.pem'"),
            "{line}"
        );
        assert!(
            text.contains("Copy there, to the same places, with their owners and modes: /etc/it's.pem"),
            "{text}"
        );
        assert!(
            text.contains("No node owns the array now") && !text.contains("MASU_ETCD_PASSWORD"),
            "{text}"
        );
        let environment = Invitation { has_login_in_environment: true, ..invitation() };
        assert!(environment.text().contains("MASU_ETCD_PASSWORD as here"));
        let alone = Invitation { spans_machines: false, ..invitation() };
        assert!(alone.text().contains("the node runs on this machine"));
    }

    #[test]
    fn a_word_that_a_shell_would_change_is_quoted() {
        for (word, quoted_word) in [
            ("/a/b-c.d", "/a/b-c.d"),
            ("a b", "'a b'"),
            ("", "''"),
            ("a'b", r"'a'\''b'"),
            ("$x", "'$x'"),
            ("etcd://[::1]:2379", "'etcd://[::1]:2379'"),
        ] {
            assert_eq!(quoted(word), quoted_word);
        }
    }
}
