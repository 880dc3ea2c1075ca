//! Renders text: lines, colours and tables that fit the width of the terminal.

use std::borrow::Cow;

use console::{measure_text_width, strip_ansi_codes, truncate_str};

use crate::visible;

/// A buffer of text with colours. Control characters in its input are shown as escapes.
#[derive(Debug)]
pub struct Renderer {
    text: String,
    color: bool,
    width: usize,
}

/// Semantic style of a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Style {
    /// Heading.
    Title,
    /// Secondary text.
    Dim,
    /// Name of an object.
    Name,
    /// Important number.
    Figure,
    /// Success.
    Good,
    /// Warning.
    Warn,
    /// Failure.
    Bad,
}

impl Style {
    fn code(self) -> &'static str {
        match self {
            Self::Title => "1",
            Self::Dim => "2",
            Self::Name => "36",
            Self::Figure => "1;36",
            Self::Good => "32",
            Self::Warn => "33",
            Self::Bad => "1;31",
        }
    }
}

/// Applies a style if colours are enabled.
pub fn style(color: bool, style: Style, text: &str) -> String {
    if color && !text.is_empty() { visible::styled(style.code(), text) } else { text.to_owned() }
}

impl Renderer {
    /// Returns an empty renderer.
    pub fn new(color: bool, width: usize) -> Self {
        Self { text: String::new(), color, width }
    }

    /// Width in columns.
    pub fn width(&self) -> usize {
        self.width
    }

    /// The rendered text.
    pub fn text(&self) -> Cow<'_, str> {
        visible::terminal(&self.text)
    }

    /// Applies a style if colours are enabled.
    pub fn style(&self, kind: Style, text: impl AsRef<str>) -> String {
        style(self.color, kind, text.as_ref())
    }

    /// Adds a line, truncated to the width.
    pub fn line(&mut self, line: impl AsRef<str>) {
        let line = visible::line(line.as_ref());
        let line = truncate_str(&line, self.width, "…");
        self.text.push_str(line.trim_end());
        self.text.push('\n');
    }

    /// Adds a line without truncation, for programs.
    pub fn whole_line(&mut self, line: impl AsRef<str>) {
        self.text.push_str(visible::line(line.as_ref()).trim_end());
        self.text.push('\n');
    }

    /// Adds an empty line.
    pub fn gap(&mut self) {
        self.text.push('\n');
    }

    /// Adds a heading.
    pub fn title(&mut self, title: impl AsRef<str>) {
        let title = self.style(Style::Title, title);
        self.line(title);
    }

    /// Adds names and values as two columns.
    pub fn facts<'a>(&mut self, facts: impl IntoIterator<Item = (&'a str, String)>) {
        let facts: Vec<_> = facts.into_iter().collect();
        let widest = facts.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
        for (name, value) in facts {
            let name = self.style(Style::Dim, format!("{name:>widest$}"));
            self.line(format!("  {name}  {value}"));
        }
    }

    /// Adds a table, unless it is empty.
    pub fn table(&mut self, table: &Table) {
        if table.rows.is_empty() {
            return;
        }
        let shown = table.shown();
        let heads = table.columns.iter().map(|column| self.style(Style::Dim, column.head)).collect::<Vec<_>>();
        for row in std::iter::once(&heads).chain(&table.rows) {
            let cells: Vec<_> =
                shown.iter().map(|(index, column, width)| pad(&row[*index], column.align, *width)).collect();
            self.line(format!("  {}", cells.join("  ")));
        }
    }
}

fn pad(cell: &str, align: Align, width: usize) -> String {
    let space = " ".repeat(width.saturating_sub(measure_text_width(cell)));
    match align {
        Align::Left => format!("{cell}{space}"),
        Align::Right => format!("{space}{cell}"),
    }
}

/// Alignment of a column: text is left-aligned, numbers are right-aligned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Align {
    Left,
    Right,
}

/// A table with headings.
#[derive(Debug)]
pub struct Table {
    columns: Vec<Column>,
    rows: Vec<Vec<String>>,
}

#[derive(Clone, Copy, Debug)]
struct Column {
    head: &'static str,
    align: Align,
    optional: bool,
}

impl Table {
    /// Returns a table with these headings. `<` marks a left-aligned column of text, `?` a column that is omitted if all
    /// its cells are empty, `-` or `0`.
    pub fn new<const N: usize>(heads: [&'static str; N]) -> Self {
        let column = |head: &'static str| {
            let optional = head.starts_with('?');
            let head = head.trim_start_matches('?');
            match head.strip_prefix('<') {
                Some(head) => Column { head, align: Align::Left, optional },
                None => Column { head, align: Align::Right, optional },
            }
        };
        Self { columns: heads.map(column).to_vec(), rows: vec![] }
    }

    /// Adds a row with a cell for each column.
    pub fn row<const N: usize>(&mut self, cells: [String; N]) {
        debug_assert_eq!(N, self.columns.len());
        // Before the widths are measured: an escape is wider than its character.
        self.rows.push(cells.map(|cell| visible::line(&cell).into_owned()).into());
    }

    /// The columns to show, with their indices and widths.
    fn shown(&self) -> Vec<(usize, Column, usize)> {
        let columns = self.columns.iter().enumerate().map(|(index, column)| {
            let cells = self.rows.iter().map(|row| measure_text_width(&row[index]));
            (index, *column, cells.chain([measure_text_width(column.head)]).max().unwrap_or(0))
        });
        let has_content =
            |index: usize| self.rows.iter().any(|row| !["", "-", "0"].contains(&&*strip_ansi_codes(&row[index])));
        columns.filter(|(index, column, _)| !column.optional || has_content(*index)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table() -> Table {
        let mut table = Table::new(["<name", "size"]);
        table.row(["a".into(), "1,000".into()]);
        table.row(["λλλλλλ".into(), "7".into()]);
        table
    }

    #[test]
    fn text_is_left_aligned_and_numbers_are_right_aligned() {
        let mut renderer = Renderer::new(false, 80);
        renderer.table(&table());
        assert_eq!(renderer.text(), "  name     size\n  a       1,000\n  λλλλλλ      7\n");
    }

    #[test]
    fn colours_do_not_change_the_layout() {
        let mut renderer = Renderer::new(true, 80);
        renderer.table(&table());
        assert!(renderer.text().contains("\x1b[2m"));
        assert_eq!(console::strip_ansi_codes(&renderer.text()), "  name     size\n  a       1,000\n  λλλλλλ      7\n");
    }

    #[test]
    fn lines_are_truncated_to_the_width() {
        let mut renderer = Renderer::new(false, 10);
        renderer.line("a line that is longer than ten columns");
        assert_eq!(renderer.text(), "a line th…\n");
    }

    #[test]
    fn optional_columns_without_content_are_omitted() {
        let mut table = Table::new(["<name", "?failed", "?late"]);
        table.row(["a".into(), style(true, Style::Dim, "0"), "-".into()]);
        table.row(["b".into(), style(true, Style::Dim, "0"), "3".into()]);
        let mut renderer = Renderer::new(false, 80);
        renderer.table(&table);
        assert_eq!(renderer.text(), "  name  late\n  a        -\n  b        3\n");
    }

    #[test]
    fn foreign_escape_sequences_are_shown_and_keep_the_layout() {
        for color in [false, true] {
            let mut table = Table::new(["<name", "size"]);
            table.row(["\x1b[32ma\nb".into(), "1".into()]);
            table.row([style(color, Style::Good, "a"), "10".into()]);
            let mut renderer = Renderer::new(color, 80);
            renderer.table(&table);
            renderer.line("c\x1b]0;title\x07\r");
            let plain = console::strip_ansi_codes(&renderer.text()).into_owned();
            assert_eq!(
                plain,
                "  name            size\n  \\u{1b}[32ma\\nb     1\n  a                 10\nc\\u{1b}]0;title\\u{7}\\r\n"
            );
            assert_eq!(renderer.text().contains("\x1b[32ma\x1b[0m"), color);
        }
    }

    #[test]
    fn an_empty_table_renders_nothing() {
        let mut renderer = Renderer::new(false, 80);
        renderer.table(&Table::new(["a"]));
        assert_eq!(renderer.text(), "");
    }
}
