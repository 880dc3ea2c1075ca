//! Outline of a source: its functions, classes and imports.

use std::ops::{Range, RangeInclusive};

use crate::proto::{self, NodeKind};

/// A function, class or import.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OutlineItem {
    /// `FunctionDef`, `AsyncFunctionDef`, `ClassDef`, `Import` or `ImportFrom`.
    pub kind: NodeKind,
    /// Name of a function or class; operand of an import, as in `os.path as p` or `.x import a, b`.
    pub name: String,
    /// Range of bytes in the text, decorators included.
    pub span: Range<usize>,
    /// Lines, from 1.
    pub lines: RangeInclusive<usize>,
    /// Index in the outline of the enclosing function or class.
    pub parent: Option<usize>,
    /// Range of bytes of the docstring's literal.
    pub docstring: Option<Range<usize>>,
}

impl OutlineItem {
    /// Converts the item at an index. A parent that does not precede it is dropped, so that parents cannot form a loop.
    pub(super) fn new(index: usize, item: proto::OutlineItem) -> Self {
        let docstring = item.docstring_start as usize..item.docstring_end as usize;
        Self {
            kind: item.kind(),
            parent: item.parent.map(|parent| parent as usize).filter(|parent| *parent < index),
            span: item.start as usize..item.end as usize,
            lines: item.line as usize..=item.end_line as usize,
            docstring: Some(docstring).filter(|docstring| !docstring.is_empty()),
            name: item.name,
        }
    }

    /// Returns true if the item is a function, async functions included.
    pub fn is_function(&self) -> bool {
        matches!(self.kind, NodeKind::FunctionDef | NodeKind::AsyncFunctionDef)
    }

    /// Returns true if the item is a class.
    pub fn is_class(&self) -> bool {
        self.kind == NodeKind::ClassDef
    }

    /// Name prefixed with those of the enclosing functions and classes, as in `Client.connect`.
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
