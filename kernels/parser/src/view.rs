//! A borrowed view of a tree's columns, from [`Columns`] or from a batch's response.

use std::borrow::Cow;

use crate::columns::{Columns, Field, Kind, Tag};

/// The columns of one tree; [`crate::columns`] says what they mean.
#[derive(Clone, Copy, Debug)]
#[expect(missing_docs, reason = "documented in `columns`")]
pub struct Tree<'a> {
    /// The source as UTF-8.
    pub text: &'a [u8],
    pub extra: &'a [u8],
    pub kinds: &'a [u8],
    pub fields: &'a [u8],
    pub parents: &'a [u32],
    pub starts: &'a [u32],
    pub ends: &'a [u32],
    pub aux: &'a [u32],
    pub name_starts: &'a [u32],
    pub name_ends: &'a [u32],
    pub value_tags: &'a [u8],
}

impl<'a> Tree<'a> {
    /// A view of a text's tree.
    pub fn new(text: &'a [u8], columns: &'a Columns) -> Self {
        Self {
            text,
            extra: &columns.extra,
            kinds: bytemuck::cast_slice(&columns.kinds),
            fields: bytemuck::cast_slice(&columns.fields),
            parents: &columns.parents,
            starts: &columns.starts,
            ends: &columns.ends,
            aux: &columns.aux,
            name_starts: &columns.name_starts,
            name_ends: &columns.name_ends,
            value_tags: bytemuck::cast_slice(&columns.value_tags),
        }
    }

    /// Number of rows.
    pub fn len(&self) -> usize {
        self.kinds.len()
    }

    /// Returns true if it has no rows.
    pub fn is_empty(&self) -> bool {
        self.kinds.is_empty()
    }

    /// The kind of a row.
    pub fn kind(&self, row: usize) -> Option<Kind> {
        Kind::ALL.get(usize::from(self.kinds[row]).checked_sub(1)?).copied()
    }

    /// The type of a `Constant`'s value; `None` for other rows, and for constants that have no value entry.
    pub fn tag(&self, row: usize) -> Option<Tag> {
        if self.kind(row) != Some(Kind::Constant) {
            return None;
        }
        let tag = *self.value_tags.get(self.aux[row] as usize)?;
        Tag::ALL.get(usize::from(tag).checked_sub(1)?).copied()
    }

    /// A name, by its number.
    pub fn name(&self, number: u32) -> Cow<'a, str> {
        let start = self.name_starts[number as usize] as usize;
        let end = self.name_ends[number as usize] as usize;
        String::from_utf8_lossy(self.slice(start, end))
    }

    /// The bytes between two offsets, in the text or, from its length on, in `extra`.
    pub fn slice(&self, start: usize, end: usize) -> &'a [u8] {
        let size = self.text.len();
        if start < size { &self.text[start..end] } else { &self.extra[start - size..end - size] }
    }

    /// The children of a row in a field that are in its own line, in order.
    pub fn children(&self, row: usize, field: Field) -> impl Iterator<Item = usize> {
        let number = u32::try_from(row).expect("rows are counted in 32 bits");
        let first = (0..row).rev().take_while(|&index| self.is_below(index, number)).last().unwrap_or(row);
        (first..row).filter(move |&index| self.parents[index] == number && self.fields[index] == field as u8)
    }

    /// Returns true if a row is in the subtree that ends with `root`: its parent comes after it, at most at the root. Holds for
    /// the rows of the subtree and the row directly before them.
    pub(crate) fn is_below(&self, row: usize, root: u32) -> bool {
        self.parents[row] as usize > row && self.parents[row] <= root
    }
}
