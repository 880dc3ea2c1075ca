//! So many sources as go to the device at once, from stage to stage: packed, lexed, parsed, brought back.

use std::{
    borrow::Cow,
    ops::Range,
    sync::{Arc, OnceLock},
};

use accelerd_parser::{Tree, lexer::MOST_BYTES, text};
use bytes::Bytes;
use memchr::memmem;

use super::{
    areas::{Areas, Places, Stretch},
    left::{BY_VALUE, Leave},
    lexer::{self, Lexing, Sources, Tokens},
    tree::{Lexed, Summary, Trees, trees},
};
use crate::{
    OpError,
    cuda::{Buffer, Device, Landed, Landing, Layout, Mark, On, Order, Place, Worker},
    ops::parse::{
        Columns, Counts, Item, Located, Outputs, ParseRequest,
        columns::Table,
        cpu::{Done, Locate},
        gather::{Part, Piece},
    },
};

/// One source of the batch.
#[derive(Clone, Copy)]
pub(super) struct Asked<'a> {
    pub(super) request: &'a ParseRequest,
    pub(super) bytes: &'a Bytes,
}

/// What is known of a source before the device sees it.
struct Text<'a> {
    /// None if its bytes are no text: the CPU says why.
    text: Option<Cow<'a, str>>,
    /// Why it is the CPU's, if that is known already.
    left: Option<u32>,
}

/// Sources in pinned memory, as the device wants them.
pub(super) struct Packed<'a> {
    held: Held<'a>,
    packed: lexer::Packed,
}

/// Sources on their way.
struct Held<'a> {
    range: Range<usize>,
    sources: &'a [Asked<'a>],
    texts: Vec<Text<'a>>,
}

/// Sources that are being lexed.
pub(super) struct InLexer<'a> {
    held: Held<'a>,
    worker: &'a Worker,
    on_device: Sources,
    lexing: Lexing,
}

/// Sources that are being parsed.
pub(super) struct InParser<'a> {
    held: Held<'a>,
    on_device: Sources,
    tokens: Tokens,
    trees: Trees,
    landing: Landing,
    summary: Place<Summary>,
    bases: Bases,
}

/// Sources that have been parsed, but for those that are left to the CPU.
pub(super) struct Parsed<'a> {
    range: Range<usize>,
    texts: Vec<Text<'a>>,
    bytes: usize,
    /// By source and behind the last: what is before it in the columns on the device.
    before: Vec<Counts>,
    tokens: Tokens,
    trees: Trees,
}

/// Sources whose columns are being copied back.
pub(super) struct OnTheWay<'a> {
    back: Back<'a>,
    done: Mark,
    /// What is copied must stay until it has been.
    _kept: (Tokens, Trees),
}

/// Sources whose columns are back.
pub(super) struct Back<'a> {
    range: Range<usize>,
    texts: Vec<Text<'a>>,
    /// By source and behind the last: what is before it in the columns of the area.
    before: Vec<Counts>,
    /// Number of the area that the columns are in, and where its columns are.
    area: usize,
    places: Places,
}

/// How many rows of the lexer's tables are before each source; none of what nobody wants.
struct Bases {
    lines: Option<Place<u32>>,
    names: Option<Place<u32>>,
    tokens: Option<Place<u32>>,
    comments: Option<Place<u32>>,
}

/// Decodes `range` of all sources and packs them; starts the CPU with those that are sure to be its own.
pub(super) fn pack<'a>(
    all: &'a [Asked<'a>],
    range: Range<usize>,
    device: &Device,
    leave: &Leave<'_>,
) -> Result<Packed<'a>, OpError> {
    let sources = &all[range.clone()];
    // What is longer is no text.
    let size = |source: &Asked<'_>| if source.bytes.len() > MOST_BYTES { 0 } else { source.bytes.len() };
    let sizes: Vec<usize> = sources.iter().map(size).collect();
    let (packed, texts) = lexer::Packed::new(&sizes, |at| Text::of(&sources[at]), device)?;
    let held = Held { range, sources, texts };
    held.leave(held.texts.iter().enumerate().filter_map(|(at, text)| Some((at, text.left?))), leave);
    Ok(Packed { held, packed })
}

impl<'a> Text<'a> {
    fn of(source: &Asked<'a>) -> Self {
        let text = text::decode(source.bytes, &source.request.options).ok();
        let left = text.as_ref().map_or(Some(0), |text| names_characters(text.as_bytes()).then_some(BY_VALUE));
        Self { text, left }
    }
}

impl AsRef<str> for Text<'_> {
    fn as_ref(&self) -> &str {
        self.text.as_deref().unwrap_or_default()
    }
}

/// Whether a string may name a character: the device has no table of these names. Only in rare comments, raw strings and
/// bytes this is none.
fn names_characters(text: &[u8]) -> bool {
    memmem::find_iter(text, b"\\N{").any(|at| {
        let backslashes = text[..at].iter().rev().take_while(|byte| **byte == b'\\').count();
        backslashes.is_multiple_of(2)
    })
}

impl<'a> Packed<'a> {
    /// Sends the sources, and launches the lexer.
    pub(super) fn lex(self, worker: &'a Worker) -> Result<InLexer<'a>, OpError> {
        let on_device = self.packed.send(worker)?;
        Ok(InLexer { lexing: Lexing::start(&on_device, worker)?, held: self.held, worker, on_device })
    }
}

impl Held<'_> {
    /// Leaves some sources, which are numbered here, to the CPU: the longest first, lest all wait for it in the end.
    fn leave(&self, which: impl Iterator<Item = (usize, u32)>, leave: &Leave<'_>) {
        let mut which: Vec<_> = which.collect();
        which.sort_by_key(|(at, _)| std::cmp::Reverse(self.sources[*at].bytes.len()));
        which.into_iter().for_each(|(at, reasons)| leave(self.range.start + at, reasons));
    }

    /// Leaves to the CPU what is its own for such reasons, and is not left to it yet.
    fn leave_for(&mut self, reasons: impl Iterator<Item = u32>, leave: &Leave<'_>) {
        let new = |(at, reasons): (usize, u32)| {
            let is_new = reasons != 0 && self.texts[at].left.is_none();
            is_new.then_some((at, reasons))
        };
        let new: Vec<_> = reasons.take(self.texts.len()).enumerate().filter_map(new).collect();
        new.iter().for_each(|&(at, reasons)| self.texts[at].left = Some(reasons));
        self.leave(new.into_iter(), leave);
    }
}

impl<'a> InLexer<'a> {
    /// Waits for the lexer, and launches the parser.
    pub(super) fn parse(self, wanted: Outputs) -> Result<InParser<'a>, OpError> {
        let Self { held, worker, on_device, lexing } = self;
        let tokens = lexing.finish(&on_device, worker)?;
        let versions: Vec<u8> = held.sources.iter().map(|source| source.request.options.feature_version).collect();
        let trees = trees(&lexed(&on_device, &tokens), &versions, worker)?;
        let mut layout = Layout::default();
        let summary = layout.add(trees.summary.len());
        let mut base = |table: Table| table.wanted(wanted).then(|| layout.add(held.sources.len() + 1));
        let bases = Bases {
            lines: base(Table::Lines),
            names: base(Table::Names),
            tokens: base(Table::Tokens),
            comments: base(Table::Comments),
        };
        let mut order = Order::default();
        order.add(&trees.summary, 0, summary);
        let pairs = [
            (&tokens.line_bases, bases.lines),
            (&tokens.name_bases, bases.names),
            (&tokens.token_bases, bases.tokens),
            (&tokens.comment_bases, bases.comments),
        ];
        pairs.into_iter().filter_map(|(from, to)| Some((from, to?))).for_each(|(from, to)| order.add(from, 0, to));
        let mut landing = worker.landing(&layout)?;
        worker.bring(&order, &mut landing, On::Kernels)?;
        Ok(InParser { held, on_device, tokens, trees, landing, summary, bases })
    }
}

fn lexed(on_device: &Sources, tokens: &Tokens) -> Lexed {
    Lexed {
        text: on_device.text.ptr(),
        source_starts: on_device.starts.ptr(),
        source_lens: on_device.lens.ptr(),
        flags: tokens.flags.ptr(),
        token_bases: tokens.token_bases.ptr(),
        logical_bases: tokens.logical_bases.ptr(),
        name_bases: tokens.name_bases.ptr(),
        kinds: tokens.kinds.ptr(),
        starts: tokens.starts.ptr(),
        ends: tokens.ends.ptr(),
        payloads: tokens.payloads.ptr(),
        logical_firsts: tokens.logical_firsts.ptr(),
        logical_ends: tokens.logical_ends.ptr(),
        logical_columns: tokens.logical_columns.ptr(),
        logical_alternates: tokens.logical_alternates.ptr(),
        name_starts: tokens.name_starts.ptr(),
        name_ends: tokens.name_ends.ptr(),
        sources: on_device.count(),
        text_cap: on_device.bytes(),
        token_cap: tokens.token_count,
        logical_cap: tokens.logical_count,
    }
}

impl<'a> InParser<'a> {
    /// Leaves to the CPU what is known to be its own before there are trees.
    pub(super) fn leave_early(&mut self, leave: &Leave<'_>) -> Result<(), OpError> {
        let reasons = self.trees.early_reasons()?;
        self.held.leave_for(reasons.into_iter(), leave);
        Ok(())
    }

    /// Waits for the parser, and leaves to the CPU what else is its own.
    pub(super) fn wait(self, wanted: Outputs, leave: &Leave<'_>) -> Result<Parsed<'a>, OpError> {
        let Self { mut held, on_device, tokens, trees, landing, summary, bases } = self;
        let landed = landing.wait()?;
        let summary = landed.get(summary);
        held.leave_for(summary.iter().map(|one| one.reasons), leave);
        let Held { range, texts, .. } = held;
        let before = bases.before(&landed, if wanted.tree { Some(summary) } else { None }, texts.len());
        Ok(Parsed { range, texts, bytes: on_device.bytes(), before, tokens, trees })
    }
}

impl<'a> Parsed<'a> {
    /// Whether the CPU has done its part.
    pub(super) fn is_whole(&self, anew: &[OnceLock<Done>]) -> bool {
        self.range.clone().zip(&self.texts).all(|(at, text)| text.left.is_none() || anew[at].get().is_some())
    }

    /// Has the columns copied back beside whatever is launched next, what the CPU has made among them; waits for that.
    pub(super) fn bring(
        self,
        anew: &[OnceLock<Done>],
        areas: &mut Areas,
        worker: &Worker,
    ) -> Result<OnTheWay<'a>, OpError> {
        let Self { range, texts, bytes, before, tokens, trees } = self;
        let stretches = stretches(&before, &texts, &anew[range.clone()]);
        let (area, base, places) = areas.bring(&columns(&trees, &tokens), &stretches, bytes, worker)?;
        let done = worker.mark(On::Downloads)?;
        let mut at = base;
        let sizes = before.windows(2).zip(&texts).zip(&anew[range.clone()]).map(|((pair, text), anew)| match text.left {
            Some(_) => anew.wait().result.counts,
            None => pair[1].minus(pair[0]),
        });
        let ends = sizes.map(|size| {
            at = at.plus(size);
            at
        });
        let before = std::iter::once(base).chain(ends).collect();
        Ok(OnTheWay { back: Back { range, texts, before, area, places }, done, _kept: (tokens, trees) })
    }
}

/// The sources in as few stretches as their columns come in.
fn stretches<'a>(before: &[Counts], texts: &[Text<'_>], anew: &'a [OnceLock<Done>]) -> Vec<Stretch<'a>> {
    let mut stretches: Vec<Stretch<'a>> = vec![];
    for (at, text) in texts.iter().enumerate() {
        match stretches.last_mut() {
            _ if text.left.is_some() => stretches.push(Stretch::Anew(anew[at].wait())),
            Some(Stretch::Device(_, to)) => *to = before[at + 1],
            _ => stretches.push(Stretch::Device(before[at], before[at + 1])),
        }
    }
    stretches
}

impl Bases {
    fn before(&self, landed: &Landed, summary: Option<&[Summary]>, sources: usize) -> Vec<Counts> {
        let base = |of: Option<Place<u32>>, at: usize| of.map_or(0, |place| landed.get(place)[at]);
        let one = |at: usize| {
            let Summary { rows, values, extra, .. } = summary.map_or_else(Summary::default, |summary| summary[at]);
            Counts {
                nodes: rows,
                names: base(self.names, at),
                values,
                extra,
                lines: base(self.lines, at),
                tokens: base(self.tokens, at),
                comments: base(self.comments, at),
            }
        };
        (0..=sources).map(one).collect()
    }
}

/// The columns on the device.
fn columns<'a>(trees: &'a Trees, tokens: &'a Tokens) -> Columns<&'a Buffer<u8>, &'a Buffer<u32>> {
    Columns {
        kinds: &trees.kinds,
        fields: &trees.fields,
        parents: &trees.parents,
        starts: &trees.starts,
        ends: &trees.ends,
        aux: &trees.aux,
        name_starts: &tokens.name_starts,
        name_ends: &tokens.name_ends,
        value_tags: &trees.value_tags,
        value_starts: &trees.value_starts,
        value_ends: &trees.value_ends,
        extra: &trees.extra,
        line_starts: &tokens.line_starts,
        token_kinds: &tokens.kinds,
        token_starts: &tokens.starts,
        token_ends: &tokens.ends,
        comment_starts: &tokens.comment_starts,
        comment_ends: &tokens.comment_ends,
    }
}

impl<'a> OnTheWay<'a> {
    /// Waits for the columns.
    pub(super) fn wait(self) -> Result<Back<'a>, OpError> {
        self.done.wait()?;
        Ok(self.back)
    }
}

impl Back<'_> {
    /// Which sources of the batch these are.
    pub(super) fn range(&self) -> Range<usize> {
        self.range.clone()
    }

    /// What is before a source in the columns, and before the next one.
    fn span(&self, sources: Range<usize>) -> (Counts, Counts) {
        let local = |at: usize| self.before[at - self.range.start];
        (local(sources.start), local(sources.end))
    }

    /// How much of each column is a source's own.
    pub(super) fn counts(&self, source: usize, wanted: Outputs) -> Counts {
        let (from, to) = self.span(source..source + 1);
        Counts::between(from, to, wanted)
    }

    /// The columns of sources that follow each other.
    pub(super) fn part<'l>(&self, sources: Range<usize>, areas: &'l [Arc<Landed>]) -> Part<'l> {
        let (from, to) = self.span(sources);
        let area = &areas[self.area];
        self.places.map(
            |table, place| Piece::Landed(area, place.part(table.rows(from, to))),
            |table, place| Piece::Landed(area, place.part(table.rows(from, to))),
        )
    }

    /// The text of a source.
    pub(super) fn text(&self, source: usize) -> Option<&Cow<'_, str>> {
        self.texts[source - self.range.start].text.as_ref()
    }

    /// The outline of a source.
    pub(super) fn outline(&self, source: usize, areas: &[Arc<Landed>]) -> Vec<Located<Item>> {
        let text = self.text(source).map_or("", |text| text).as_bytes();
        let part = self.part(source..source + 1, areas).map(|_, bytes| bytes.numbers(), |_, words| words.numbers());
        let tree = Tree {
            text,
            extra: part.extra,
            kinds: part.kinds,
            fields: part.fields,
            parents: part.parents,
            starts: part.starts,
            ends: part.ends,
            aux: part.aux,
            name_starts: part.name_starts,
            name_ends: part.name_ends,
            value_tags: part.value_tags,
        };
        Locate { text, line_starts: part.line_starts }.outline(&tree)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_of_a_character_is_seen_and_an_escaped_backslash_is_none() {
        for text in [r"'\N{DIGIT ONE}'", r"'\\\N{DIGIT ONE}'", r"x = '\\N{' + '\N{COLON}'", r"\N{"] {
            assert!(names_characters(text.as_bytes()), "{text}");
        }
        for text in ["", r"'\\N{DIGIT ONE}'", r"'\n{'", "N{}", r"'\N'", r"\N"] {
            assert!(!names_characters(text.as_bytes()), "{text}");
        }
    }

    #[test]
    fn the_cpu_gets_each_source_once_and_the_longest_first() {
        let request = ParseRequest {
            sources: ["a", "'\\N{COLON}'", "\0 is no text", "four", "fifth"].map(|s| Bytes::from_static(s.as_bytes())).into(),
            options: accelerd_parser::Options::default(),
            outputs: Outputs::default(),
        };
        let asked: Vec<_> = request.sources.iter().map(|bytes| Asked { request: &request, bytes }).collect();
        let texts = asked.iter().map(Text::of).collect();
        let mut held = Held { range: 10..15, sources: &asked, texts };
        assert_eq!(held.texts.iter().map(|text| text.left).collect::<Vec<_>>(), [None, Some(BY_VALUE), Some(0), None, None]);
        let told = std::cell::RefCell::new(vec![]);
        let leave = |at: usize, reasons: u32| told.borrow_mut().push((at, reasons));
        held.leave_for([4, 4, 4, 0, 8].into_iter(), &leave);
        held.leave_for([4, 4, 4, 16, 8, 99].into_iter(), &leave);
        assert_eq!(told.into_inner(), [(14, 8), (10, 4), (13, 16)]);
    }
}
