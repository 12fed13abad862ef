//! Lists and single objects of every noun: the same options, the same formats.

pub(crate) mod column;
mod fit;
pub(crate) mod moment;
mod natural;
mod nearest;
mod output;
mod select;

use std::io::IsTerminal;
use std::process::ExitCode;

use anyhow::{Result, bail};
use clap::{Args, ValueEnum};
use serde::Serialize;

use self::column::{Column, Noun};
use self::select::{Filter, Key, select};
use crate::stdout::{print, print_data};

pub(crate) use fit::{Cell, Head, Lines, lines as fitted};
pub(crate) use natural::order as natural_order;
pub(crate) use nearest::unknown;

/// The format of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Output {
    Table,
    Json,
    Csv,
    Name,
}

/// Whether answers have colours.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Color {
    Auto,
    Always,
    Never,
}

/// Which objects of a list are shown, in which order, and what of them.
#[derive(Args, Clone, Default)]
pub(crate) struct ListArgs {
    /// Columns, in this order, separated by commas; all: every column. An unknown one is answered with those
    /// that there are
    #[arg(long, value_delimiter = ',', value_name = "A,B,…", help_heading = "List")]
    columns: Vec<String>,
    /// Sort by this column, -COLUMN for descending; several are separated by commas. Sizes and numbers are
    /// compared by value, names in natural order
    #[arg(
        long,
        value_delimiter = ',',
        value_name = "COLUMN",
        allow_hyphen_values = true,
        help_heading = "List"
    )]
    sort: Vec<String>,
    /// Only objects of which it holds: COLUMN=VALUE (* and ? match any text), !=, and <, <=, >, >= for
    /// numbers; repeatable, all must hold
    #[arg(long, value_name = "COLUMN=VALUE", help_heading = "List")]
    filter: Vec<String>,
    /// At most this many
    #[arg(long, value_name = "N", help_heading = "List")]
    limit: Option<usize>,
    /// A table without its header
    #[arg(long, help_heading = "List")]
    no_header: bool,
}

/// How output looks.
#[derive(Clone, Copy)]
pub(crate) struct Look {
    pub(crate) output: Output,
    pub(crate) color: Color,
}

impl Look {
    /// The text in the colour of a state, where colours are wanted.
    pub(crate) fn toned(self, state: &str, text: &str) -> String {
        match output::tone(state).filter(|_| self.has_colour()) {
            Some(tone) => format!("\u{1b}[{tone}m{text}\u{1b}[0m"),
            None => text.into(),
        }
    }

    /// Whether standard output gets colours.
    fn has_colour(self) -> bool {
        match self.color {
            Color::Always => true,
            Color::Never => false,
            // https://no-color.org: set and not empty.
            Color::Auto => {
                std::io::stdout().is_terminal()
                    && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
                    && std::env::var_os("TERM").is_none_or(|term| term != "dumb")
            }
        }
    }
}

/// What an environment variable says of how output looks.
#[expect(clippy::disallowed_methods, reason = "the environment says how wide output may be")]
fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok()
}

/// The columns of standard output: those of the terminal; without one, what the environment variable COLUMNS
/// says, and no limit if it says nothing.
pub(crate) fn width() -> Option<usize> {
    let stdout = std::io::stdout();
    if stdout.is_terminal() {
        let columns = rustix::termios::tcgetwinsize(&stdout).map_or(0, |size| size.ws_col);
        // A terminal that does not say how wide it is.
        return Some(if columns == 0 { 80 } else { columns.into() });
    }
    variable("COLUMNS").and_then(|text| text.parse().ok()).filter(|columns| *columns > 0)
}

fn print_lines(lines: &Lines) {
    print(&lines.lines.iter().map(|line| format!("{line}\n")).collect::<String>());
    if !lines.left_out.is_empty() {
        let names = lines.left_out.join(", ");
        eprintln!("not shown, because the terminal is too narrow: {names} (--columns, --output)");
    }
}

impl ListArgs {
    /// Whether nothing was asked for.
    pub(crate) fn is_plain(&self) -> bool {
        let lists = [&self.columns, &self.sort, &self.filter];
        lists.iter().all(|list| list.is_empty()) && self.limit.is_none() && !self.no_header
    }

    /// Checks the options without a running array: what is wrong with them is said before anything is asked.
    fn prepare<T>(&self, noun: &Noun<T>) -> Result<Prepared<T>, String> {
        let all = self.columns.iter().any(|name| name == "all");
        let columns = match (all, self.columns.is_empty()) {
            (true, _) => noun.columns.iter().collect(),
            (false, true) => noun.columns.iter().filter(|c| c.is_shown).collect(),
            (false, false) => self.columns.iter().map(|c| noun.column(c.trim())).collect::<Result<_, _>>()?,
        };
        Ok(Prepared {
            columns,
            filters: self.filter.iter().map(|f| Filter::parse(noun, f)).collect::<Result<_, _>>()?,
            keys: self.sort.iter().map(|key| Key::parse(noun, key)).collect::<Result<_, _>>()?,
        })
    }
}

struct Prepared<T: 'static> {
    columns: Vec<&'static Column<T>>,
    filters: Vec<Filter<T>>,
    keys: Vec<Key<T>>,
}

/// Lists objects that `ask` brings: a line each.
///
/// # Errors
/// An option names no column, or as of `ask`.
pub(crate) fn list<T: Serialize>(
    noun: &Noun<T>,
    args: &ListArgs,
    look: Look,
    ask: impl FnOnce() -> Result<Vec<T>>,
) -> Result<ExitCode> {
    let Prepared { columns, filters, keys } = args.prepare(noun).map_err(anyhow::Error::msg)?;
    let all = ask()?;
    let is_empty = all.is_empty();
    let (objects, left_out) = select(noun, all, &filters, &keys, args.limit);
    match look.output {
        Output::Table => {
            let marks = (!args.no_header, look.has_colour());
            print_lines(&output::table(&columns, &objects, width(), marks));
        }
        Output::Json => {
            let chosen = (!args.columns.is_empty()).then_some(&columns[..]);
            print_data(&(output::json(chosen, &objects)? + "\n"));
        }
        Output::Csv => print_data(&output::csv(&columns, &objects)),
        Output::Name => print_data(&output::names(noun, &objects)),
    }
    if left_out > 0 {
        eprintln!("{left_out} more {} left out by --limit", noun.many);
    } else if objects.is_empty() && look.output == Output::Table {
        match is_empty {
            true => eprintln!("no {}{}", noun.many, noun.hint),
            false => eprintln!("no {} match", noun.many),
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// The usual columns of all objects, as a part of a longer answer; says so if there are none.
pub(crate) fn part<T>(noun: &Noun<T>, objects: &[T], look: Look) {
    if objects.is_empty() {
        println!("no {}{}", noun.many, noun.hint);
        return;
    }
    lines(noun, objects, width(), look.has_colour()).iter().for_each(|line| print(&format!("{line}\n")));
}

/// The lines of a table of the usual columns, its header first.
pub(crate) fn lines<T>(noun: &Noun<T>, objects: &[T], width: Option<usize>, has_colour: bool) -> Vec<String> {
    let columns: Vec<_> = noun.columns.iter().filter(|c| c.is_shown).collect();
    output::table(&columns, objects, width, (true, has_colour)).lines
}

/// Prints one object with everything of it; `more` prints what a table adds.
///
/// # Errors
/// There is no such object; names the nearest.
pub(crate) fn show<T: Serialize>(
    noun: &Noun<T>,
    name: &str,
    look: Look,
    objects: Vec<T>,
    more: impl FnOnce(&T),
) -> Result<ExitCode> {
    let Some(object) = objects.iter().find(|object| noun.name(object) == name) else {
        let names: Vec<String> = objects.iter().map(|object| noun.name(object)).collect();
        bail!("{}", unknown(noun.one, name, &names));
    };
    match look.output {
        Output::Table => {
            print(&output::object(noun, object, look.has_colour()));
            more(object);
        }
        Output::Json => print_data(&(serde_json::to_string_pretty(object)? + "\n")),
        Output::Csv => {
            let columns: Vec<_> = noun.columns.iter().collect();
            print_data(&output::csv(&columns, std::slice::from_ref(object)));
        }
        Output::Name => print_data(&output::names(noun, std::slice::from_ref(object))),
    }
    Ok(ExitCode::SUCCESS)
}

/// Prints a plain table, of text, with a header; columns named in `numeric` are right-aligned. Prints `empty`
/// if there are no rows.
pub(crate) fn print_plain(header: &[&str], numeric: &[&str], rows: Vec<Vec<String>>, empty: &str) {
    if rows.is_empty() {
        println!("{empty}");
        return;
    }
    let head = |h: &&str| Head { text: h.to_uppercase(), is_number: numeric.contains(h) };
    let heads: Vec<Head> = header.iter().map(head).collect();
    let rows = rows.into_iter().map(|row| row.into_iter().map(Into::into).collect()).collect();
    fit::lines(&heads, rows, width(), true).lines.iter().for_each(|line| print(&format!("{line}\n")));
}
