//! Licence expressions (SPDX): whether one can be kept with the licences that are allowed.

/// Permissive licences, which ask for no more than their text beside the binary.
const ALLOWED: [&str; 10] = [
    "0BSD",
    "Apache-2.0",
    "Apache-2.0 WITH LLVM-exception",
    "BSD-2-Clause",
    "BSD-3-Clause",
    "ISC",
    "MIT",
    "Unicode-3.0",
    "Unlicense",
    "Zlib",
];

/// Whether the expression allows it. `/` is what older crates write for OR.
pub(super) fn is_allowed(expression: &str) -> bool {
    let spaced = expression.replace('/', " OR ").replace('(', " ( ").replace(')', " ) ");
    let words: Vec<&str> = spaced.split_whitespace().collect();
    let mut rest = &words[..];
    either(&mut rest) && rest.is_empty()
}

fn either(rest: &mut &[&str]) -> bool {
    let mut allowed = all(rest);
    while let ["OR", after @ ..] = *rest {
        *rest = after;
        allowed |= all(rest);
    }
    allowed
}

fn all(rest: &mut &[&str]) -> bool {
    let mut allowed = one(rest);
    while let ["AND", after @ ..] = *rest {
        *rest = after;
        allowed &= one(rest);
    }
    allowed
}

fn one(rest: &mut &[&str]) -> bool {
    match *rest {
        ["(", after @ ..] => {
            *rest = after;
            let allowed = either(rest);
            let closed = rest.first() == Some(&")");
            *rest = rest.get(1..).unwrap_or_default();
            allowed && closed
        }
        [name, "WITH", exception, after @ ..] => {
            *rest = after;
            ALLOWED.contains(&format!("{name} WITH {exception}").as_str())
        }
        [name, after @ ..] => {
            *rest = after;
            ALLOWED.contains(name)
        }
        [] => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_side_of_or_and_both_of_and() {
        for text in ["MIT", "MIT/Apache-2.0", "GPL-3.0-only OR MIT", "(MIT OR Apache-2.0) AND Unicode-3.0"] {
            assert!(is_allowed(text), "{text}");
        }
        for text in ["", "GPL-3.0-only", "MIT AND GPL-3.0-only", "(MIT", "MIT)", "Apache-2.0 WITH X"] {
            assert!(!is_allowed(text), "{text}");
        }
        assert!(is_allowed("Apache-2.0 WITH LLVM-exception OR GPL-2.0-only"));
    }
}
