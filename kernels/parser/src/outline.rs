//! The outline of a tree: its functions, classes and imports.

use std::fmt::Write as _;

use crate::{
    columns::{Field, Kind, NONE, Tag},
    view::Tree,
};

/// A function, a class or an import.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Item {
    /// `FunctionDef`, `AsyncFunctionDef`, `ClassDef`, `Import` or `ImportFrom`.
    pub kind: Kind,
    /// The name of a function or class; for an import what it imports, as in `os.path as p` or `.x import a, b`.
    pub name: String,
    /// First byte, decorators included.
    pub start: u32,
    /// The byte after it.
    pub end: u32,
    /// Index in the outline of the enclosing function or class.
    pub parent: Option<u32>,
    /// Start and end of the docstring's literal.
    pub docstring: Option<(u32, u32)>,
}

/// The outline of a tree, in the order of its rows.
pub fn outline(tree: &Tree<'_>) -> Vec<Item> {
    let mut outline = Outline { tree, items: vec![], rows: vec![], has_body: vec![] };
    for row in 0..tree.len() {
        outline.visit(row);
    }
    outline.items
}

struct Outline<'a> {
    tree: &'a Tree<'a>,
    items: Vec<Item>,
    /// The row of each item, ascending.
    rows: Vec<u32>,
    /// True if a statement of the item's body was seen.
    has_body: Vec<bool>,
}

impl Outline<'_> {
    fn visit(&mut self, row: usize) {
        self.record_docstring(row);
        let tree = self.tree;
        let name = match tree.kind(row) {
            Some(Kind::FunctionDef | Kind::AsyncFunctionDef | Kind::ClassDef) => tree.name(tree.aux[row]).into_owned(),
            Some(Kind::Import) => imported(tree, row, ""),
            Some(Kind::ImportFrom) => imported(tree, row, &origin(tree, row)),
            _ => return,
        };
        let Some(kind) = tree.kind(row) else { return };
        let item = Item {
            kind,
            name,
            start: first_decorator(tree, row).unwrap_or(tree.starts[row]),
            end: tree.ends[row],
            parent: self.enclosing(row),
            docstring: None,
        };
        self.items.push(item);
        self.rows.push(row_number(row));
        self.has_body.push(false);
    }

    /// The item that encloses a row. A statement has at most as many parents as indentation has levels.
    fn enclosing(&self, row: usize) -> Option<u32> {
        let mut parent = self.tree.parents[row];
        while parent != NONE {
            let kind = self.tree.kind(parent as usize);
            if matches!(kind, Some(Kind::FunctionDef | Kind::AsyncFunctionDef | Kind::ClassDef)) {
                return self.rows.binary_search(&parent).ok().map(row_number);
            }
            parent = self.tree.parents[parent as usize];
        }
        None
    }

    /// Records a string that is the first statement of a body as its docstring.
    fn record_docstring(&mut self, row: usize) {
        let tree = self.tree;
        let parent = self.tree.parents[row];
        if parent as usize >= row || tree.fields[row] != Field::Body as u8 {
            return;
        }
        let Ok(item) = self.rows.binary_search(&parent) else { return };
        if std::mem::replace(&mut self.has_body[item], true) || tree.kind(row) != Some(Kind::Expr) || row == 0 {
            return;
        }
        let value = row - 1;
        let is_text = matches!(tree.tag(value), Some(Tag::Str | Tag::UnicodeStr));
        if tree.parents[value] == row_number(row) && is_text {
            self.items[item].docstring = Some((tree.starts[value], tree.ends[value]));
        }
    }
}

/// The offset of the first decorator's `@`.
fn first_decorator(tree: &Tree<'_>, row: usize) -> Option<u32> {
    let decorator = Field::DecoratorList as u8;
    let own = row_number(row);
    let children = (0..row).rev().take_while(|&index| tree.is_below(index, own));
    let first = children.filter(|&index| tree.parents[index] == own && tree.fields[index] == decorator).last()?;
    let before = &tree.text[..tree.starts[first] as usize];
    before.iter().rposition(|&byte| byte == b'@').map(row_number)
}

fn imported(tree: &Tree<'_>, row: usize, from: &str) -> String {
    let mut text = from.to_owned();
    for (nth, alias) in tree.children(row, Field::Names).enumerate() {
        let separator = if nth > 0 { ", " } else { "" };
        let name = dotted(tree, alias, Field::Name);
        let name = if name.is_empty() { "*" } else { &name };
        // Writing to a `String` cannot fail.
        let _ = write!(text, "{separator}{name}");
        if let Some(asname) = tree.children(alias, Field::Asname).next() {
            let _ = write!(text, " as {}", tree.name(tree.aux[asname]));
        }
    }
    text
}

/// `..package import `, for an `ImportFrom`.
fn origin(tree: &Tree<'_>, row: usize) -> String {
    let dots = ".".repeat(tree.aux[row] as usize);
    format!("{dots}{} import ", dotted(tree, row, Field::Module))
}

fn dotted(tree: &Tree<'_>, row: usize, field: Field) -> String {
    tree.children(row, field).map(|part| tree.name(tree.aux[part])).collect::<Vec<_>>().join(".")
}

fn row_number(row: usize) -> u32 {
    u32::try_from(row).expect("rows are counted in 32 bits")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Columns;

    /// Builds a tree from kind, field, parent, start, end, aux.
    fn columns(rows: &[(Kind, Field, u32, u32, u32, u32)], names: &[(u32, u32)]) -> Columns {
        let mut columns = Columns::default();
        for &(kind, field, parent, start, end, aux) in rows {
            columns.kinds.push(kind);
            columns.fields.push(field);
            columns.parents.push(parent);
            columns.starts.push(start);
            columns.ends.push(end);
            columns.aux.push(aux);
        }
        (columns.name_starts, columns.name_ends) = names.iter().copied().unzip();
        columns
    }

    #[test]
    fn a_method_has_its_class_its_decorator_and_its_docstring() {
        let text = b"class A:\n @b\n def c(): 'd'\n";
        let rows = [
            (Kind::ClassDef, Field::Body, NONE, 0, 27, 0),
            (Kind::Name, Field::DecoratorList, 2, 11, 12, 4),
            (Kind::FunctionDef, Field::Body, 0, 14, 26, 2),
            (Kind::Constant, Field::Value, 4, 23, 26, 0),
            (Kind::Expr, Field::Body, 2, 23, 26, 0),
        ];
        let mut columns = columns(&rows, &[(6, 7), (11, 12), (18, 19)]);
        columns.value_tags.push(Tag::Str);
        let [class, method] = outline(&Tree::new(text, &columns)).try_into().expect("two items");
        assert_eq!((class.name.as_str(), class.start, class.parent, class.docstring), ("A", 0, None, None));
        assert_eq!((method.name.as_str(), method.start, method.end), ("c", 10, 26));
        assert_eq!((method.parent, method.docstring), (Some(0), Some((23, 26))));
    }

    #[test]
    fn imports_keep_their_spelling() {
        let text = b"from ..a.b import c as d, *";
        let rows = [
            (Kind::Identifier, Field::Module, 6, 7, 8, 0),
            (Kind::Identifier, Field::Module, 6, 9, 10, 1),
            (Kind::Identifier, Field::Name, 4, 18, 19, 2),
            (Kind::Identifier, Field::Asname, 4, 23, 24, 3),
            (Kind::Alias, Field::Names, 6, 18, 24, 0),
            (Kind::Alias, Field::Names, 6, 26, 27, 0),
            (Kind::ImportFrom, Field::Body, NONE, 0, 27, 2),
        ];
        let columns = columns(&rows, &[(7, 8), (9, 10), (18, 19), (23, 24)]);
        let [item] = outline(&Tree::new(text, &columns)).try_into().expect("one item");
        assert_eq!(item.name, "..a.b import c as d, *");
    }
}
