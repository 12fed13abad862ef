//! What may have been meant by a name that does not exist.

/// Of the names, the one that was probably meant: at most a third of its letters differ.
fn nearest<'a>(name: &str, names: &'a [String]) -> Option<&'a String> {
    let far = |other: &&String| strsim::damerau_levenshtein(name, other);
    // Of names that are as near, the one that ends alike: the number of a series.
    let tail =
        |other: &&String| name.bytes().rev().zip(other.bytes().rev()).take_while(|(a, b)| a == b).count();
    let best = names.iter().min_by_key(|other| (far(other), std::cmp::Reverse(tail(other))))?;
    (far(&best) <= (name.chars().count() / 3).max(1)).then_some(best)
}

/// The error about an unknown object.
pub(crate) fn unknown(kind: &str, name: &str, names: &[String]) -> String {
    match nearest(name, names) {
        Some(best) => format!("no {kind} {name:?}; did you mean {best:?}?"),
        None => format!("no {kind} {name:?}; there {}", count(names.len())),
    }
}

fn count(n: usize) -> String {
    match n {
        0 => "are none".into(),
        1 => "is one of another name".into(),
        n => format!("are {n} of other names"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_name_is_suggested_if_it_is_near() {
        let names: Vec<String> = ["db0", "db1", "web-frontend"].map(Into::into).into();
        assert_eq!(
            unknown("volume", "web-fronted", &names),
            "no volume \"web-fronted\"; did you mean \"web-frontend\"?"
        );
        assert_eq!(unknown("volume", "d0", &names), "no volume \"d0\"; did you mean \"db0\"?");
        assert_eq!(unknown("volume", "archive", &names), "no volume \"archive\"; there are 3 of other names");
        let series: Vec<String> = (0..9).map(|i| format!("volume-000{i}")).collect();
        assert!(unknown("volume", "volume-00007", &series).contains("\"volume-0007\""));
        assert_eq!(unknown("volume", "", &[]), "no volume \"\"; there are none");
    }
}
