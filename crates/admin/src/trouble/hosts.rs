//! Who is refused again and again.

use array::Severity;
use status::{Refusals, Trouble};

use super::told::trouble;

/// Strangers that are named.
const STRANGERS_MAX: usize = 8;

/// What admits a declared host whose login was answered with this status (RFC 7143 11.13.5).
fn to_admit(status: Option<u16>) -> &'static str {
    match status {
        Some(0x0201 | 0x0202) => {
            "compare its CHAP name and secret (masu host set); if it is another machine, find it by its address"
        }
        Some(0x0203) => "give it the target name that masu status prints in its first line",
        Some(0x0206 | 0x020a) => "let it log in with one connection for each session, as new sessions",
        Some(0x0301) => "wait until the array serves; if it does, see masu events",
        Some(0x0302) => {
            "end sessions that it does not need (masu status lists them), or let it use fewer paths; the limits are in \
             docs/iscsi.md"
        }
        Some(_) => "see docs/iscsi.md for what logins must ask for, and whether its initiator is set so",
        None => "see what connects from its address and does not log in: masu events",
    }
}

/// Declared hosts each; of strangers, whose names may be made up, a few.
pub(super) fn of_refused(refused: &[Refusals], all: &mut Vec<Trouble>) {
    let (hosts, strangers): (Vec<_>, Vec<_>) = refused.iter().partition(|r| r.is_host);
    let mut tell = |r: &Refusals, to_do: &str| {
        let text = format!("is refused again and again, {} times; the last: {}", r.logins, r.text);
        all.push(trouble(Severity::Warning, r.object.clone(), "refused", text, to_do));
    };
    hosts.iter().for_each(|host| tell(host, to_admit(host.login_status)));
    let to_do = "declare it if it is yours: masu host set NAME INITIATOR; otherwise see where it comes from";
    strangers.iter().take(STRANGERS_MAX).for_each(|stranger| tell(stranger, to_do));
    if let Some(more) = strangers.len().checked_sub(STRANGERS_MAX).filter(|more| *more > 0) {
        let text = format!("{more} more initiators that no host has are refused again and again");
        all.push(trouble(
            Severity::Warning,
            "array",
            "refused",
            text,
            "see where they come from: masu events",
        ));
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{check, group};
    use super::super::trouble_of;
    use super::*;

    #[test]
    fn who_is_refused_again_and_again_is_trouble_and_strangers_are_bounded() {
        let mut status = group("optimal", None, 0);
        let refused = |object: &str, is_host| Refusals {
            object: object.into(),
            is_host,
            logins: 5,
            login_status: Some(0x0201),
            text: "a login from 10.0.0.1 at 10.0.0.9:3260 was refused: wrong".into(),
        };
        status.refused = vec![refused("host h", true)];
        let expected =
            ["host h: is refused again and again, 5 times", "from 10.0.0.1", "CHAP name and secret"];
        check(&status, "warning", &expected);
        // It has too many sessions.
        status.refused[0].login_status = Some(0x0302);
        let told = trouble_of(&status).remove(0).to_do;
        assert!(told.contains("end sessions") && !told.contains("CHAP"), "{told}");
        status.refused[0].login_status = None;
        assert!(!trouble_of(&status)[0].to_do.contains("CHAP"));
        let strangers = (0..STRANGERS_MAX + 3).map(|n| refused(&format!("initiator {n}"), false));
        status.refused.splice(0..0, strangers);
        let all = trouble_of(&status);
        assert_eq!(all.len(), STRANGERS_MAX + 2);
        assert_eq!(all[0].object, "host h", "no stranger hides a host");
        let rest = all.last().map(|t| (t.object.as_str(), t.text.as_str()));
        assert_eq!(rest, Some(("array", "3 more initiators that no host has are refused again and again")));
    }
}
