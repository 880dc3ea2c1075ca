//! So many sources as go to the device at once, from stage to stage: packed, lexed, parsed, brought back.

use std::{
    borrow::Cow,
    ops::Range,
    sync::{Arc, OnceLock},
};

use accelerd_parser::{Tree, lexer::MOST_BYTES, text};
use bytes::Bytes;

use super::{
    areas::{Areas, Places, Stretch},
    foreseen::names_characters,
    left::{BY_MODE, BY_VALUE, Batch, Leave},
    lexer::{self, Lexing, Sources, Tokens},
    tree::{Lexed, Summary, Trees, trees},
};
use crate::{
    OpError,
    cuda::{Buffer, Device, Landed, Landing, Layout, Mark, On, Order, Place, Worker},
    ops::parse::{
        Columns, Counts, Item, Located, Mode, Options, Outputs, ParseRequest,
        columns::Table,
        cpu::{Done, Locate},
        gather::{Part, Piece},
    },
};

/// One source of the batch.
#[derive(Clone, Copy)]
pub(super) struct Asked<'a> {
    pub(super) bytes: &'a Bytes,
    pub(super) options: Options,
    pub(super) outputs: Outputs,
}

impl<'a> Asked<'a> {
    /// All sources of a request.
    pub(super) fn all(request: &'a ParseRequest) -> impl Iterator<Item = Self> {
        let one = |(at, bytes)| Self { bytes, options: request.options_of(at), outputs: request.outputs };
        request.sources.iter().enumerate().map(one)
    }
}

/// The text of each source, unless its bytes are none: the CPU then says why.
type Texts<'a> = Vec<Option<Cow<'a, str>>>;

/// Sources in pinned memory, as the device wants them.
pub(super) struct Packed<'a> {
    held: Held<'a>,
    packed: lexer::Packed,
}

/// Sources on their way.
struct Held<'a> {
    range: Range<usize>,
    batch: &'a Batch<'a>,
    texts: Texts<'a>,
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

/// Decodes sources and packs them; starts the CPU with those that are sure to be its own.
pub(super) fn pack<'a>(range: Range<usize>, device: &Device, leave: Leave<'_, 'a>) -> Result<Packed<'a>, OpError> {
    let batch = leave.batch;
    let sources = &batch.sources[range.clone()];
    // What is longer is no text.
    let size = |source: &Asked<'_>| if source.bytes.len() > MOST_BYTES { 0 } else { source.bytes.len() };
    let sizes: Vec<usize> = sources.iter().map(size).collect();
    let (packed, texts) = lexer::Packed::new(&sizes, |at| Text::of(&sources[at]), device)?;
    leave.leave(range.clone().zip(&texts).filter_map(|(at, text)| Some((at, text.left?))));
    let texts = texts.into_iter().map(|text| text.text).collect();
    Ok(Packed { held: Held { range, batch, texts }, packed })
}

/// What is known of a source before the device sees it.
struct Text<'a> {
    text: Option<Cow<'a, str>>,
    /// Why it is the CPU's, if that is known already.
    left: Option<u32>,
}

impl<'a> Text<'a> {
    fn of(source: &Asked<'a>) -> Self {
        let text = text::decode(source.bytes, &source.options).ok();
        let left = match &text {
            None => Some(0),
            Some(_) if source.options.mode != Mode::Exec => Some(BY_MODE),
            Some(text) => names_characters(text.as_bytes()).then_some(BY_VALUE),
        };
        Self { text, left }
    }
}

impl AsRef<str> for Text<'_> {
    fn as_ref(&self) -> &str {
        self.text.as_deref().unwrap_or_default()
    }
}

impl<'a> Packed<'a> {
    /// Sends the sources, and launches the lexer.
    pub(super) fn lex(self, worker: &'a Worker) -> Result<InLexer<'a>, OpError> {
        let on_device = self.packed.send(worker)?;
        Ok(InLexer { lexing: Lexing::start(&on_device, worker)?, held: self.held, worker, on_device })
    }
}

impl<'a> Held<'a> {
    fn sources(&self) -> &'a [Asked<'a>] {
        &self.batch.sources[self.range.clone()]
    }

    /// Leaves to the CPU what is its own for such reasons.
    fn leave_for(&self, reasons: impl Iterator<Item = u32>, leave: Leave<'_, 'a>) {
        leave.leave(self.range.clone().zip(reasons).filter(|(_, reasons)| *reasons != 0));
    }
}

impl<'a> InLexer<'a> {
    /// Waits for the lexer, and launches the parser.
    pub(super) fn parse(self, wanted: Outputs) -> Result<InParser<'a>, OpError> {
        let Self { held, worker, on_device, lexing } = self;
        let tokens = lexing.finish(&on_device, worker)?;
        let versions: Vec<u8> = held.sources().iter().map(|source| source.options.feature_version).collect();
        let trees = trees(&lexed(&on_device, &tokens), &versions, worker)?;
        let mut layout = Layout::default();
        let summary = layout.add(trees.summary.len());
        let mut base = |table: Table| table.wanted(wanted).then(|| layout.add(held.texts.len() + 1));
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
    pub(super) fn leave_early(&mut self, leave: Leave<'_, 'a>) -> Result<(), OpError> {
        let reasons = self.trees.early_reasons()?;
        self.held.leave_for(reasons.into_iter(), leave);
        Ok(())
    }

    /// Waits for the parser, and leaves to the CPU what else is its own.
    pub(super) fn wait(self, wanted: Outputs, leave: Leave<'_, 'a>) -> Result<Parsed<'a>, OpError> {
        let Self { held, on_device, tokens, trees, landing, summary, bases } = self;
        let landed = landing.wait()?;
        let summary = landed.get(summary);
        held.leave_for(summary.iter().map(|one| one.reasons), leave);
        let Held { range, batch, texts } = held;
        let left = range.clone().map(|at| batch.is_left(at)).collect();
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
        anew: &'a [OnceLock<Done>],
        areas: &mut Areas<'a>,
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
