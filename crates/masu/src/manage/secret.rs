//! CHAP credentials: from a file, the terminal or an environment variable. What stands on a command line is
//! seen by every user of the machine (`ps`), and kept in the shell's history.

use std::io::{BufRead, IsTerminal, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};
use clap::Args;
use rustix::termios::{LocalModes, OptionalActions, Termios, tcgetattr, tcsetattr};

/// The longest line that holds credentials: name and secret have at most 255 bytes each (RFC 7143, 12.1.3).
const LINE_LEN_MAX: usize = 1024;

/// Name and secret.
pub(super) type Credentials = (String, String);

#[derive(Args)]
pub(crate) struct ChapArgs {
    /// -: ask on the terminal for the CHAP credentials of the host (NAME:SECRET, a secret of at least 12
    /// bytes), or read them from standard input. The environment variable MASU_CHAP may hold them, too
    #[arg(long, value_name = "-", allow_hyphen_values = true, conflicts_with = "chap_file")]
    chap: Option<String>,
    /// Read the CHAP credentials of the host from the first line of a file, as NAME:SECRET
    #[arg(long, value_name = "FILE")]
    chap_file: Option<PathBuf>,
    /// -: the same for mutual CHAP, by which the array proves what it is; or MASU_MUTUAL_CHAP
    #[arg(long, value_name = "-", allow_hyphen_values = true, conflicts_with = "mutual_chap_file")]
    mutual_chap: Option<String>,
    /// Read the mutual CHAP credentials of the array from the first line of a file, as NAME:SECRET
    #[arg(long, value_name = "FILE")]
    mutual_chap_file: Option<PathBuf>,
}

impl ChapArgs {
    /// The credentials of the host, if any are given.
    ///
    /// # Errors
    /// They cannot be read, are no credentials, or stand on the command line.
    pub(super) fn chap(&self) -> Result<Option<Credentials>> {
        credentials("chap", "MASU_CHAP", self.chap.as_deref(), self.chap_file.as_deref())
    }

    /// Those of the array.
    ///
    /// # Errors
    /// As of [`ChapArgs::chap`].
    pub(super) fn mutual_chap(&self) -> Result<Option<Credentials>> {
        let (typed, file) = (self.mutual_chap.as_deref(), self.mutual_chap_file.as_deref());
        credentials("mutual-chap", "MASU_MUTUAL_CHAP", typed, file)
    }
}

#[expect(clippy::disallowed_methods, reason = "a secret may come from the environment")]
fn credentials(
    option: &str,
    variable: &str,
    typed: Option<&str>,
    file: Option<&Path>,
) -> Result<Option<Credentials>> {
    let from = match (typed, file) {
        (Some("-"), _) => (asked(option)?, format!("--{option} -")),
        (Some(_), _) => bail!(
            "refusing a secret on the command line, where every user of this machine sees it; use \
             --{option} - (asks), --{option}-file FILE, or the environment variable {variable}"
        ),
        (None, Some(path)) => {
            let text =
                lab_core::text_file::read(path).with_context(|| format!("cannot read {}", path.display()))?;
            (text, path.display().to_string())
        }
        (None, None) => match std::env::var(variable) {
            Ok(text) => (text, variable.to_owned()),
            Err(std::env::VarError::NotPresent) => return Ok(None),
            Err(_) => bail!("invalid {variable}: it is not UTF-8"),
        },
    };
    let (text, place) = from;
    parse(&text).with_context(|| format!("invalid credentials of {place}")).map(Some)
}

/// The first line, as NAME:SECRET. Errors do not repeat it.
fn parse(text: &str) -> Result<Credentials> {
    let line = text.lines().next().unwrap_or_default();
    ensure!(line.len() <= LINE_LEN_MAX, "the line is longer than {LINE_LEN_MAX} bytes");
    let (name, secret) = line.split_once(':').context("write NAME:SECRET")?;
    ensure!(!name.is_empty() && !secret.is_empty(), "write NAME:SECRET");
    Ok((name.into(), secret.into()))
}

/// A line of standard input; on a terminal it is asked for, and not shown while it is typed.
fn asked(option: &str) -> Result<String> {
    let stdin = std::io::stdin();
    let silence = if stdin.is_terminal() {
        eprint!("--{option}, as NAME:SECRET (not shown): ");
        std::io::stderr().flush()?;
        Some(Silence::begin()?)
    } else {
        None
    };
    let mut line = String::new();
    let read = stdin.lock().read_line(&mut line);
    if silence.is_some() {
        eprintln!();
    }
    read.context("cannot read standard input")?;
    Ok(line)
}

/// While it lives, the terminal does not show what is typed.
struct Silence(Termios);

impl Silence {
    fn begin() -> Result<Silence> {
        let before = tcgetattr(std::io::stdin()).context("cannot silence the terminal")?;
        let mut silent = before.clone();
        silent.local_modes.remove(LocalModes::ECHO);
        tcsetattr(std::io::stdin(), OptionalActions::Flush, &silent)
            .context("cannot silence the terminal")?;
        Ok(Silence(before))
    }
}

impl Drop for Silence {
    fn drop(&mut self) {
        let _ = tcsetattr(std::io::stdin(), OptionalActions::Now, &self.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn credentials_are_the_first_line() {
        let check = |text: &str, name: &str, secret: &str| {
            assert_eq!(parse(text).expect("good"), (name.to_owned(), secret.to_owned()));
        };
        check("kvm:twelve-bytes-or-more\n", "kvm", "twelve-bytes-or-more");
        check("kvm:with:colons\r\nrest", "kvm", "with:colons");
        for wrong in ["", "\nkvm:secret", "kvm", ":secret", "kvm:", &"k".repeat(2000)] {
            let error = format!("{:#}", parse(wrong).expect_err("wrong"));
            assert!(wrong.is_empty() || !error.contains(wrong), "the secret is not repeated: {error}");
        }
    }

    #[test]
    fn a_secret_on_the_command_line_is_refused_and_not_repeated() {
        let refused =
            credentials("chap", "MASU_CHAP", Some("kvm:a-secret-of-twelve"), None).expect_err("refused");
        let text = format!("{refused:#}");
        assert!(
            text.contains("--chap-file") && text.contains("MASU_CHAP") && !text.contains("twelve"),
            "{text}"
        );
    }
}
