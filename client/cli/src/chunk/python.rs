//! Cuts a Python file by its functions and classes.
//!
//! A function is a chunk, a long one windows of its lines. A class is one too: whole, or where it is long without the
//! bodies of its members; its methods are chunks besides. What is left between them is cut into windows.

use accelerd_client::{Lines, OutlineItem};

use super::{Chunk, MAX_TEXT_BYTES, Windows, head};

/// So few lines between two definitions are no chunk of their own: they go with what follows.
const FEW_LINES: usize = 2;

/// A file and what is known about it.
struct File<'a> {
    text: &'a str,
    lines: Lines<'a>,
    outline: &'a [OutlineItem],
    windows: Windows,
}

/// A function or class and the lines that it takes, from 1.
#[derive(Clone, Copy)]
struct Block<'a> {
    /// Its place in the outline.
    at: usize,
    item: &'a OutlineItem,
    first: usize,
    last: usize,
}

/// Cuts a text by its outline.
pub fn cut<'a>(text: &'a str, outline: &'a [OutlineItem], windows: Windows) -> Vec<Chunk<'a>> {
    let file = File { text, lines: Lines::of(text.as_bytes()), outline, windows };
    let mut chunks = vec![];
    let (blocks, gaps) = file.parts();
    for (first, last) in gaps {
        file.push_windows(first, last, None, &mut chunks);
    }
    for block in blocks {
        file.push_block(block, &mut chunks);
    }
    chunks.sort_by_key(|chunk| chunk.start_line);
    chunks
}

impl<'a> File<'a> {
    /// The lines from one to another, both included.
    fn between(&self, first: usize, last: usize) -> &'a str {
        let end = if last < self.lines.len() { self.lines.start(last + 1) } else { self.text.len() };
        self.text.get(self.lines.start(first)..end).unwrap_or_default()
    }

    fn line(&self, line: usize) -> &'a str {
        self.between(line, line).trim()
    }

    /// Functions and classes right in a class, or in the module, in order.
    fn blocks_in(&self, parent: Option<usize>) -> impl Iterator<Item = Block<'a>> + '_ {
        let inside = self.outline.iter().enumerate().filter(move |(_, item)| item.parent == parent);
        inside.filter(|(_, item)| item.is_function() || item.is_class()).map(|(at, item)| {
            let first = (*item.lines.start()).clamp(1, self.lines.len());
            Block { at, item, first, last: (*item.lines.end()).clamp(first, self.lines.len()) }
        })
    }

    /// The functions and classes of the module, and the lines between them that are more than a few.
    fn parts(&self) -> (Vec<Block<'a>>, Vec<(usize, usize)>) {
        let (mut blocks, mut gaps): (Vec<Block<'a>>, Vec<_>) = (vec![], vec![]);
        let mut next = 1;
        for mut block in self.blocks_in(None) {
            // A comment right above belongs to it.
            while block.first > next && self.line(block.first - 1).starts_with('#') {
                block.first -= 1;
            }
            match self.gap(next, block.first.saturating_sub(1)) {
                Some((first, _, count)) if count <= FEW_LINES => block.first = first,
                Some((first, last, _)) => gaps.push((first, last)),
                None => {}
            }
            next = next.max(block.last + 1);
            blocks.push(block);
        }
        match (self.gap(next, self.lines.len()), blocks.last_mut()) {
            (Some((_, last, count)), Some(block)) if count <= FEW_LINES => block.last = last,
            (Some((first, last, _)), _) => gaps.push((first, last)),
            (None, _) => {}
        }
        (blocks, gaps)
    }

    /// The first and the last line of some with anything on them, and how many there are.
    fn gap(&self, first: usize, last: usize) -> Option<(usize, usize, usize)> {
        let mut visible = (first..=last).filter(|line| !self.line(*line).is_empty());
        let start = visible.next()?;
        Some(visible.fold((start, start, 1), |(start, _, count), line| (start, line, count + 1)))
    }

    fn push_windows(&self, first: usize, last: usize, name: Option<&String>, chunks: &mut Vec<Chunk<'a>>) {
        let windows = self.windows.cut(self.between(first, last)).into_iter();
        chunks.extend(windows.map(|window| Chunk {
            start_line: window.start_line + first - 1,
            end_line: window.end_line + first - 1,
            name: name.cloned(),
            text: window.text,
        }));
    }

    fn push_block(&self, block: Block<'a>, chunks: &mut Vec<Chunk<'a>>) {
        let name = block.item.qualified_name(self.outline);
        let is_long = block.last + 1 - block.first > self.windows.most_lines();
        if is_long && block.item.is_class() {
            self.push_skeleton(block, &name, chunks);
        } else {
            self.push_windows(block.first, block.last, Some(&name), chunks);
        }
        if block.item.is_class() {
            for member in self.blocks_in(Some(block.at)) {
                self.push_block(member, chunks);
            }
        }
    }

    /// What a long class says about itself: all its lines but its members' bodies, in as many chunks as that takes.
    fn push_skeleton(&self, class: Block<'a>, name: &str, chunks: &mut Vec<Chunk<'a>>) {
        let mut kept = vec![];
        let mut next = class.first;
        for member in self.blocks_in(Some(class.at)) {
            kept.extend(next..member.first);
            kept.extend(member.first..=self.header_end(member));
            next = member.last + 1;
        }
        kept.extend(next..=class.last);
        kept.retain(|line| !self.line(*line).is_empty());
        let whole = kept.len() <= self.windows.most_lines();
        let most = if whole { kept.len().max(1) } else { self.windows.lines.get() };
        for lines in kept.chunks(most) {
            let (Some(first), Some(last)) = (lines.first(), lines.last()) else { continue };
            let text: String = lines.iter().map(|line| self.between(*line, *line)).collect();
            chunks.push(Chunk {
                start_line: *first,
                end_line: if whole { class.last } else { *last },
                name: Some(name.to_owned()),
                text: head(text.trim_end(), MAX_TEXT_BYTES).to_owned().into(),
            });
        }
    }

    /// The last line of a definition's header: the first to end in a colon outside of brackets. The outline does not
    /// say, and a bracket in a default's text costs a line more or less in what the model sees, no more.
    fn header_end(&self, block: Block<'_>) -> usize {
        let is_header = |line: &usize| !self.line(*line).starts_with(['@', '#']);
        let mut depth = 0_i32;
        for line in (block.first..=block.last).filter(is_header) {
            let code = self.line(line).split(" #").next().unwrap_or_default().trim_end();
            depth += code.chars().map(|c| i32::from("([{".contains(c)) - i32::from(")]}".contains(c))).sum::<i32>();
            if depth <= 0 && code.ends_with(':') {
                return line;
            }
        }
        block.first
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
        let chunks = cut(text, &outline, windows());
        assert_eq!(shape(&chunks), [(1, 3, None), (5, 7, Some("f")), (9, 15, Some("g"))]);
        assert_eq!(chunks[1].text, "# why\ndef f():\n    pass");
    }

    #[test]
    fn methods_are_chunks_besides_their_class() {
        let text = "class A:\n    x = 1\n\n    def f(self):\n        def inner(): ...\n        return 1\n";
        let outline = [class("A", 1..=6), def("f", 4..=6, Some(0)), def("inner", 5..=5, Some(1))];
        let chunks = cut(text, &outline, windows());
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
        let chunks = cut(&text, &outline, windows());
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
        let chunks = cut(&text, &outline, windows());
        assert_eq!(shape(&chunks), [(1, 8, Some("A")), (9, 16, Some("A")), (17, 24, Some("A")), (25, 31, Some("A"))]);
    }

    #[test]
    fn lines_that_lie_do_no_harm() {
        let outline = [class("A", 7..=900), def("f", 0..=0, Some(0)), def("g", RangeInclusive::new(5, 2), None)];
        for text in ["", "x\n", "x\ny\nz\n"] {
            cut(text, &outline, windows());
        }
    }

    #[test]
    fn a_file_without_definitions_is_windows() {
        let text = "x = 1\n".repeat(30);
        assert_eq!(cut(&text, &[], windows()), windows().cut(&text));
        assert!(cut("\n\n", &[], windows()).is_empty());
    }
}
