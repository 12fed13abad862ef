//! Who is refused again and again.

use array::Severity;
use status::{Refusals, Trouble};

use super::trouble;

/// Strangers that are named.
const STRANGERS_MAX: usize = 8;

/// Declared hosts each; of strangers, whose names may be made up, a few.
pub(super) fn of_refused(refused: &[Refusals], all: &mut Vec<Trouble>) {
    let (hosts, strangers): (Vec<_>, Vec<_>) = refused.iter().partition(|r| r.is_host);
    let mut tell = |r: &Refusals, to_do: &str| {
        let text = format!("is refused again and again, {} times; the last: {}", r.logins, r.text);
        all.push(trouble(Severity::Warning, r.object.clone(), "refused", text, to_do));
    };
    let to_do =
        "compare its CHAP name and secret (masu host set); if it is another machine, find it by its address";
    hosts.iter().for_each(|host| tell(host, to_do));
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
            text: "a login from 10.0.0.1 at 10.0.0.9:3260 was refused: wrong".into(),
        };
        status.refused = vec![refused("host h", true)];
        let expected =
            ["host h: is refused again and again, 5 times", "from 10.0.0.1", "CHAP name and secret"];
        check(&status, "warning", &expected);
        let strangers = (0..STRANGERS_MAX + 3).map(|n| refused(&format!("initiator {n}"), false));
        status.refused.splice(0..0, strangers);
        let all = trouble_of(&status);
        assert_eq!(all.len(), STRANGERS_MAX + 2);
        assert_eq!(all[0].object, "host h", "no stranger hides a host");
        let rest = all.last().map(|t| (t.object.as_str(), t.text.as_str()));
        assert_eq!(rest, Some(("array", "3 more initiators that no host has are refused again and again")));
    }
}
