//! The question before something that cannot be taken back, or that takes from a host what it uses.

use std::io::{BufRead, IsTerminal, Write};

use anyhow::{Result, bail};

/// Asks before something that cannot be taken back. `what` says what will happen: "volume v0 and its data are deleted".
///
/// # Errors
/// As of [`ask`].
pub(super) fn confirm(what: &str, yes: bool) -> Result<()> {
    ask(&format!("{what}, and that cannot be taken back"), yes)
}

/// Asks on a terminal; elsewhere nothing is done without `--yes`.
///
/// # Errors
/// The answer is not yes, or there is nobody to ask.
pub(super) fn ask(what: &str, yes: bool) -> Result<()> {
    if yes {
        return Ok(());
    }
    let stdin = std::io::stdin();
    if !stdin.is_terminal() {
        bail!("{what}: nobody is there to ask, so pass --yes to confirm");
    }
    eprint!("{what}. Go on? (yes/no) ");
    std::io::stderr().flush()?;
    let mut answer = String::new();
    stdin.lock().read_line(&mut answer)?;
    match answer.trim() {
        "yes" | "y" => Ok(()),
        _ => bail!("nothing was done"),
    }
}
