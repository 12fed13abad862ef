//! iSCSI names (RFC 7143 4.2.7) of initiators that log in: what is accepted, and the form in which names are
//! compared.

/// Length limit of an iSCSI name (4.2.7.1).
const NAME_LEN_MAX: usize = 223;

/// The form in which names are compared (4.2.7.1, RFC 3722): some initiators send capitals.
pub(crate) fn normalised(name: &str) -> String {
    name.to_lowercase()
}

/// The minimum checks for a login of any initiator: type, length, and characters. The underscore is accepted
/// because initiators send it.
pub(crate) fn is_acceptable(name: &str) -> bool {
    let is_known = |(kind, rest): (&str, &str)| {
        !rest.is_empty() && ["iqn.", "eui.", "naa."].iter().any(|k| kind.eq_ignore_ascii_case(k))
    };
    name.len() <= NAME_LEN_MAX
        && name.split_at_checked(4).is_some_and(is_known)
        && name.chars().all(|c| c.is_alphanumeric() || matches!(c, '-' | '.' | ':' | '_'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_login_may_have_names_that_no_declaration_has() {
        for good in ["iqn.2026-01.Example:host_7", "iqn.kvm1", "eui.02004567a425678d", "NAA.520045"] {
            assert!(is_acceptable(good), "{good}");
        }
        let long = format!("iqn.2026-01.example:{}", "a".repeat(204));
        for bad in ["", "*", "kvm1", "iqn.", "eqn.2026-01.example:k", "iqn.2026-01.example:a b", &long] {
            assert!(!is_acceptable(bad), "{bad}");
        }
        assert_eq!(normalised("iqn.2026-01.Example:K"), "iqn.2026-01.example:k");
    }
}
