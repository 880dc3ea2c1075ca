//! Trees on the device from tokens that the CPU made: what tests and measurements of the tree's kernels start from.

use accelerd_parser::{Options, lexer, rules, text};

use super::launch::{Summary, trees};
use super::lexed::Lexed;
use crate::{
    OpError,
    cuda::{Buffer, Worker},
};

/// Bytes between sources.
const GAP: usize = 32;

/// Tokens of many sources, as the lexer's kernels lay them out.
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

fn word(count: usize) -> u32 {
    u32::try_from(count).expect("fits 32 bits")
}

impl HostLexed {
    /// Takes sources apart on the CPU. What it finds wrong, or decodes, is marked as the CPU's.
    pub fn new(sources: &[&[u8]]) -> Self {
        let mut all = Self { text: vec![b'\n'; GAP], ..Self::default() };
        for source in sources {
            all.add(source);
        }
        all.source_starts.push(word(all.text.len()));
        all.bases();
        all
    }

    fn bases(&mut self) {
        self.token_bases.push(word(self.kinds.len()));
        self.logical_bases.push(word(self.lines[0].len()));
        self.name_bases.push(word(self.name_starts.len()));
    }

    fn add(&mut self, source: &[u8]) {
        self.bases();
        self.source_starts.push(word(self.text.len()));
        let Ok(text) = text::decode(source, &Options::default()) else {
            self.source_lens.push(0);
            self.flags.push(1);
            return;
        };
        self.text.extend_from_slice(text.as_bytes());
        self.text.push(b'\n');
        self.text.resize(self.text.len().next_multiple_of(GAP), b'\n');
        self.source_lens.push(word(text.len()));
        let mut lexed = lexer::lex(&text);
        rules::apply(&mut lexed);
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

    /// How many tokens there are.
    pub fn tokens(&self) -> usize {
        self.kinds.len()
    }

    /// How many logical lines there are.
    pub fn lines(&self) -> usize {
        self.lines[0].len()
    }

    /// Copies it to a device.
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
        let (text, kinds) = (worker.upload_new(&self.text)?, worker.upload_new(&self.kinds)?);
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

/// The columns of all sources that the device finished, one behind the other; of the others nothing that counts.
#[derive(Clone, Debug, Default)]
#[expect(missing_docs, reason = "the parser's columns")]
pub struct HostTrees {
    /// By source and behind the last: rows, values and bytes of `extra` before it, and why the CPU parses it, or 0.
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
    /// Makes the trees, for the grammar of 3.`version`, and waits for them without bringing them back.
    pub fn run(&self, version: u8, worker: &Worker) -> Result<(), OpError> {
        drop(trees(&self.lexed, &vec![version; self.lexed.sources], worker)?);
        worker.synchronize()
    }

    /// Makes the trees, and brings them back.
    pub fn trees(&self, version: u8, worker: &Worker) -> Result<HostTrees, OpError> {
        let trees = trees(&self.lexed, &vec![version; self.lexed.sources], worker)?;
        let summary: Vec<Summary> = worker.download(&trees.summary, ..)?;
        let Summary { rows, values, extra, .. } = summary.last().copied().unwrap_or_default();
        let (rows, values, extra) = (rows as usize, values as usize, extra as usize);
        Ok(HostTrees {
            summary: bytemuck::cast_vec(summary),
            kinds: worker.download(&trees.kinds, ..rows)?,
            fields: worker.download(&trees.fields, ..rows)?,
            parents: worker.download(&trees.parents, ..rows)?,
            starts: worker.download(&trees.starts, ..rows)?,
            ends: worker.download(&trees.ends, ..rows)?,
            aux: worker.download(&trees.aux, ..rows)?,
            value_tags: worker.download(&trees.value_tags, ..values)?,
            value_starts: worker.download(&trees.value_starts, ..values)?,
            value_ends: worker.download(&trees.value_ends, ..values)?,
            extra: worker.download(&trees.extra, ..extra)?,
        })
    }
}
