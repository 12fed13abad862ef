//! iSCSI names (RFC 7143 4.2.7) as a declaration may have them, and the form in which they are compared.

/// Length limit of an iSCSI name (4.2.7.1).
const NAME_LEN_MAX: usize = 223;

/// Why a text is not an iSCSI name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum NameError {
    /// An unknown type of name.
    #[error(
        "not an iSCSI name (expected iqn.YYYY-MM.DOMAIN[:NAME], eui. with 16 or naa. with 16 or 32 hexadecimal digits)"
    )]
    Type,
    /// Too long.
    #[error("iSCSI name too long: must have at most {NAME_LEN_MAX} bytes")]
    Long,
    /// An invalid character.
    #[error("invalid character in an iSCSI name: must be letters, digits, '-', '.' or ':'")]
    Character,
    /// Not in lower case, in which names are compared.
    #[error("invalid capital letter in an iSCSI name: must be lower case")]
    Case,
}

/// The form in which names are compared (4.2.7.1, RFC 3722): some initiators send capitals.
pub fn normalised(name: &str) -> String {
    name.to_lowercase()
}

/// Checks that a text is an iSCSI name in normalised form.
pub(crate) fn check(name: &str) -> Result<(), NameError> {
    check_characters(name)?;
    if normalised(name) != name {
        return Err(NameError::Case);
    }
    let hexadecimal = |digits: &str| digits.bytes().all(|b| b.is_ascii_hexdigit());
    let is_one = match name.split_at_checked(4) {
        Some(("iqn.", rest)) => is_qualified(rest),
        Some(("eui.", rest)) => rest.len() == 16 && hexadecimal(rest),
        Some(("naa.", rest)) => matches!(rest.len(), 16 | 32) && hexadecimal(rest),
        _ => false,
    };
    if is_one { Ok(()) } else { Err(NameError::Type) }
}

/// Checks the part after `iqn.`: a month, and a domain that its owner had then.
fn is_qualified(rest: &str) -> bool {
    let mut parts = rest.splitn(2, '.');
    let (month, domain) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
    let is_month = month.split_once('-').is_some_and(|(y, m)| {
        let digits = y.len() == 4 && m.len() == 2 && y.bytes().chain(m.bytes()).all(|b| b.is_ascii_digit());
        digits && ("01"..="12").contains(&m)
    });
    is_month && domain.starts_with(|c: char| c.is_alphanumeric())
}

/// Type, length, and characters. The underscore is accepted because initiators send it.
fn check_characters(name: &str) -> Result<(), NameError> {
    if name.len() > NAME_LEN_MAX {
        return Err(NameError::Long);
    }
    let is_known = |(kind, rest): (&str, &str)| {
        !rest.is_empty() && ["iqn.", "eui.", "naa."].iter().any(|k| kind.eq_ignore_ascii_case(k))
    };
    if !name.split_at_checked(4).is_some_and(is_known) {
        return Err(NameError::Type);
    }
    match name.chars().all(|c| c.is_alphanumeric() || matches!(c, '-' | '.' | ':' | '_')) {
        true => Ok(()),
        false => Err(NameError::Character),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_the_standard() {
        for good in [
            "iqn.2004-10.com.example:kvm1",
            "iqn.1991-05.com.microsoft:host_7",
            "iqn.2026-01.example",
            "iqn.2026-01.ex\u{e4}mple:k",
            "eui.02004567a425678d",
            "naa.52004567ba64678d",
            "naa.62004567ba64678d0123456789abcdef",
        ] {
            assert_eq!(check(good), Ok(()), "{good}");
        }
        for bad in [
            "",
            "*",
            "kvm1",
            "iqn",
            "iqn.",
            "iqn.kvm1",
            "iqn.2026-13.example:k",
            "iqn.26-01.example:k",
            "iqn.2026-01",
            "iqn.2026-01.",
            "iqn.2026-01.:k",
            "eui.02004567a425678",
            "eui.02004567a425678g",
            "naa.520045",
            "eqn.2026-01.example:k",
        ] {
            assert_eq!(check(bad), Err(NameError::Type), "{bad}");
        }
        assert_eq!(check("iqn.2026-01.example:K"), Err(NameError::Case));
        assert_eq!(check("iqn.2026-01.example:a b"), Err(NameError::Character));
        assert_eq!(check("iqn.2026-01.example:a,b"), Err(NameError::Character));
        assert_eq!(check(&format!("iqn.2026-01.example:{}", "a".repeat(204))), Err(NameError::Long));
        assert_eq!(normalised("iqn.2026-01.Example:K"), "iqn.2026-01.example:k");
    }
}
