//! Lists, page by page.

use serde::{Deserialize, Serialize};

use super::problem::Problem;

/// Objects of a page, when nothing else is asked for, and at most.
const LIMIT_DEFAULT: usize = 100;
const LIMIT_MAX: usize = 1000;

/// Which page of a collection.
#[derive(Debug, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct PageParams {
    /// So many objects at most.
    limit: usize,
    /// Only those whose names come after this one.
    after: Option<String>,
}

impl Default for PageParams {
    fn default() -> PageParams {
        PageParams { limit: LIMIT_DEFAULT, after: None }
    }
}

/// A page of a collection, in the order of names.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Page<T> {
    pub(crate) items: Vec<T>,
    /// What to give as `after` for the next page; none on the last one.
    next: Option<String>,
}

/// The page of these that is asked for.
///
/// # Errors
/// More objects are asked for than a page has.
pub(crate) fn page<T>(all: Vec<(String, T)>, asked: &PageParams) -> Result<Page<T>, Problem> {
    if !(1..=LIMIT_MAX).contains(&asked.limit) {
        let detail = format!("limit must be 1 to {LIMIT_MAX}");
        return Err(Problem::bad_request("parameter", detail).of_field("limit"));
    }
    let after = asked.after.as_deref().unwrap_or_default();
    let mut rest = all.into_iter().filter(|(name, _)| asked.after.is_none() || name.as_str() > after);
    let items: Vec<(String, T)> = rest.by_ref().take(asked.limit).collect();
    let next = rest.next().and_then(|_| items.last().map(|(name, _)| name.clone()));
    Ok(Page { items: items.into_iter().map(|(_, object)| object).collect(), next })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_follow_one_another() {
        let all = || ["a", "b", "c"].map(|name| (name.to_owned(), name)).to_vec();
        let asked = |limit, after: Option<&str>| PageParams { limit, after: after.map(Into::into) };
        let check = |asked, items: &[&str], next: Option<&str>| {
            let page = page(all(), &asked).expect("a page");
            assert_eq!((page.items, page.next.as_deref()), (items.to_vec(), next));
        };
        check(asked(2, None), &["a", "b"], Some("b"));
        check(asked(2, Some("b")), &["c"], None);
        check(asked(3, None), &["a", "b", "c"], None);
        check(asked(1, Some("x")), &[], None);
        assert_eq!(page(all(), &asked(0, None)).expect_err("too few").field.as_deref(), Some("limit"));
        assert_eq!(page(all(), &asked(1001, None)).expect_err("too many").status, 400);
    }
}
