//! Text for people: lines, colours and tables that know the width of the terminal.

use console::{measure_text_width, strip_ansi_codes, truncate_str};

/// Text that grows until it is shown.
#[derive(Debug)]
pub struct Page {
    text: String,
    color: bool,
    width: usize,
}

/// What a piece of text is, for its colour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Paint {
    /// A heading.
    Title,
    /// Less important.
    Dim,
    /// The name of a thing.
    Name,
    /// A number to look at.
    Figure,
    /// All is well.
    Good,
    /// Something to look at.
    Warn,
    /// Something is wrong.
    Bad,
}

impl Paint {
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

/// Text in a colour, if colours are wanted.
pub fn paint(color: bool, paint: Paint, text: &str) -> String {
    if color && !text.is_empty() { format!("\x1b[{}m{text}\x1b[0m", paint.code()) } else { text.to_owned() }
}

impl Page {
    /// An empty page.
    pub fn new(color: bool, width: usize) -> Self {
        Self { text: String::new(), color, width }
    }

    /// Columns there are.
    pub fn width(&self) -> usize {
        self.width
    }

    /// The text so far.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Text in a colour, if colours are wanted.
    pub fn paint(&self, what: Paint, text: impl AsRef<str>) -> String {
        paint(self.color, what, text.as_ref())
    }

    /// Adds a line, cut at the width.
    pub fn line(&mut self, line: impl AsRef<str>) {
        let line = truncate_str(line.as_ref(), self.width, "…");
        self.text.push_str(line.trim_end());
        self.text.push('\n');
    }

    /// Adds a line that is more for programs than for people: whole, whatever the width.
    pub fn whole_line(&mut self, line: impl AsRef<str>) {
        self.text.push_str(line.as_ref().trim_end());
        self.text.push('\n');
    }

    /// Adds an empty line.
    pub fn gap(&mut self) {
        self.text.push('\n');
    }

    /// Adds a heading.
    pub fn title(&mut self, title: impl AsRef<str>) {
        let title = self.paint(Paint::Title, title);
        self.line(title);
    }

    /// Adds names and values in two columns.
    pub fn facts<'a>(&mut self, facts: impl IntoIterator<Item = (&'a str, String)>) {
        let facts: Vec<_> = facts.into_iter().collect();
        let widest = facts.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
        for (name, value) in facts {
            let name = self.paint(Paint::Dim, format!("{name:>widest$}"));
            self.line(format!("  {name}  {value}"));
        }
    }

    /// Adds a table. Nothing when it has no rows.
    pub fn table(&mut self, table: &Table) {
        if table.rows.is_empty() {
            return;
        }
        let shown = table.shown();
        let heads = table.columns.iter().map(|column| self.paint(Paint::Dim, column.head)).collect::<Vec<_>>();
        for row in std::iter::once(&heads).chain(&table.rows) {
            let cells: Vec<_> = shown.iter().map(|(at, column, width)| pad(&row[*at], column.side, *width)).collect();
            self.line(format!("  {}", cells.join("  ")));
        }
    }
}

fn pad(cell: &str, side: Side, width: usize) -> String {
    let space = " ".repeat(width.saturating_sub(measure_text_width(cell)));
    match side {
        Side::Left => format!("{cell}{space}"),
        Side::Right => format!("{space}{cell}"),
    }
}

/// Where a column's text stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// Words.
    Left,
    /// Numbers.
    Right,
}

/// Rows under headings.
#[derive(Debug)]
pub struct Table {
    columns: Vec<Column>,
    rows: Vec<Vec<String>>,
}

#[derive(Clone, Copy, Debug)]
struct Column {
    head: &'static str,
    side: Side,
    optional: bool,
}

impl Table {
    /// Columns by heading. Those with a leading `<` hold words, the others numbers; those with a leading `?` are left
    /// out where no row has anything but nothing to say.
    pub fn new<const N: usize>(heads: [&'static str; N]) -> Self {
        let column = |head: &'static str| {
            let (optional, head) = (head.starts_with('?'), head.trim_start_matches('?'));
            match head.strip_prefix('<') {
                Some(head) => Column { head, side: Side::Left, optional },
                None => Column { head, side: Side::Right, optional },
            }
        };
        Self { columns: heads.map(column).to_vec(), rows: vec![] }
    }

    /// Adds a row with a cell for each column.
    pub fn row<const N: usize>(&mut self, cells: [String; N]) {
        debug_assert_eq!(N, self.columns.len());
        self.rows.push(cells.into());
    }

    /// The columns that say something: where they stand, and how wide they are.
    fn shown(&self) -> Vec<(usize, Column, usize)> {
        let columns = self.columns.iter().enumerate().map(|(at, column)| {
            let cells = self.rows.iter().map(|row| measure_text_width(&row[at]));
            (at, *column, cells.chain([measure_text_width(column.head)]).max().unwrap_or(0))
        });
        let says = |at: usize| self.rows.iter().any(|row| !["", "-", "0"].contains(&&*strip_ansi_codes(&row[at])));
        columns.filter(|(at, column, _)| !column.optional || says(*at)).collect()
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
    fn words_stand_left_and_numbers_right() {
        let mut page = Page::new(false, 80);
        page.table(&table());
        assert_eq!(page.text(), "  name     size\n  a       1,000\n  λλλλλλ      7\n");
    }

    #[test]
    fn colours_change_nothing_but_the_colour() {
        let mut page = Page::new(true, 80);
        page.table(&table());
        assert!(page.text().contains("\x1b[2m"));
        assert_eq!(console::strip_ansi_codes(page.text()), "  name     size\n  a       1,000\n  λλλλλλ      7\n");
    }

    #[test]
    fn lines_end_at_the_edge_of_the_terminal() {
        let mut page = Page::new(false, 10);
        page.line("a line that is longer than ten columns");
        assert_eq!(page.text(), "a line th…\n");
    }

    #[test]
    fn optional_columns_without_anything_to_say_are_left_out() {
        let mut table = Table::new(["<name", "?failed", "?late"]);
        table.row(["a".into(), paint(true, Paint::Dim, "0"), "-".into()]);
        table.row(["b".into(), paint(true, Paint::Dim, "0"), "3".into()]);
        let mut page = Page::new(false, 80);
        page.table(&table);
        assert_eq!(page.text(), "  name  late\n  a        -\n  b        3\n");
    }

    #[test]
    fn an_empty_table_shows_nothing() {
        let mut page = Page::new(false, 80);
        page.table(&Table::new(["a"]));
        assert_eq!(page.text(), "");
    }
}
