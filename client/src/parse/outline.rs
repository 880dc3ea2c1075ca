//! The outline of a source: its functions, classes and imports.

use std::ops::{Range, RangeInclusive};

use crate::proto::{self, NodeKind};

/// A function, class or import.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OutlineItem {
    /// `FunctionDef`, `AsyncFunctionDef`, `ClassDef`, `Import` or `ImportFrom`.
    pub kind: NodeKind,
    /// Of a function or class its name; of an import what is imported, as in `os.path as p` or `.x import a, b`.
    pub name: String,
    /// Bytes of the text, decorators included.
    pub span: Range<usize>,
    /// Lines, from 1.
    pub lines: RangeInclusive<usize>,
    /// Index in the outline of the function or class around it.
    pub parent: Option<usize>,
    /// Bytes of the docstring's literal.
    pub docstring: Option<Range<usize>>,
}

impl OutlineItem {
    /// Reads the item at an index; a parent that does not stand before it is none.
    pub(super) fn new(at: usize, item: proto::OutlineItem) -> Self {
        let docstring = item.docstring_start as usize..item.docstring_end as usize;
        Self {
            kind: item.kind(),
            parent: item.parent.map(|parent| parent as usize).filter(|parent| *parent < at),
            span: item.start as usize..item.end as usize,
            lines: item.line as usize..=item.end_line as usize,
            docstring: Some(docstring).filter(|docstring| !docstring.is_empty()),
            name: item.name,
        }
    }

    /// Whether it is a function, async ones included.
    pub fn is_function(&self) -> bool {
        matches!(self.kind, NodeKind::FunctionDef | NodeKind::AsyncFunctionDef)
    }

    /// Whether it is a class.
    pub fn is_class(&self) -> bool {
        self.kind == NodeKind::ClassDef
    }

    /// Its name behind those of the functions and classes around it, as in `Client.connect`.
    pub fn qualified_name(&self, outline: &[Self]) -> String {
        let above = |item: &&Self| item.parent.and_then(|parent| outline.get(parent));
        let mut names: Vec<_> = std::iter::successors(Some(self), above).map(|item| item.name.as_str()).collect();
        names.reverse();
        names.join(".")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_qualified_and_loops_of_parents_are_cut() {
        let item = |name: &str, parent| proto::OutlineItem { name: name.into(), parent, ..Default::default() };
        let items = [item("A", None), item("B", Some(0)), item("f", Some(1)), item("lie", Some(3))];
        let outline: Vec<_> = (0..).zip(items).map(|(at, item)| OutlineItem::new(at, item)).collect();
        assert_eq!(outline[2].qualified_name(&outline), "A.B.f");
        assert_eq!(outline[3].qualified_name(&outline), "lie");
        assert_eq!(outline[0].docstring, None);
    }
}
