//! What is chosen, and the screen that shows it. Pure: keys and values in, lines out.

use ratatui::Frame;
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::Paragraph;

use super::board::{Kind, Row, Tab, Value};
use super::sample::Between;
use crate::manage::state;
use crate::table::{Cell, Head, Lines, fitted};

/// Longer filters match no name.
const FILTER_CHARS_MAX: usize = 128;

/// How a tab is sorted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Order {
    pub(super) column: usize,
    pub(super) is_descending: bool,
}

/// Why the view ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ended {
    Quit,
    Interrupted,
}

/// What is chosen.
pub(super) struct View {
    pub(super) tab: Tab,
    /// By tab; none: the order of the array.
    pub(super) orders: [Option<Order>; Tab::ALL.len()],
    pub(super) filter: String,
    pub(super) is_typing: bool,
    pub(super) is_paused: bool,
    pub(super) is_help: bool,
    /// The first row that is shown.
    pub(super) first: usize,
    /// Rows that the screen had place for.
    pub(super) page: usize,
}

/// What is shown of an array.
pub(super) struct Shown<'a> {
    pub(super) status: &'a admin::Status,
    pub(super) between: &'a Between,
    /// Why nothing newer is there.
    pub(super) error: Option<&'a str>,
}

impl View {
    pub(super) fn new(tab: Tab, filter: String) -> View {
        // The busiest first; the stages stay in their order.
        let order = |tab: Tab| {
            let column = tab.columns().iter().position(|c| c.title == "IOPS" || c.title == "OPS/S")?;
            (tab != Tab::Waits).then_some(Order { column, is_descending: true })
        };
        View {
            tab,
            orders: Tab::ALL.map(order),
            filter,
            is_typing: false,
            is_paused: false,
            is_help: false,
            first: 0,
            page: 1,
        }
    }

    /// Sorts the chosen tab by the column of this title; `-` before it: descending.
    ///
    /// # Errors
    /// There is no such column.
    pub(super) fn sort_by(&mut self, text: &str) -> Result<(), String> {
        let (is_descending, title) = text.strip_prefix('-').map_or((false, text), |title| (true, title));
        let columns = self.tab.columns();
        let plain = |title: &str| title.to_lowercase().replace([' ', '-', '_'], "");
        let Some(column) = columns.iter().position(|column| plain(column.title) == plain(title)) else {
            let titles: Vec<String> = columns.iter().map(|c| c.title.to_lowercase()).collect();
            return Err(format!("invalid --sort {text:?}: no such column; there are: {}", titles.join(", ")));
        };
        *self.order_mut() = Some(Order { column, is_descending });
        Ok(())
    }

    fn order(&self) -> Option<Order> {
        self.orders[self.tab as usize]
    }

    fn order_mut(&mut self) -> &mut Option<Order> {
        &mut self.orders[self.tab as usize]
    }

    /// A key was pressed.
    pub(super) fn key(&mut self, key: KeyEvent) -> Option<Ended> {
        if key.kind == KeyEventKind::Release {
            return None;
        }
        if key.code == KeyCode::Char('c') && key.modifiers.contains(KeyModifiers::CONTROL) {
            return Some(Ended::Interrupted);
        }
        if self.is_typing {
            self.type_key(key.code);
            return None;
        }
        if self.is_help {
            self.is_help = false;
            return None;
        }
        match key.code {
            KeyCode::Char('q') => return Some(Ended::Quit),
            KeyCode::Char(c @ '1'..='5') => self.choose(Tab::ALL[c as usize - '1' as usize]),
            KeyCode::Tab | KeyCode::Right => self.turn(1),
            KeyCode::BackTab | KeyCode::Left => self.turn(Tab::ALL.len() - 1),
            KeyCode::Char('s') => self.sort_next(1),
            KeyCode::Char('S') => self.sort_next(self.tab.columns().len() - 1),
            KeyCode::Char('r') => {
                if let Some(order) = self.order_mut() {
                    order.is_descending = !order.is_descending;
                }
            }
            KeyCode::Char('/') => self.is_typing = true,
            KeyCode::Esc => self.filter.clear(),
            KeyCode::Char('p' | ' ') => self.is_paused = !self.is_paused,
            KeyCode::Char('?' | 'h') => self.is_help = true,
            code => self.scroll(code),
        }
        None
    }

    fn type_key(&mut self, code: KeyCode) {
        match code {
            KeyCode::Char(c) if self.filter.chars().count() < FILTER_CHARS_MAX => self.filter.push(c),
            KeyCode::Backspace => _ = self.filter.pop(),
            KeyCode::Enter => self.is_typing = false,
            KeyCode::Esc => {
                self.filter.clear();
                self.is_typing = false;
            }
            _ => {}
        }
        self.first = 0;
    }

    fn scroll(&mut self, code: KeyCode) {
        self.first = match code {
            KeyCode::Up => self.first.saturating_sub(1),
            KeyCode::Down => self.first.saturating_add(1),
            KeyCode::PageUp => self.first.saturating_sub(self.page),
            KeyCode::PageDown => self.first.saturating_add(self.page),
            KeyCode::Home => 0,
            // The screen stops at the last page.
            KeyCode::End => usize::MAX,
            _ => self.first,
        };
    }

    fn choose(&mut self, tab: Tab) {
        (self.tab, self.first) = (tab, 0);
    }

    fn turn(&mut self, by: usize) {
        self.choose(Tab::ALL[(self.tab as usize + by) % Tab::ALL.len()]);
    }

    fn sort_next(&mut self, by: usize) {
        let columns = self.tab.columns();
        let column = self.order().map_or(0, |order| (order.column + by) % columns.len());
        *self.order_mut() = Some(Order { column, is_descending: columns[column].kind != Kind::Text });
    }

    /// The rows of the chosen tab: filtered and sorted.
    pub(super) fn rows(&self, shown: &Shown) -> Vec<Row> {
        let mut rows = self.tab.rows(shown.status, shown.between);
        let wanted = self.filter.to_lowercase();
        rows.retain(|row| row.name().to_lowercase().contains(&wanted));
        if let Some(Order { column, is_descending }) = self.order() {
            rows.sort_by(|a, b| {
                let order = compare(&a.values[column], &b.values[column], is_descending);
                order.then_with(|| crate::table::natural_order(a.name(), b.name()))
            });
        }
        rows
    }

    /// The rows as lines of a table, the header first.
    pub(super) fn table(&self, rows: &[Row], width: Option<usize>) -> Lines {
        let columns = self.tab.columns();
        let order = self.order();
        let head = |(i, column): (usize, &super::board::Column)| {
            let mark = match order {
                Some(order) if order.column == i => {
                    if order.is_descending {
                        "▼"
                    } else {
                        "▲"
                    }
                }
                _ => "",
            };
            Head { text: format!("{}{mark}", column.title), is_number: column.kind != Kind::Text }
        };
        let heads: Vec<Head> = columns.iter().enumerate().map(head).collect();
        let cells = |row: &Row| {
            let shown = row.values.iter().zip(columns).map(|(value, column)| value.shown(column.kind));
            shown.map(Cell::from).collect()
        };
        fitted(&heads, rows.iter().map(cells).collect(), width, true)
    }

    /// Draws the screen.
    pub(super) fn draw(&mut self, frame: &mut Frame, shown: &Shown) {
        let [head, tabs, problem, body, foot] = Layout::vertical([
            Constraint::Length(1),
            Constraint::Length(1),
            Constraint::Length(1),
            Constraint::Min(0),
            Constraint::Length(1),
        ])
        .areas(frame.area());
        frame.render_widget(Paragraph::new(headline(shown)), head);
        frame.render_widget(Paragraph::new(self.tabs()), tabs);
        let (text, is_bad) = problems(shown);
        let style = if is_bad { Style::new().fg(Color::Red) } else { Style::new().fg(Color::Green) };
        frame.render_widget(Paragraph::new(text).style(style), problem);
        let left_out = match self.is_help {
            true => {
                frame.render_widget(Paragraph::new(HELP_SCREEN), body);
                Vec::new()
            }
            false => self.draw_table(frame, body, shown),
        };
        frame.render_widget(Paragraph::new(self.foot(&left_out)), foot);
    }

    fn draw_table(&mut self, frame: &mut Frame, area: Rect, shown: &Shown) -> Vec<String> {
        let rows = self.rows(shown);
        self.page = usize::from(area.height).saturating_sub(1).max(1);
        self.first = self.first.min(rows.len().saturating_sub(self.page));
        let table = self.table(&rows, Some(area.width.into()));
        let mut table_lines = table.lines.into_iter();
        let bold = Style::new().add_modifier(Modifier::BOLD);
        let mut visible: Vec<Line> =
            table_lines.next().map(|head| Line::styled(head, bold)).into_iter().collect();
        let styled = |(line, row): (String, &Row)| match row.is_bad {
            true => Line::styled(line, Style::new().fg(Color::Yellow)),
            false => Line::from(line),
        };
        visible.extend(table_lines.zip(&rows).skip(self.first).take(self.page).map(styled));
        if rows.is_empty() {
            visible.push(Line::from(if self.filter.is_empty() {
                "none"
            } else {
                "no name matches the filter"
            }));
        }
        frame.render_widget(Paragraph::new(visible), area);
        table.left_out
    }

    fn tabs(&self) -> Line<'static> {
        let mut spans = Vec::new();
        for (i, tab) in Tab::ALL.into_iter().enumerate() {
            let style = match tab == self.tab {
                true => Style::new().add_modifier(Modifier::REVERSED),
                false => Style::new(),
            };
            spans.push(Span::styled(format!(" {} {} ", i + 1, tab.title()), style));
        }
        if self.is_paused {
            spans.push(Span::styled("  paused", Style::new().fg(Color::Yellow)));
        }
        Line::from(spans)
    }

    fn foot(&self, left_out: &[String]) -> String {
        if self.is_typing {
            return format!("filter: {}_", self.filter);
        }
        let keys = "q quit  ? help  ←→ tabs  s sort  r reverse  / filter  p pause";
        match (self.filter.is_empty(), left_out.is_empty()) {
            (false, _) => format!("filter: {} (Esc: none)  {keys}", self.filter),
            (true, false) => format!("{keys}  not shown: {}", left_out.join(", ")),
            (true, true) => keys.into(),
        }
    }
}

/// By value; what has none is last, whichever way.
fn compare(a: &Value, b: &Value, is_descending: bool) -> std::cmp::Ordering {
    use std::cmp::Ordering;
    let order = match (a, b) {
        (Value::None, Value::None) => return Ordering::Equal,
        (Value::None, _) => return Ordering::Greater,
        (_, Value::None) => return Ordering::Less,
        (Value::Number(a), Value::Number(b)) => a.total_cmp(b),
        (Value::Text(a), Value::Text(b)) => crate::table::natural_order(a, b),
        (Value::Number(_), Value::Text(_)) => Ordering::Less,
        (Value::Text(_), Value::Number(_)) => Ordering::Greater,
    };
    if is_descending { order.reverse() } else { order }
}

/// The array in one line.
pub(super) fn headline(shown: &Shown) -> String {
    let all = shown.between.all();
    let number = |value: f64, kind: Kind| Value::Number(value).shown(kind);
    let micros = |share: f64| Value::from(all.quantile_us(share)).shown(Kind::Micros);
    let busiest = shown.between.controllers.values().copied().fold(0.0, f64::max);
    format!(
        "{} IOPS  read {}  written {}  median {}  99 % {}  controllers {}  masu {} up {}",
        number(all.operations, Kind::Number),
        number(all.read_bytes, Kind::BytesPerSecond),
        number(all.write_bytes, Kind::BytesPerSecond),
        micros(0.5),
        micros(0.99),
        number(busiest, Kind::Share),
        shown.status.version,
        state::time(shown.status.uptime_s)
    )
}

/// What is wrong, and whether anything is.
pub(super) fn problems(shown: &Shown) -> (String, bool) {
    if let Some(error) = shown.error {
        return (error.into(), true);
    }
    match shown.status.trouble.as_slice() {
        [] => ("No problems.".into(), false),
        [one] => (format!("{}: {}", one.object, one.text), true),
        [first, rest @ ..] => (format!("{}: {} (+{})", first.object, first.text, rest.len()), true),
    }
}

const HELP_SCREEN: &str = "\
1 to 5, ←, →, Tab  Waits, Hosts, LUs, Pools, Drives
s, S               sort by the next, by the previous column
r                  reverse the order
/                  filter: part of a name; Enter ends, Esc removes it
p, blank           pause; numbers stay as they are
↑ ↓ PgUp PgDn      scroll; Home, End
q, Ctrl-C          quit

Latencies are of the last interval, from histograms whose bounds are powers of two.
AT ONCE is the mean number of requests that are being worked on: rate times mean
latency. QOS is the share of the time of commands that they wait for their turn.
HELD UP BY names what most delays a host: a drive, a policy, a port, a controller.
Below the LU one operation in sixteen is measured.

Press any key.";
