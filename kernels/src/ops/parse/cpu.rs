//! Parses on the CPU pool, each source on one thread.

use std::borrow::Cow;

use accelerd_parser::{Columns, Parsed, Terminal, Tokens, Tree, outline};
use bytes::Bytes;
use rayon::prelude::*;

use crate::cpu::Pool;

use super::{
    Counts, Item, Located, Options, Outputs, ParseRequest, ParseResponse, SourceResult,
    gather::{Part, Piece, gather},
};

/// Bytes of source below which waking more threads costs more than they save (about 0.1 ms of one core).
const SPREAD_BYTES: usize = 16 << 10;

/// Sources whose memory one thread frees.
const FREED_AT_ONCE: usize = 64;

/// A request of so many bytes of source keeps a thread for half a millisecond, and a batch of short ones had better not stand
/// behind it. Columns of a short one are so small that one thread copies them.
const LONG_BYTES: usize = 64 << 10;

/// Parses every source of every request: on the threads of the pool, or here where that is little, or where long work has
/// the pool and the batch is none.
pub(super) fn run(batch: &[&ParseRequest], pool: &Pool) -> Vec<ParseResponse> {
    let sizes = || batch.iter().map(|request| request.sources.iter().map(Bytes::len).sum::<usize>());
    let is_long = sizes().any(|bytes| bytes > LONG_BYTES);
    if sizes().sum::<usize>() < SPREAD_BYTES || (!is_long && pool.is_held()) {
        return pool.time_here("parse", || in_turn(batch));
    }
    let _hold = is_long.then(|| pool.hold());
    pool.time("parse", || spread(batch))
}

/// Every source on this thread, whichever that is.
fn in_turn(batch: &[&ParseRequest]) -> Vec<ParseResponse> {
    let one = |request: &&ParseRequest| {
        let sources = request.sources.iter().enumerate();
        let parsed: Vec<_> =
            sources.map(|(at, source)| Done::parse(source, request.options_of(at), request.outputs)).collect();
        let columns = gather(parsed.iter().map(Done::part), request.outputs, None);
        ParseResponse { results: parsed.into_iter().map(|done| done.result).collect(), columns }
    };
    batch.iter().map(one).collect()
}

/// The sources spread over the threads of the pool that runs this.
fn spread(batch: &[&ParseRequest]) -> Vec<ParseResponse> {
    let spread = |request: &&ParseRequest| {
        let sources = request.sources.par_iter().enumerate();
        let parsed = sources.map(|(at, source)| Done::parse(source, request.options_of(at), request.outputs)).collect();
        answer(request, parsed)
    };
    batch.par_iter().map(spread).collect()
}

/// Puts the sources of a request together.
fn answer(request: &ParseRequest, sources: Vec<Done>) -> ParseResponse {
    let columns = gather(sources.iter().map(Done::part), request.outputs, None);
    // To free what is not kept takes a while, too.
    let results = sources.into_par_iter().with_min_len(FREED_AT_ONCE).map(|done| done.result).collect();
    ParseResponse { results, columns }
}

/// A parsed source: its columns, and what is told of it.
pub(super) struct Done {
    tree: Columns,
    line_starts: Vec<u32>,
    tokens: Tokens,
    /// Numbers of kinds as the outside knows them, where they are wanted.
    token_kinds: Vec<u8>,
    comments: [Vec<u32>; 2],
    pub(super) result: SourceResult,
}

impl Done {
    /// Parses a source.
    pub(super) fn parse(source: &[u8], options: Options, wanted: Outputs) -> Self {
        let Parsed { text, tokens, comments, outcome } = accelerd_parser::parse(source, &options);
        let line_starts = accelerd_parser::lexer::line_starts(&text);
        let locate = Locate { text: text.as_bytes(), line_starts: &line_starts };
        let (tree, diagnostic, outline) = match outcome {
            Ok(tree) if wanted.outline => {
                let outline = locate.outline(&Tree::new(locate.text, &tree));
                (tree, None, outline)
            }
            Ok(tree) => (tree, None, vec![]),
            Err(error) => (Columns::default(), Some(error), vec![]),
        };
        let kinds = tokens.kinds.iter().filter(|_| wanted.tokens);
        let mut done = Self {
            token_kinds: kinds.map(|&kind| token_kind(kind as u8)).collect(),
            comments: [
                comments.iter().map(|&(start, _)| start).collect(),
                comments.iter().map(|&(_, end)| end).collect(),
            ],
            result: SourceResult { diagnostic, text: other_text(&text), outline, ..SourceResult::default() },
            tree,
            line_starts,
            tokens,
        };
        done.result.counts = Counts::between(Counts::default(), done.counts(), wanted);
        done
    }

    /// Its columns.
    pub(super) fn part(&self) -> Part<'_> {
        let Self { tree, tokens, comments: [comment_starts, comment_ends], .. } = self;
        Part {
            kinds: Piece::Own(bytemuck::cast_slice(&tree.kinds)),
            fields: Piece::Own(bytemuck::cast_slice(&tree.fields)),
            parents: Piece::Own(&tree.parents),
            starts: Piece::Own(&tree.starts),
            ends: Piece::Own(&tree.ends),
            aux: Piece::Own(&tree.aux),
            name_starts: Piece::Own(&tree.name_starts),
            name_ends: Piece::Own(&tree.name_ends),
            value_tags: Piece::Own(bytemuck::cast_slice(&tree.value_tags)),
            value_starts: Piece::Own(&tree.value_starts),
            value_ends: Piece::Own(&tree.value_ends),
            extra: Piece::Own(&tree.extra),
            line_starts: Piece::Own(&self.line_starts),
            token_kinds: Piece::Own(&self.token_kinds),
            token_starts: Piece::Own(&tokens.starts),
            token_ends: Piece::Own(&tokens.ends),
            comment_starts: Piece::Own(comment_starts),
            comment_ends: Piece::Own(comment_ends),
        }
    }

    fn counts(&self) -> Counts {
        let count =
            |length: usize| u32::try_from(length).expect("a source is smaller than 1 GiB, and so are its columns");
        Counts {
            nodes: count(self.tree.kinds.len()),
            names: count(self.tree.name_starts.len()),
            values: count(self.tree.value_tags.len()),
            extra: count(self.tree.extra.len()),
            lines: count(self.line_starts.len()),
            tokens: count(self.token_kinds.len()),
            comments: count(self.comments[0].len()),
        }
    }
}

/// The text of a source, if its bytes are another.
#[expect(clippy::ptr_arg, reason = "it is asked whether the text is borrowed")]
pub(super) fn other_text(text: &Cow<'_, str>) -> Option<Bytes> {
    match text {
        Cow::Borrowed(_) => None,
        Cow::Owned(text) => Some(Bytes::copy_from_slice(text.as_bytes())),
    }
}

/// The number of a token's kind outside: the parser alone cares whether `=` follows a field's expression.
pub(super) fn token_kind(terminal: u8) -> u8 {
    let kind = if terminal == Terminal::DebugOpen as u8 { Terminal::FieldOpen as u8 } else { terminal };
    // What a GPU left where a source is not its own may be any byte.
    kind.wrapping_add(1)
}

/// Finds lines and characters of a text.
#[derive(Clone, Copy)]
pub(super) struct Locate<'a> {
    pub(super) text: &'a [u8],
    pub(super) line_starts: &'a [u32],
}

impl Locate<'_> {
    pub(super) fn outline(self, tree: &Tree<'_>) -> Vec<Located<Item>> {
        let items = outline::outline(tree).into_iter();
        items
            .map(|item| {
                let place = (item.start, item.end);
                self.at(item, place)
            })
            .collect()
    }

    /// Adds the lines between which something lies.
    fn at<T>(self, what: T, (start, end): (u32, u32)) -> Located<T> {
        Located { what, line: self.line(start), end_line: self.line(end) }
    }

    fn line(self, at: u32) -> u32 {
        u32::try_from(self.line_starts.partition_point(|&start| start <= at).max(1)).unwrap_or(u32::MAX)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    fn request(sources: Vec<Bytes>) -> ParseRequest {
        let outputs = Outputs { tree: true, ..Outputs::default() };
        ParseRequest::new(sources, Options::version(14), outputs)
    }

    #[test]
    fn a_short_batch_does_not_stand_behind_a_long_one() {
        let pool = Pool::start(1).expect("one thread");
        let short = request(vec![Bytes::from("x = 1\n".repeat(10_000))]);
        assert!((SPREAD_BYTES..LONG_BYTES).contains(&short.sources[0].len()));
        let (release, released) = mpsc::channel::<()>();
        let _hold = pool.hold();
        pool.scope(|scope| {
            scope.spawn(move |_| released.recv().expect("the short batch ends first"));
            let answer = run(&[&short], &pool);
            release.send(()).expect("the pool's only thread is taken until now");
            assert_eq!(answer[0].results[0].counts.nodes, 30_000);
        });
    }

    #[test]
    fn a_long_batch_has_the_pool_while_it_runs() {
        let pool = Pool::start(2).expect("two threads");
        let long = request(vec![Bytes::from("x = 1\n".repeat(50_000))]);
        assert!(!pool.is_held());
        let answer = run(&[&long], &pool);
        assert_eq!(answer[0].results[0].counts.nodes, 150_000);
        assert!(!pool.is_held(), "it gives it back");
        let held = pool.hold();
        assert!(pool.is_held());
        drop(held);
        assert_eq!(run(&[&long], &pool), answer);
    }
}
