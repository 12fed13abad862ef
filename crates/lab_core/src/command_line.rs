//! Command lines and targets as records and reports have them: published, so without secrets.

/// The command line of this process; what is not UTF-8 is replaced.
pub fn of_process() -> String {
    let words = std::env::args_os().map(|word| without_secret(&word.to_string_lossy()));
    words.collect::<Vec<_>>().join(" ")
}

/// A word of a command line without the CHAP names and secrets of a URL in it: what is before its `@`, and
/// its parameters if one is a password.
pub fn without_secret(word: &str) -> String {
    let Some((front, rest)) = word.split_once("://") else { return word.to_owned() };
    // A secret may contain any of these characters.
    let parameters = rest.find("password=").and_then(|password| rest[..password].rfind('?'));
    let (rest, parameters) = parameters.map_or((rest, ""), |at| (&rest[..at], "?…"));
    let (login, place) = rest.rsplit_once('@').map_or(("", rest), |(_, place)| ("…@", place));
    format!("{front}://{login}{place}{parameters}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_of_a_url_is_not_shown() {
        for word in
            ["iscsi://ana%se@cr/et@192.0.2.1:3260/iqn.x:y/0", "--target=iscsi://a%b@192.0.2.1:3260/iqn.x:y/0"]
        {
            let shown = without_secret(word);
            assert!(shown.ends_with("iscsi://…@192.0.2.1:3260/iqn.x:y/0"), "{shown}");
        }
        let shown = without_secret("iscsi://ana%s@h/iqn.x:y/0?target_user=t&target_password=p@ss");
        assert!(!shown.contains("ss") && !shown.contains("ana"), "{shown}");
        for plain in
            ["iscsi://h/iqn.x:y/0?header_digest=crc32c", "iscsi://192.0.2.1/iqn.x:y/0", "a@b", "run.toml"]
        {
            assert_eq!(without_secret(plain), plain);
        }
    }
}
