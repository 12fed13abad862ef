//! Confirmation of irreversible operations, and of those that take storage away from a host.

use std::io::{BufRead, IsTerminal, Write};

use anyhow::{Result, bail};
use lab_core::words::visible;

use super::request::Where;

/// Asks before an irreversible operation. `what` says what will happen: "volume v0 and its data will be
/// deleted".
///
/// # Errors
/// As of [`ask`].
pub(super) fn confirm(what: &str, at: &Where) -> Result<()> {
    ask(&format!("{what}; this cannot be undone"), at)
}

/// Asks on a terminal; without one, `--yes` is required. A dry run changes nothing, and asks nothing.
///
/// # Errors
/// The answer is not yes, or there is no terminal.
pub(super) fn ask(what: &str, at: &Where) -> Result<()> {
    if at.dry_run { Ok(()) } else { ask_unless(at.yes, what) }
}

/// As [`ask`], for commands that do not go to the array.
///
/// # Errors
/// As of [`ask`].
pub(super) fn ask_unless(yes: bool, what: &str) -> Result<()> {
    if yes {
        return Ok(());
    }
    let stdin = std::io::stdin();
    if !stdin.is_terminal() {
        bail!("{what}; pass --yes to confirm");
    }
    eprint!("{}. Continue? (yes/no) ", visible(what));
    std::io::stderr().flush()?;
    let mut answer = String::new();
    stdin.lock().read_line(&mut answer)?;
    match answer.trim() {
        "yes" | "y" => Ok(()),
        _ => bail!("cancelled; nothing was changed"),
    }
}
