//! Plain tables on the terminal.

use crate::manage::list::plain;

/// Prints a table with a header; columns named in `numeric` are right-aligned. Prints `empty` if there are no
/// rows.
pub(crate) fn print(header: &[&str], numeric: &[&str], rows: Vec<Vec<String>>, empty: &str) {
    if rows.is_empty() {
        println!("{empty}");
        return;
    }
    plain(header, numeric, rows).iter().for_each(|line| println!("{line}"));
}
