//! The lines of a table: columns side by side, shortened where a line would be wider than the terminal. Pure.
//!
//! The rule, in this order, until a line fits: a list of names becomes its first name and the number of the
//! others (`kvm1:0 +3`); text is shortened in its middle (`data…0017`), the widest column first; the last
//! columns are left out. Numbers are never shortened, and the first column always stays.

use lab_core::words::visible;
use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

/// Between two columns.
const GAP: usize = 2;
/// Text is not shortened further: its beginning, its end, and the mark between them still tell names apart.
const TEXT_MIN: usize = 9;
/// Instead of what was left out.
const MARK: char = '…';

/// A column of a table.
pub(crate) struct Head {
    pub(crate) text: String,
    /// Numbers: aligned on the right, and never shortened.
    pub(crate) is_number: bool,
}

/// A cell: its text, a shorter one, and the colour of both (an ANSI SGR parameter).
#[derive(Clone, Default)]
pub(crate) struct Cell {
    pub(crate) text: String,
    pub(crate) brief: Option<String>,
    pub(crate) tone: Option<&'static str>,
}

impl From<String> for Cell {
    fn from(text: String) -> Cell {
        Cell { text, ..Cell::default() }
    }
}

/// The lines of a table, without their line breaks, and the columns that do not fit.
pub(crate) struct Lines {
    pub(crate) lines: Vec<String>,
    pub(crate) left_out: Vec<String>,
}

/// Lays out a table whose lines have at most `columns` columns of a terminal; any number without a limit.
pub(crate) fn lines(
    heads: &[Head],
    mut rows: Vec<Vec<Cell>>,
    columns: Option<usize>,
    with_head: bool,
) -> Lines {
    for cell in rows.iter_mut().flatten() {
        cell.text = visible(&cell.text);
        cell.brief = cell.brief.take().map(|brief| visible(&brief));
    }
    let mut widths = widths(heads, &rows, with_head);
    let mut kept = heads.len();
    if let Some(columns) = columns {
        for i in 0..kept {
            if total(&widths[..kept]) > columns && rows.iter().any(|row| row[i].brief.is_some()) {
                rows.iter_mut().for_each(|row| take_brief(&mut row[i]));
                widths[i] = width_of(heads, &rows, i, with_head);
            }
        }
        kept = shrink(heads, &mut widths, columns, with_head);
    }
    let mut lines = Vec::with_capacity(rows.len() + 1);
    if with_head {
        let head = heads.iter().map(|head| Cell::from(head.text.clone())).collect::<Vec<_>>();
        lines.push(line(heads, &head, &widths[..kept]));
    }
    lines.extend(rows.iter().map(|row| line(heads, row, &widths[..kept])));
    Lines { lines, left_out: heads[kept..].iter().map(|head| head.text.clone()).collect() }
}

fn take_brief(cell: &mut Cell) {
    if let Some(brief) = cell.brief.take() {
        cell.text = brief;
    }
}

fn widths(heads: &[Head], rows: &[Vec<Cell>], with_head: bool) -> Vec<usize> {
    (0..heads.len()).map(|i| width_of(heads, rows, i, with_head)).collect()
}

fn width_of(heads: &[Head], rows: &[Vec<Cell>], i: usize, with_head: bool) -> usize {
    let head = if with_head { heads[i].text.width() } else { 0 };
    rows.iter().map(|row| row[i].text.width()).max().unwrap_or(0).max(head)
}

fn total(widths: &[usize]) -> usize {
    widths.iter().sum::<usize>() + GAP * widths.len().saturating_sub(1)
}

/// Takes width from the widest text until lines fit, or from the end; returns how many columns are left.
fn shrink(heads: &[Head], widths: &mut [usize], columns: usize, with_head: bool) -> usize {
    let floor = |i: usize| match with_head {
        true => TEXT_MIN.max(heads[i].text.width()),
        false => TEXT_MIN,
    };
    let least = |i: usize| if heads[i].is_number { widths[i] } else { widths[i].min(floor(i)) };
    let least: Vec<usize> = (0..widths.len()).map(least).collect();
    let kept = (1..=widths.len()).rev().find(|kept| total(&least[..*kept]) <= columns).unwrap_or(1);
    let mut over = total(&widths[..kept]).saturating_sub(columns);
    while over > 0 {
        let shrinkable = (0..kept).filter(|i| widths[*i] > least[*i]);
        let Some(widest) = shrinkable.max_by_key(|i| widths[*i]) else { break };
        widths[widest] -= 1;
        over -= 1;
    }
    // The first column alone may be wider than the terminal.
    widths[0] = widths[0].min(columns.max(1));
    kept
}

fn line(heads: &[Head], cells: &[Cell], widths: &[usize]) -> String {
    let mut line = String::new();
    for (i, width) in widths.iter().enumerate() {
        let text = shortened(&cells[i].text, *width);
        let pad = width - text.width();
        if i > 0 {
            line.push_str("  ");
        }
        let (before, after) = if heads[i].is_number { (pad, 0) } else { (0, pad) };
        line.extend(std::iter::repeat_n(' ', before));
        match cells[i].tone {
            Some(tone) => line.push_str(&format!("\u{1b}[{tone}m{text}\u{1b}[0m")),
            None => line.push_str(&text),
        }
        line.extend(std::iter::repeat_n(' ', after));
    }
    line.truncate(line.trim_end().len());
    line
}

/// A text without its middle, if it is wider than `width` columns.
pub(crate) fn shortened(text: &str, width: usize) -> String {
    if text.width() <= width {
        return text.into();
    }
    let rest = width.saturating_sub(1);
    // The end has the number, by which names of a series differ.
    let (front, back) = (rest / 2, rest - rest / 2);
    let take = |chars: &mut dyn Iterator<Item = char>, most: usize| {
        let mut used = 0;
        let fits = |c: &char| {
            used += c.width().unwrap_or(0);
            used <= most
        };
        chars.take_while(fits).collect::<Vec<char>>()
    };
    let mut out: String = take(&mut text.chars(), front).into_iter().collect();
    if width > 0 {
        out.push(MARK);
    }
    out.extend(take(&mut text.chars().rev(), back).into_iter().rev());
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn head(text: &str, is_number: bool) -> Head {
        Head { text: text.into(), is_number }
    }

    fn table(columns: Option<usize>, rows: &[[&str; 3]]) -> Lines {
        let heads = [head("NAME", false), head("SIZE", true), head("HOSTS", false)];
        let cell = |text: &str| Cell {
            text: text.into(),
            brief: text.split_once(' ').map(|(first, _)| format!("{first} +1")),
            tone: None,
        };
        let rows = rows.iter().map(|row| row.iter().map(|text| cell(text)).collect()).collect();
        lines(&heads, rows, columns, true)
    }

    #[test]
    fn without_a_limit_nothing_is_shortened() {
        let name = "n".repeat(200);
        let lines = table(None, &[[&name, "1", "a b"], ["v", "100", "a"]]).lines;
        assert_eq!(lines[1], format!("{name}     1  a b"));
        assert!(lines[2].ends_with(" 100  a"), "no blanks at the end: {:?}", lines[2]);
    }

    #[test]
    fn a_line_fits_whatever_the_names() {
        let long = "database-of-the-accounting-department-in-tokyo-0017";
        for columns in 1..120 {
            let made = table(Some(columns), &[[long, "1023", "host-one:0 host-two:1"], ["v1", "1", ""]]);
            let widest = made.lines.iter().map(|line| line.width()).max().unwrap_or(0);
            assert!(widest <= columns, "{widest} of {columns}: {:?}", made.lines);
        }
        let made = table(Some(40), &[[long, "1023", "host-one:0 host-two:1"]]);
        assert_eq!(made.lines[1], "database-…okyo-0017  1023  host-one:0 +1");
        assert!(made.left_out.is_empty());
        let made = table(Some(16), &[[long, "1023", "host-one:0"]]);
        assert_eq!((made.lines[1].as_str(), made.left_out), ("data…-0017  1023", vec!["HOSTS".to_owned()]));
    }

    #[test]
    fn wide_characters_count_as_two_columns() {
        assert_eq!(shortened("ボリューム一覧", 14), "ボリューム一覧");
        assert_eq!(shortened("ボリューム一覧", 9).width(), 9);
        assert_eq!([shortened("abc", 0), shortened("abc", 1), shortened("abc", 2)], ["", "…", "…c"]);
    }

    #[test]
    fn colours_have_no_width() {
        let cell = Cell { text: "failed".into(), brief: None, tone: Some("31") };
        let made = lines(
            &[head("STATE", false), head("N", true)],
            vec![vec![cell, "1".to_owned().into()]],
            Some(10),
            true,
        );
        assert_eq!(made.lines, ["STATE   N", "\u{1b}[31mfailed\u{1b}[0m  1"]);
    }
}
