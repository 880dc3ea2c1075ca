//! Splits a file by its functions and classes.
//!
//! A function is a chunk; a long one is split into windows of lines. A class is a chunk, without the bodies of its members if
//! it is long, and its members are chunks as well. The code between items is split into windows, so that every line with text
//! is in a chunk.

use super::{Chunk, MAX_TEXT_BYTES, Windows, head};

/// Up to this many lines between two items are added to the following item instead of becoming a chunk.
const FEW_LINES: usize = 2;

/// A function, a class or a similar construct.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Item {
    /// Qualified name.
    pub name: String,
    /// First line from 1, leading comments and attributes included.
    pub first: usize,
    /// Last line of its signature.
    pub header_end: usize,
    /// Last line.
    pub last: usize,
    /// Index of the enclosing class.
    pub parent: Option<usize>,
    /// True if a long item is reduced to its members' signatures.
    pub is_class: bool,
    /// True if it is test code.
    pub is_test: bool,
}

/// A text with its line starts, in ascending order, and its items.
pub struct File<'a> {
    pub text: &'a str,
    pub starts: Vec<usize>,
    pub items: Vec<Item>,
    pub windows: Windows,
}

/// An item by its index, with its first and last line.
type Block = (usize, usize, usize);
/// First and last line between items.
type Gap = (usize, usize);

impl<'a> File<'a> {
    /// Splits the file. Chunks are in the order of their lines.
    pub fn split(mut self) -> Vec<Chunk<'a>> {
        let line_count = self.starts.len().max(1);
        for item in &mut self.items {
            item.first = item.first.clamp(1, line_count);
            item.last = item.last.clamp(item.first, line_count);
            item.header_end = item.header_end.clamp(item.first, item.last);
        }
        let mut members = vec![vec![]; self.items.len() + 1];
        for (index, item) in self.items.iter().enumerate() {
            // A parent precedes its members, so there are no cycles.
            members[item.parent.filter(|parent| *parent < index).map_or(0, |parent| parent + 1)].push(index);
        }
        for siblings in &mut members {
            self.order(siblings);
        }
        let mut chunks = vec![];
        let (blocks, gaps) = self.parts(&members[0]);
        for (first, last) in gaps {
            self.push_windows(first, last, None, &mut chunks);
        }
        let mut pending = blocks;
        while let Some((index, first, last)) = pending.pop() {
            self.push_item(index, first, last, &members[index + 1], &mut chunks);
            pending.extend(
                members[index + 1].iter().map(|index| (*index, self.items[*index].first, self.items[*index].last)),
            );
        }
        chunks.sort_by_key(|chunk| chunk.start_line);
        chunks
    }

    /// Sorts siblings, and drops those whose lines all belong to a preceding one, such as several items on a line.
    fn order(&self, siblings: &mut Vec<usize>) {
        siblings.sort_by_key(|index| (self.items[*index].first, std::cmp::Reverse(self.items[*index].last)));
        let mut covered = 0;
        siblings.retain(|index| {
            let is_new = self.items[*index].last > covered;
            covered = covered.max(self.items[*index].last);
            is_new
        });
    }

    /// Text of a range of lines, both ends included.
    fn between(&self, first: usize, last: usize) -> &'a str {
        let start = |line: usize| self.starts.get(line - 1).copied().unwrap_or(self.text.len());
        self.text.get(start(first)..start(last + 1)).unwrap_or_default()
    }

    fn line(&self, line: usize) -> &'a str {
        self.between(line, line).trim()
    }

    /// Returns the top-level items with their lines, and the gaps between them that are longer than `FEW_LINES`.
    fn parts(&self, items: &[usize]) -> (Vec<Block>, Vec<Gap>) {
        let mut blocks: Vec<Block> = vec![];
        let mut gaps: Vec<Gap> = vec![];
        let mut next = 1;
        for index in items {
            let item = &self.items[*index];
            let mut first = item.first;
            match self.gap(next, first.saturating_sub(1)) {
                Some((start, _, count)) if count <= FEW_LINES => first = start,
                Some((start, end, _)) => gaps.push((start, end)),
                None => {}
            }
            next = next.max(item.last + 1);
            blocks.push((*index, first, item.last));
        }
        match (self.gap(next, self.starts.len()), blocks.last_mut()) {
            (Some((_, end, count)), Some((_, _, last))) if count <= FEW_LINES => *last = end,
            (Some((start, end, _)), _) => gaps.push((start, end)),
            (None, _) => {}
        }
        (blocks, gaps)
    }

    /// First and last non-blank line of a range, and the number of non-blank lines.
    fn gap(&self, first: usize, last: usize) -> Option<(usize, usize, usize)> {
        let mut visible = (first..=last).filter(|line| !self.line(*line).is_empty());
        let start = visible.next()?;
        Some(visible.fold((start, start, 1), |(start, _, count), line| (start, line, count + 1)))
    }

    fn push_windows(&self, first: usize, last: usize, item: Option<&Item>, chunks: &mut Vec<Chunk<'a>>) {
        let windows = self.windows.split(self.between(first, last)).into_iter();
        chunks.extend(windows.map(|window| Chunk {
            start_line: window.start_line + first - 1,
            end_line: window.end_line + first - 1,
            name: item.map(|item| item.name.clone()),
            is_test: item.is_some_and(|item| item.is_test),
            text: window.text,
        }));
    }

    fn push_item(&self, index: usize, first: usize, last: usize, members: &[usize], chunks: &mut Vec<Chunk<'a>>) {
        let item = &self.items[index];
        let is_long = last + 1 - first > self.windows.most_lines();
        if is_long && item.is_class {
            self.push_skeleton(item, (first, last), members, chunks);
        } else {
            self.push_windows(first, last, Some(item), chunks);
        }
    }

    /// Adds the lines of a long class without its members' bodies, in one or more chunks.
    fn push_skeleton(
        &self,
        class: &Item,
        (first, last): (usize, usize),
        members: &[usize],
        chunks: &mut Vec<Chunk<'a>>,
    ) {
        let mut kept = vec![];
        let mut next = first;
        for member in members.iter().map(|index| &self.items[*index]) {
            kept.extend(next..member.first);
            kept.extend(next.max(member.first)..=member.header_end);
            next = next.max(member.last + 1);
        }
        kept.extend(next..=last);
        kept.retain(|line| !self.line(*line).is_empty());
        let whole = kept.len() <= self.windows.most_lines();
        let maximum = if whole { kept.len().max(1) } else { self.windows.lines.get() };
        for lines in kept.chunks(maximum) {
            let (Some(start), Some(end)) = (lines.first(), lines.last()) else { continue };
            let text: String = lines.iter().map(|line| self.between(*line, *line)).collect();
            chunks.push(Chunk {
                start_line: *start,
                end_line: if whole { last } else { *end },
                name: Some(class.name.clone()),
                is_test: class.is_test,
                text: head(text.trim_end(), MAX_TEXT_BYTES).to_owned().into(),
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn item(name: &str, first: usize, last: usize, parent: Option<usize>) -> Item {
        Item {
            name: name.into(),
            first,
            header_end: first,
            last,
            parent,
            is_class: name.starts_with(char::is_uppercase),
            is_test: false,
        }
    }

    fn split<'a>(text: &'a str, items: &[Item]) -> Vec<Chunk<'a>> {
        let starts = super::super::line_starts(text).collect();
        File { text, starts, items: items.to_vec(), windows: Windows::new(8, 2).unwrap() }.split()
    }

    fn shape<'a>(chunks: &'a [Chunk<'_>]) -> Vec<(usize, usize, Option<&'a str>)> {
        chunks.iter().map(|chunk| (chunk.start_line, chunk.end_line, chunk.name.as_deref())).collect()
    }

    #[test]
    fn every_line_with_text_is_in_a_chunk() {
        let text: String = (1..=60).map(|n| if n % 7 == 0 { "\n".to_owned() } else { format!("line {n}\n") }).collect();
        let items =
            [item("f", 4, 9, None), item("A", 20, 45, None), item("A.f", 22, 24, Some(1)), item("g", 50, 50, None)];
        let chunks = split(&text, &items);
        for line in (1..=60).filter(|n| n % 7 != 0) {
            let word = format!("line {line}");
            assert!(chunks.iter().any(|chunk| chunk.text.lines().any(|line| line == word)), "{word}");
        }
    }

    #[test]
    fn items_on_one_line_are_one_chunk() {
        let chunks = split("f() g() h()\n", &[item("f", 1, 1, None), item("g", 1, 1, None), item("h", 1, 1, None)]);
        assert_eq!(shape(&chunks), [(1, 1, Some("f"))]);
    }

    #[test]
    fn lines_and_parents_that_cannot_be_are_put_right() {
        let items = [item("A", 0, 900, Some(0)), item("f", 7, 3, Some(5)), item("g", 2, 2, Some(0))];
        let chunks = split("a\nb\nc\n", &items);
        assert_eq!(shape(&chunks), [(1, 3, Some("A")), (2, 2, Some("g"))]);
        assert!(split("", &items).is_empty());
    }
}
