//! Tables on the terminal, or as JSON.

use comfy_table::{CellAlignment, ContentArrangement, Table, presets};

/// Prints a table with a header; columns named in `numeric` are right-aligned. Prints `empty` if there are no
/// rows.
pub(crate) fn print(header: &[&str], numeric: &[&str], rows: Vec<Vec<String>>, empty: &str) {
    if rows.is_empty() {
        println!("{empty}");
        return;
    }
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_content_arrangement(ContentArrangement::Dynamic);
    table.set_header(header.iter().map(|h| h.to_uppercase()));
    for (i, name) in header.iter().enumerate() {
        if let (true, Some(column)) = (numeric.contains(name), table.column_mut(i)) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    for row in rows {
        table.add_row(row);
    }
    println!("{}", table.trim_fmt());
}
