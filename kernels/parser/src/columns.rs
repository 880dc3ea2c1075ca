//! The columns of a tree: one row a node, in an order that a parallel parser can write.
//!
//! **Order.** Nodes stand in the order of their logical lines; inside a line children stand before their parents, and
//! siblings from left to right. So a node of an expression has a larger parent, and a statement of a body has a smaller
//! one, for the line that opens a block stands before the lines of its body. Nodes with the same parent and field form
//! the field's list in ascending order. A statement of the module's own body has the parent [`NONE`].
//!
//! **What has no row.** `Module`; `arguments`, whose fields are fields of the `FunctionDef` or `Lambda`; operators other than
//! `Compare`'s; contexts; the lines `else:` and `finally:`.
//!
//! **`aux`**, by kind:
//!
//! | kind | `aux` |
//! |---|---|
//! | `Name`, `Attribute` | 4 x name + [`Context`] |
//! | `Subscript`, `Starred`, `List`, `Tuple` | [`Context`] |
//! | `FunctionDef`, `AsyncFunctionDef`, `ClassDef`, `arg`, `TypeVar`, `ParamSpec`, `TypeVarTuple`, `Identifier` | name |
//! | `keyword`, `ExceptHandler`, `MatchStar`, `MatchAs` | name, or [`NONE`] |
//! | `MatchMapping` | the name behind `**`, or [`NONE`] |
//! | `BoolOp`, `BinOp`, `UnaryOp`, `AugAssign`, `CompareOp` | [`Operator`] |
//! | `Constant`, `MatchSingleton` | a value, or one of [`VALUE_NONE`], [`VALUE_FALSE`], [`VALUE_TRUE`], [`VALUE_ELLIPSIS`] |
//! | `ImportFrom` | the level: how many dots |
//! | `AnnAssign` | `simple`, 0 or 1 |
//! | `comprehension` | `is_async`, 0 or 1 |
//! | `FormattedValue`, `Interpolation` | the conversion's character, or [`NONE`] |
//! | all others | 0 |
//!
//! **Names with several parts.** An `alias` has an `Identifier` a part of its dotted name, in the field `name` (none: `*`),
//! and one in `asname`; an `ImportFrom` has those of its module in the field `module` (none: only dots). `Global` and `Nonlocal` have
//! theirs in `names`, the keywords of a `MatchClass` in `kwd_attrs`, each before its pattern.
//!
//! **Places** are bytes of the text: the source as UTF-8, its byte order mark included. A row has a place even where
//! CPython's class has none (`comprehension`, `withitem`, `match_case`, `Identifier`, `CompareOp`): from its first token to its last.
//!
//! **Names and values** are slices of the text followed by `extra`: a place at or behind the text's length lies in
//! `extra`. Most are slices of the text itself; `extra` has what is written otherwise there: names that are not in
//! NFKC, strings with escapes, joined strings. A name occurs once; names stand in the order in which their tokens first occur.
//! Values stand in the order of their nodes.
//!
//! As an example, `x += f(1)`:
//!
//! | row | kind | field | parent | start | end | aux |
//! |---|---|---|---|---|---|---|
//! | 0 | `Name` | `target` | 4 | 0 | 1 | 4 x 0 + store |
//! | 1 | `Name` | `func` | 3 | 5 | 6 | 4 x 1 + load |
//! | 2 | `Constant` | `args` | 3 | 7 | 8 | value 0 |
//! | 3 | `Call` | `value` | 4 | 5 | 9 | 0 |
//! | 4 | `AugAssign` | `body` | none | 0 | 9 | `Add` |

use bytemuck::NoUninit;

pub use crate::kinds::{Field, Kind, Operator};

/// No parent, no name, no conversion.
pub const NONE: u32 = u32::MAX;
/// The value `None`.
pub const VALUE_NONE: u32 = u32::MAX;
/// The value `False`.
pub const VALUE_FALSE: u32 = u32::MAX - 1;
/// The value `True`.
pub const VALUE_TRUE: u32 = u32::MAX - 2;
/// The value `...`.
pub const VALUE_ELLIPSIS: u32 = u32::MAX - 3;

/// What an expression is there for; the low two bits of `aux` where a kind has one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Context {
    /// Its value is read.
    Load = 0,
    /// It is assigned to.
    Store = 1,
    /// It is deleted.
    Del = 2,
}

/// The type of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, NoUninit)]
#[repr(u8)]
pub enum Tag {
    /// An integer, as it is written: any base, underscores included.
    Int = 1,
    /// A float, as it is written.
    Float = 2,
    /// An imaginary number, as it is written, with its `j`.
    Imaginary = 3,
    /// A string: its characters in UTF-8, a lone surrogate as the three bytes that UTF-8 would have for it.
    Str = 4,
    /// A string whose first piece is prefixed with a lower-case `u`: `kind='u'`.
    UnicodeStr = 5,
    /// Bytes.
    Bytes = 6,
}

impl Tag {
    /// All of them, in the order of their numbers, which start at 1.
    pub const ALL: [Self; 6] = [Self::Int, Self::Float, Self::Imaginary, Self::Str, Self::UnicodeStr, Self::Bytes];
}

/// A tree, or what a mask left of it. Columns of one table have equal lengths.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Columns {
    /// What each node is.
    pub kinds: Vec<Kind>,
    /// Which field of its parent it is in.
    pub fields: Vec<Field>,
    /// Its parent's row, or [`NONE`].
    pub parents: Vec<u32>,
    /// Where it starts.
    pub starts: Vec<u32>,
    /// Where it ends.
    pub ends: Vec<u32>,
    /// By kind: see above.
    pub aux: Vec<u32>,
    /// Where each name starts.
    pub name_starts: Vec<u32>,
    /// Where each name ends.
    pub name_ends: Vec<u32>,
    /// The type of each value.
    pub value_tags: Vec<Tag>,
    /// Where each value starts.
    pub value_starts: Vec<u32>,
    /// Where each value ends.
    pub value_ends: Vec<u32>,
    /// What names and values are where the text has them in another form.
    pub extra: Vec<u8>,
}
