//! So many sources as go to the device at once, from stage to stage: packed, lexed, parsed, brought back.

use std::{
    borrow::Cow,
    ops::Range,
    sync::{Arc, OnceLock},
};

use accelerd_parser::{Tree, text};
use bytes::Bytes;
use rayon::prelude::*;

use super::{
    areas::{Areas, Places, Stretch},
    lexer::{Lexing, Sources, SourcesRoom, Tokens},
    tree::{Lexed, Summary, Trees, trees},
};
use crate::{
    OpError,
    cuda::{Buffer, Landed, Landing, Layout, Mark, On, Place, Worker},
    ops::parse::{
        Columns, Counts, Item, Located, Outputs, ParseRequest,
        columns::Table,
        cpu::{Done, Locate},
        gather::{Part, Piece},
    },
};

/// Bytes of source below which one thread decodes them: waking others takes longer.
const SPREAD_BYTES: usize = 256 << 10;

/// One source of the batch.
#[derive(Clone, Copy)]
pub(super) struct Asked<'a> {
    pub(super) request: &'a ParseRequest,
    pub(super) bytes: &'a Bytes,
}

/// The text of each source, unless its bytes are none: the CPU then says why.
type Texts<'a> = Vec<Option<Cow<'a, str>>>;

/// Sources whose place on the device is known.
pub(super) struct Decoded<'a> {
    range: Range<usize>,
    sources: &'a [Asked<'a>],
    texts: Texts<'a>,
    room: SourcesRoom,
}

/// Sources on the device.
pub(super) struct Packed<'a> {
    range: Range<usize>,
    sources: &'a [Asked<'a>],
    texts: Texts<'a>,
    on_device: Sources,
}

/// Sources that are being lexed.
pub(super) struct InLexer<'a> {
    packed: Packed<'a>,
    lexing: Lexing,
}

/// Sources that are being parsed.
pub(super) struct InParser<'a> {
    packed: Packed<'a>,
    tokens: Tokens,
    trees: Trees,
    landing: Landing,
    summary: Place<Summary>,
    bases: Bases,
}

/// Sources that have been parsed, but for those that are left to the CPU.
pub(super) struct Parsed<'a> {
    range: Range<usize>,
    texts: Texts<'a>,
    bytes: usize,
    /// By source and behind the last: what is before it in the columns on the device.
    before: Vec<Counts>,
    /// Which sources are the CPU's.
    left: Vec<bool>,
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
    texts: Texts<'a>,
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

/// Decodes `range` of all sources, and has room made for them.
pub(super) fn decode<'a>(all: &'a [Asked<'a>], range: Range<usize>, worker: &Worker) -> Result<Decoded<'a>, OpError> {
    let sources = &all[range.clone()];
    let bytes: usize = sources.iter().map(|source| source.bytes.len()).sum();
    let one = |source: &Asked<'a>| text::decode(source.bytes, &source.request.options).ok();
    let texts: Texts<'a> = if bytes < SPREAD_BYTES {
        sources.iter().map(one).collect()
    } else {
        worker.device().cpu().install(|| sources.par_iter().map(one).collect())
    };
    let room = Sources::room(&borrowed(&texts), worker)?;
    Ok(Decoded { range, sources, texts, room })
}

fn borrowed<'a>(texts: &'a Texts<'_>) -> Vec<&'a str> {
    texts.iter().map(|text| text.as_deref().unwrap_or_default()).collect()
}

impl<'a> Decoded<'a> {
    /// Packs the texts and sends them.
    pub(super) fn send(self, worker: &Worker) -> Result<Packed<'a>, OpError> {
        let Self { range, sources, texts, room } = self;
        let on_device = room.fill(&borrowed(&texts), worker)?;
        Ok(Packed { range, sources, texts, on_device })
    }
}

impl<'a> Packed<'a> {
    /// Launches the lexer.
    pub(super) fn lex(self, worker: &Worker) -> Result<InLexer<'a>, OpError> {
        Ok(InLexer { lexing: Lexing::start(&self.on_device, worker)?, packed: self })
    }
}

impl<'a> InLexer<'a> {
    /// Waits for the lexer, and launches the parser.
    pub(super) fn parse(self, wanted: Outputs, worker: &Worker) -> Result<InParser<'a>, OpError> {
        let Self { packed, lexing } = self;
        let tokens = lexing.finish(&packed.on_device, worker)?;
        let versions: Vec<u8> = packed.sources.iter().map(|source| source.request.options.feature_version).collect();
        let trees = trees(&lexed(&packed, &tokens), &versions, worker)?;
        let mut layout = Layout::default();
        let summary = layout.add(trees.summary.len());
        let mut base = |table: Table| table.wanted(wanted).then(|| layout.add(packed.sources.len() + 1));
        let bases = Bases {
            lines: base(Table::Lines),
            names: base(Table::Names),
            tokens: base(Table::Tokens),
            comments: base(Table::Comments),
        };
        let mut landing = worker.landing(&layout)?;
        worker.bring(&trees.summary, 0, &mut landing, summary, On::Kernels)?;
        let pairs = [
            (&tokens.line_bases, bases.lines),
            (&tokens.name_bases, bases.names),
            (&tokens.token_bases, bases.tokens),
            (&tokens.comment_bases, bases.comments),
        ];
        for (from, place) in pairs {
            place.map_or(Ok(()), |place| worker.bring(from, 0, &mut landing, place, On::Kernels))?;
        }
        Ok(InParser { packed, tokens, trees, landing, summary, bases })
    }
}

fn lexed(packed: &Packed<'_>, tokens: &Tokens) -> Lexed {
    let on_device = &packed.on_device;
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
        sources: packed.sources.len(),
        text_cap: on_device.bytes(),
        token_cap: tokens.token_count,
        logical_cap: tokens.logical_count,
    }
}

impl<'a> InParser<'a> {
    /// Waits for the parser, and says which sources it leaves to the CPU, and the reasons of each.
    pub(super) fn wait(self, wanted: Outputs, mut leave: impl FnMut(usize, u32)) -> Result<Parsed<'a>, OpError> {
        let Self { packed: Packed { range, texts, on_device, .. }, tokens, trees, landing, summary, bases } = self;
        let landed = landing.wait()?;
        let summary = landed.get(summary);
        let left: Vec<bool> = texts.iter().zip(summary).map(|(text, one)| one.reasons != 0 || text.is_none()).collect();
        let reasons = summary.iter().map(|one| one.reasons);
        let each = range.clone().zip(&left).zip(reasons).filter(|((_, left), _)| **left);
        each.for_each(|((at, _), reasons)| leave(at, reasons));
        let before = bases.before(&landed, if wanted.tree { Some(summary) } else { None }, texts.len());
        Ok(Parsed { range, texts, bytes: on_device.bytes(), before, left, tokens, trees })
    }
}

impl<'a> Parsed<'a> {
    /// Whether the CPU has done its part.
    pub(super) fn is_whole(&self, anew: &[OnceLock<Done>]) -> bool {
        self.range.clone().zip(&self.left).all(|(at, left)| !left || anew[at].get().is_some())
    }

    /// Has the columns copied back beside whatever is launched next, what the CPU has made among them; waits for that.
    pub(super) fn bring(
        self,
        anew: &[OnceLock<Done>],
        areas: &mut Areas,
        worker: &Worker,
    ) -> Result<OnTheWay<'a>, OpError> {
        let Self { range, texts, bytes, before, left, tokens, trees } = self;
        let stretches = stretches(&before, &left, &anew[range.clone()]);
        let (area, base, places) = areas.bring(&columns(&trees, &tokens), &stretches, bytes, worker)?;
        let done = worker.mark(On::Downloads)?;
        let mut at = base;
        let sizes = before.windows(2).zip(&left).zip(&anew[range.clone()]).map(|((pair, left), anew)| match left {
            true => anew.wait().result.counts,
            false => pair[1].minus(pair[0]),
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
fn stretches<'a>(before: &[Counts], left: &[bool], anew: &'a [OnceLock<Done>]) -> Vec<Stretch<'a>> {
    let mut stretches: Vec<Stretch<'a>> = vec![];
    for (at, left) in left.iter().enumerate() {
        match stretches.last_mut() {
            _ if *left => stretches.push(Stretch::Anew(anew[at].wait())),
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
        self.texts[source - self.range.start].as_ref()
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
