//! The natural order of names: numbers in them count as numbers, so that `v2` comes before `v10`.

use std::cmp::Ordering;

/// Compares two names.
pub(crate) fn order(a: &str, b: &str) -> Ordering {
    let (mut left, mut right) = (a, b);
    loop {
        let (x, y) = (digits(left), digits(right));
        if x > 0 && y > 0 {
            let (m, n) = (left[..x].trim_start_matches('0'), right[..y].trim_start_matches('0'));
            // More digits are more, whatever they are.
            match m.len().cmp(&n.len()).then_with(|| m.cmp(n)) {
                Ordering::Equal => (left, right) = (&left[x..], &right[y..]),
                other => return other,
            }
            continue;
        }
        match (left.chars().next(), right.chars().next()) {
            (Some(p), Some(q)) if p == q => (left, right) = (&left[p.len_utf8()..], &right[q.len_utf8()..]),
            // Names that are equal as numbers (v1, v01) still have one order.
            (None, None) => return a.cmp(b),
            (p, q) => return p.cmp(&q),
        }
    }
}

/// How many digits the text begins with.
fn digits(text: &str) -> usize {
    text.bytes().take_while(u8::is_ascii_digit).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_in_names_count_as_numbers() {
        let mut names =
            ["v10", "v2", "v1", "v01", "v", "a9b10", "a9b9", "v99999999999999999999999", "é1", ""];
        names.sort_by(|a, b| order(a, b));
        let expected = ["", "a9b9", "a9b10", "v", "v01", "v1", "v2", "v10", "v99999999999999999999999", "é1"];
        assert_eq!(names, expected);
    }
}
