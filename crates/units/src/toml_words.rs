//! Messages about TOML files, in the words of TOML.

/// What serde says of fields and variants, in the words of a TOML file.
pub fn in_words_of_toml(message: &str) -> String {
    let words = [
        ("\n", " "),
        ("unknown field", "unknown key"),
        ("missing field", "missing key"),
        ("duplicate field", "duplicate key"),
        ("unknown variant", "unknown value"),
        (", expected one of", ": must be one of"),
        (", expected", ": must be"),
        // Types of Rust.
        ("must be usize", "must be a whole number"),
        ("must be u64", "must be a whole number"),
        ("must be u32", "must be a whole number"),
        ("must be u16", "must be a whole number up to 65535"),
        ("must be u8", "must be a whole number up to 255"),
    ];
    words.iter().fold(message.trim().to_owned(), |text, (from, to)| text.replace(from, to))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rust_is_not_spoken_of() {
        let said = "unknown field `cach`, expected one of `cache`, `drives`";
        assert_eq!(in_words_of_toml(said), "unknown key `cach`: must be one of `cache`, `drives`");
        let said = "invalid type: string \"a\", expected u8";
        assert_eq!(in_words_of_toml(said), "invalid type: string \"a\": must be a whole number up to 255");
        assert_eq!(in_words_of_toml("missing field `name`\n"), "missing key `name`");
    }
}
