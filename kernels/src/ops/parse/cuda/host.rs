//! Entry points for tests and benchmarks of single stages: downloads the lexer's tokens, and parses tokens that the CPU made.

use accelerd_parser::{
    Options, lexer, soft_keywords, text,
    tokens::{Line, Terminal, Tokens as SourceTokens},
};

use super::{
    lex::Tokens,
    pack::to_u32,
    parse::{Lexed, Summary, trees},
};
use crate::{
    OpError,
    cuda::{Buffer, Worker},
};

/// The tokens of a slice on the host.
#[derive(Debug)]
pub struct HostTokens {
    /// By source: bits of [`LexerReason`](super::LexerReason), or 0.
    pub flags: Vec<u32>,
    token_bases: Vec<u32>,
    line_bases: Vec<u32>,
    logical_bases: Vec<u32>,
    comment_bases: Vec<u32>,
    name_bases: Vec<u32>,
    kinds: Vec<u8>,
    starts: Vec<u32>,
    ends: Vec<u32>,
    payloads: Vec<u32>,
    line_starts: Vec<u32>,
    logical: [Vec<u32>; 4],
    comments: [Vec<u32>; 2],
    names: [Vec<u32>; 2],
}

impl HostTokens {
    /// Downloads a slice's tokens.
    pub fn download(tokens: &Tokens, worker: &Worker) -> Result<Self, OpError> {
        let get = |buffer: &Buffer<u32>, count: usize| worker.download(buffer, ..count);
        let bases = |buffer: &Buffer<u32>| worker.download(buffer, ..);
        let count = tokens.token_count;
        let logical = tokens.logical_count;
        let comments = tokens.comment_count;
        Ok(Self {
            flags: bases(&tokens.flags)?,
            token_bases: bases(&tokens.token_bases)?,
            line_bases: bases(&tokens.line_bases)?,
            logical_bases: bases(&tokens.logical_bases)?,
            comment_bases: bases(&tokens.comment_bases)?,
            name_bases: bases(&tokens.name_bases)?,
            kinds: worker.download(&tokens.kinds, ..count)?,
            starts: get(&tokens.starts, count)?,
            ends: get(&tokens.ends, count)?,
            payloads: get(&tokens.payloads, count)?,
            line_starts: get(&tokens.line_starts, tokens.line_count)?,
            logical: [
                get(&tokens.logical_firsts, logical)?,
                get(&tokens.logical_ends, logical)?,
                get(&tokens.logical_columns, logical)?,
                get(&tokens.logical_alternates, logical)?,
            ],
            comments: [get(&tokens.comment_starts, comments)?, get(&tokens.comment_ends, comments)?],
            names: [get(&tokens.name_starts, tokens.name_count)?, get(&tokens.name_ends, tokens.name_count)?],
        })
    }

    /// The starts of a source's physical lines.
    pub fn line_starts(&self, source: usize) -> &[u32] {
        part(&self.line_starts, &self.line_bases, source)
    }

    /// A source's tokens and lines, soft keywords resolved; none if it falls back.
    pub fn lexed(&self, source: usize) -> Option<lexer::Lexed> {
        if self.flags[source] != 0 {
            return None;
        }
        let tokens = |column| part(column, &self.token_bases, source).to_vec();
        let kinds = part(&self.kinds, &self.token_bases, source).iter();
        let [firsts, ends, columns, alternates] =
            self.logical.each_ref().map(|column| part(column, &self.logical_bases, source));
        let [comment_starts, comment_ends] =
            self.comments.each_ref().map(|column| part(column, &self.comment_bases, source));
        let [name_starts, name_ends] = self.names.each_ref().map(|column| part(column, &self.name_bases, source));
        Some(lexer::Lexed {
            tokens: SourceTokens {
                kinds: kinds.map(|&kind| Terminal::ALL[usize::from(kind)]).collect(),
                starts: tokens(&self.starts),
                ends: tokens(&self.ends),
                payloads: tokens(&self.payloads),
            },
            lines: (0..firsts.len())
                .map(|index| Line {
                    first: firsts[index],
                    end: ends[index],
                    column: columns[index],
                    alternate: alternates[index],
                })
                .collect(),
            comments: comment_starts.iter().copied().zip(comment_ends.iter().copied()).collect(),
            name_starts: name_starts.to_vec(),
            name_ends: name_ends.to_vec(),
            ..lexer::Lexed::default()
        })
    }
}

/// A source's rows of a column.
fn part<'a, T>(column: &'a [T], bases: &[u32], source: usize) -> &'a [T] {
    &column[bases[source] as usize..bases[source + 1] as usize]
}

/// Alignment of sources, and bytes before the first.
const ALIGNMENT: usize = 32;

/// Tokens that the CPU made, as the lexer's kernels lay them out.
#[derive(Clone, Debug, Default)]
pub struct HostLexed {
    text: Vec<u8>,
    source_starts: Vec<u32>,
    source_lens: Vec<u32>,
    flags: Vec<u32>,
    token_bases: Vec<u32>,
    logical_bases: Vec<u32>,
    name_bases: Vec<u32>,
    kinds: Vec<u8>,
    starts: Vec<u32>,
    ends: Vec<u32>,
    payloads: Vec<u32>,
    lines: [Vec<u32>; 4],
    name_starts: Vec<u32>,
    name_ends: Vec<u32>,
}

impl HostLexed {
    /// Lexes sources on the CPU. Those with errors or decoded names are flagged to fall back.
    pub fn new(sources: &[&[u8]]) -> Self {
        let mut all = Self { text: vec![b'\n'; ALIGNMENT], ..Self::default() };
        for source in sources {
            all.add(source);
        }
        all.source_starts.push(to_u32(all.text.len()));
        all.bases();
        all
    }

    fn bases(&mut self) {
        self.token_bases.push(to_u32(self.kinds.len()));
        self.logical_bases.push(to_u32(self.lines[0].len()));
        self.name_bases.push(to_u32(self.name_starts.len()));
    }

    fn add(&mut self, source: &[u8]) {
        self.bases();
        self.source_starts.push(to_u32(self.text.len()));
        let Ok(text) = text::decode(source, &Options::default()) else {
            self.source_lens.push(0);
            self.flags.push(1);
            return;
        };
        self.text.extend_from_slice(text.as_bytes());
        self.text.push(b'\n');
        self.text.resize(self.text.len().next_multiple_of(ALIGNMENT), b'\n');
        self.source_lens.push(to_u32(text.len()));
        let mut lexed = lexer::lex(&text);
        soft_keywords::apply(&mut lexed);
        self.flags.push(u32::from(lexed.error.is_some() || !lexed.extra.is_empty()));
        self.kinds.extend(lexed.tokens.kinds.iter().map(|&kind| kind as u8));
        self.starts.extend(&lexed.tokens.starts);
        self.ends.extend(&lexed.tokens.ends);
        self.payloads.extend(&lexed.tokens.payloads);
        self.name_starts.extend(&lexed.name_starts);
        self.name_ends.extend(&lexed.name_ends);
        for line in &lexed.lines {
            for (column, value) in self.lines.iter_mut().zip([line.first, line.end, line.column, line.alternate]) {
                column.push(value);
            }
        }
    }

    /// The number of tokens.
    pub fn tokens(&self) -> usize {
        self.kinds.len()
    }

    /// The number of logical lines.
    pub fn lines(&self) -> usize {
        self.lines[0].len()
    }

    /// Copies them to a device.
    pub fn upload(&self, worker: &Worker) -> Result<DeviceLexed, OpError> {
        let words = [
            &self.source_starts,
            &self.source_lens,
            &self.flags,
            &self.token_bases,
            &self.logical_bases,
            &self.name_bases,
            &self.starts,
            &self.ends,
            &self.payloads,
            &self.lines[0],
            &self.lines[1],
            &self.lines[2],
            &self.lines[3],
            &self.name_starts,
            &self.name_ends,
        ];
        let words = words.map(|column| worker.upload_new(column)).into_iter().collect::<Result<Vec<_>, _>>()?;
        let text = worker.upload_new(&self.text)?;
        let kinds = worker.upload_new(&self.kinds)?;
        let lexed = Lexed {
            text: text.ptr(),
            source_starts: words[0].ptr(),
            source_lens: words[1].ptr(),
            flags: words[2].ptr(),
            token_bases: words[3].ptr(),
            logical_bases: words[4].ptr(),
            name_bases: words[5].ptr(),
            kinds: kinds.ptr(),
            starts: words[6].ptr(),
            ends: words[7].ptr(),
            payloads: words[8].ptr(),
            logical_firsts: words[9].ptr(),
            logical_ends: words[10].ptr(),
            logical_columns: words[11].ptr(),
            logical_alternates: words[12].ptr(),
            name_starts: words[13].ptr(),
            name_ends: words[14].ptr(),
            sources: self.flags.len(),
            text_cap: self.text.len(),
            token_cap: self.kinds.len(),
            logical_cap: self.lines[0].len(),
        };
        Ok(DeviceLexed { lexed, kept: (words, [text, kinds]) })
    }
}

/// Tokens on a device.
#[derive(Debug)]
pub struct DeviceLexed {
    lexed: Lexed,
    #[expect(dead_code, reason = "what the addresses point to")]
    kept: (Vec<Buffer<u32>>, [Buffer<u8>; 2]),
}

/// The columns of the sources that the device finished, concatenated.
#[derive(Clone, Debug, Default)]
#[expect(missing_docs, reason = "the parser's columns")]
pub struct HostTrees {
    /// By source, and one past the last: nodes, values and bytes of `extra` before it, and its fallback reasons, or 0.
    pub summary: Vec<[u32; 4]>,
    pub kinds: Vec<u8>,
    pub fields: Vec<u8>,
    pub parents: Vec<u32>,
    pub starts: Vec<u32>,
    pub ends: Vec<u32>,
    pub aux: Vec<u32>,
    pub value_tags: Vec<u8>,
    pub value_starts: Vec<u32>,
    pub value_ends: Vec<u32>,
    pub extra: Vec<u8>,
}

impl DeviceLexed {
    /// Parses with the grammar of 3.`version`, and waits without downloading the trees.
    pub fn run(&self, version: u8, worker: &Worker) -> Result<(), OpError> {
        drop(trees(&self.lexed, &vec![version; self.lexed.sources], worker)?);
        worker.synchronize()
    }

    /// Parses, and downloads the trees.
    pub fn trees(&self, version: u8, worker: &Worker) -> Result<HostTrees, OpError> {
        let trees = trees(&self.lexed, &vec![version; self.lexed.sources], worker)?;
        let summary: Vec<Summary> = worker.download(&trees.summary, ..)?;
        let Summary { nodes, values, extra, .. } = summary.last().copied().unwrap_or_default();
        let nodes = nodes as usize;
        let values = values as usize;
        let extra = extra as usize;
        Ok(HostTrees {
            summary: bytemuck::cast_vec(summary),
            kinds: worker.download(&trees.kinds, ..nodes)?,
            fields: worker.download(&trees.fields, ..nodes)?,
            parents: worker.download(&trees.parents, ..nodes)?,
            starts: worker.download(&trees.starts, ..nodes)?,
            ends: worker.download(&trees.ends, ..nodes)?,
            aux: worker.download(&trees.aux, ..nodes)?,
            value_tags: worker.download(&trees.value_tags, ..values)?,
            value_starts: worker.download(&trees.value_starts, ..values)?,
            value_ends: worker.download(&trees.value_ends, ..values)?,
            extra: worker.download(&trees.extra, ..extra)?,
        })
    }
}
