//! Splits a Python file by the daemon's outline.

use accelerd_client::{Lines, OutlineItem};

use super::{
    Chunk, Windows,
    items::{File, Item},
};

/// Splits a text by its outline.
pub fn split<'a>(text: &'a str, outline: &[OutlineItem], windows: Windows) -> Vec<Chunk<'a>> {
    let lines = Lines::of(text.as_bytes());
    let starts: Vec<_> = (1..=lines.len()).map(|line| lines.start(line)).collect();
    let source = Source { text, starts: &starts };
    let items = source.items(outline);
    File { text, starts, items, windows }.split()
}

struct Source<'a> {
    text: &'a str,
    starts: &'a [usize],
}

impl<'a> Source<'a> {
    fn line(&self, line: usize) -> &'a str {
        let start = |line: usize| self.starts.get(line - 1).copied().unwrap_or(self.text.len());
        self.text.get(start(line)..start(line + 1)).unwrap_or_default().trim()
    }

    /// Functions and classes of the module and of classes. Nested functions are part of their function.
    fn items(&self, outline: &[OutlineItem]) -> Vec<Item> {
        let mut place = vec![None; outline.len()];
        let mut items = vec![];
        for (index, item) in outline.iter().enumerate().filter(|(_, item)| item.is_function() || item.is_class()) {
            let parent = match item.parent {
                None => None,
                Some(parent) if outline[parent].is_class() && place[parent].is_some() => place[parent],
                Some(_) => continue,
            };
            place[index] = Some(items.len());
            items.push(self.item(item, item.qualified_name(outline), parent));
        }
        items
    }

    fn item(&self, item: &OutlineItem, name: String, parent: Option<usize>) -> Item {
        let line_count = self.starts.len().max(1);
        let start = (*item.lines.start()).clamp(1, line_count);
        let last = (*item.lines.end()).clamp(start, line_count);
        // Comments directly above belong to the item.
        let first = (1..start).rev().take_while(|line| self.line(*line).starts_with('#')).last().unwrap_or(start);
        let header_end = self.header_end(start, last);
        Item { name, first, header_end, last, parent, is_class: item.is_class(), is_test: false }
    }

    /// The last line of a definition's header: the first one that ends in a colon outside brackets. A bracket in a string
    /// default may shift it, which is harmless.
    fn header_end(&self, first: usize, last: usize) -> usize {
        let is_header = |line: &usize| !self.line(*line).starts_with(['@', '#']);
        let mut depth = 0_i32;
        for line in (first..=last).filter(is_header) {
            let code = self.line(line).split(" #").next().unwrap_or_default().trim_end();
            depth += code.chars().map(|c| i32::from("([{".contains(c)) - i32::from(")]}".contains(c))).sum::<i32>();
            if depth <= 0 && code.ends_with(':') {
                return line;
            }
        }
        first
    }
}

#[cfg(test)]
mod tests {
    use std::ops::RangeInclusive;

    use accelerd_client::proto::NodeKind;

    use super::*;

    fn item(kind: NodeKind, name: &str, lines: RangeInclusive<usize>, parent: Option<usize>) -> OutlineItem {
        OutlineItem { kind, name: name.into(), span: 0..0, lines, parent, docstring: None }
    }

    fn class(name: &str, lines: RangeInclusive<usize>) -> OutlineItem {
        item(NodeKind::ClassDef, name, lines, None)
    }

    fn def(name: &str, lines: RangeInclusive<usize>, parent: Option<usize>) -> OutlineItem {
        item(NodeKind::FunctionDef, name, lines, parent)
    }

    fn windows() -> Windows {
        Windows::new(8, 2).unwrap()
    }

    fn shape<'a>(chunks: &'a [Chunk<'_>]) -> Vec<(usize, usize, Option<&'a str>)> {
        chunks.iter().map(|chunk| (chunk.start_line, chunk.end_line, chunk.name.as_deref())).collect()
    }

    #[test]
    fn functions_and_what_is_between_them_are_chunks() {
        let text =
            "import a\nimport b\nimport c\n\n# why\ndef f():\n    pass\n\nx = 1\n\n@d\ndef g():\n    pass\n\nmain()\n";
        let outline = [def("f", 6..=7, None), def("g", 11..=13, None)];
        let chunks = split(text, &outline, windows());
        assert_eq!(shape(&chunks), [(1, 3, None), (5, 7, Some("f")), (9, 15, Some("g"))]);
        assert_eq!(chunks[1].text, "# why\ndef f():\n    pass");
    }

    #[test]
    fn methods_are_chunks_besides_their_class() {
        let text = "class A:\n    x = 1\n\n    def f(self):\n        def inner(): ...\n        return 1\n";
        let outline = [class("A", 1..=6), def("f", 4..=6, Some(0)), def("inner", 5..=5, Some(1))];
        let chunks = split(text, &outline, windows());
        assert_eq!(shape(&chunks), [(1, 6, Some("A")), (4, 6, Some("A.f"))]);
        assert_eq!(chunks[0].text, text.trim_end());
    }

    #[test]
    fn a_long_class_is_its_header_and_its_members_signatures() {
        let body = "        pass\n".repeat(9);
        let text = format!(
            "class A(B):\n    \"\"\"Doc.\"\"\"\n\n    @d\n    def f(\n        self, a: {{}} = (),\n    ) -> int:  # note\n{body}\n    def g(self): pass\n"
        );
        let outline = [class("A", 1..=18), def("f", 4..=16, Some(0)), def("g", 18..=18, Some(0))];
        let chunks = split(&text, &outline, windows());
        assert_eq!(
            shape(&chunks),
            [(1, 18, Some("A")), (4, 11, Some("A.f")), (10, 16, Some("A.f")), (18, 18, Some("A.g"))]
        );
        assert_eq!(
            chunks[0].text,
            "class A(B):\n    \"\"\"Doc.\"\"\"\n    @d\n    def f(\n        self, a: {} = (),\n    ) -> int:  # note\n    def g(self): pass"
        );
    }

    #[test]
    fn a_long_list_of_members_takes_several_chunks() {
        let text = format!("class A:\n{}", "    X = 1\n".repeat(30));
        let outline = [class("A", 1..=31)];
        let chunks = split(&text, &outline, windows());
        assert_eq!(shape(&chunks), [(1, 8, Some("A")), (9, 16, Some("A")), (17, 24, Some("A")), (25, 31, Some("A"))]);
    }

    #[test]
    fn lines_that_lie_do_no_harm() {
        let outline = [class("A", 7..=900), def("f", 0..=0, Some(0)), def("g", RangeInclusive::new(5, 2), None)];
        for text in ["", "x\n", "x\ny\nz\n"] {
            split(text, &outline, windows());
        }
    }

    #[test]
    fn a_file_without_definitions_is_windows() {
        let text = "x = 1\n".repeat(30);
        assert_eq!(split(&text, &[], windows()), windows().split(&text));
        assert!(split("\n\n", &[], windows()).is_empty());
    }
}
