//! Lexing on a GPU: sources to tokens, comments, physical and logical lines and numbered names, all in device memory.
//!
//! What comes out equals what `accelerd_parser` makes of each source, token rules applied; sources for which that would be
//! costly or is an error are flagged with a [`Reason`], and are the CPU's. The kernels are described in `cu/parse_*.cu`.

mod answer;
pub(crate) mod kernels;
mod room;
mod sources;
#[cfg(test)]
mod tests;

pub use answer::{Answer, Reason};
pub(super) use sources::Packed;
pub use sources::Sources;

use kernels::{
    Batch, CHECK, CLOSE, FIRSTS, JOIN_COUNTS, JOIN_STATES, LEX, LINES, MATCH, MINIMA, NUMBER, RANKS, RULES, STATES,
    WRITE,
};
use room::{Caps, Counting, Room, Zeros};
use sources::word;

use crate::{
    OpError,
    cuda::{Args, Buffer, Grid, Kernel, Worker},
};

/// Physical lines of a block of `parse_lines`, and words of a block of `parse_ranks`; as in the kernels.
const A_BLOCK: usize = 1024;

/// The tokens of a batch in device memory, in the order of their sources. Columns of one table have equal lengths, and
/// may have room behind them; a source's part of a table goes from its base to that of the next source.
///
/// All is written when [`lex`] returns. What belongs to a source whose flag is not 0 is of no use, but stays inside of
/// the source's part; its `ends`, `payloads` and logical lines may not be written at all.
#[derive(Debug)]
pub struct Tokens {
    /// Of each source, why the CPU has to take it: bits of [`Reason`], or 0.
    pub flags: Buffer<u32>,
    /// The first token of each source, and their number behind the last.
    pub token_bases: Buffer<u32>,
    /// The first physical line of each source.
    pub line_bases: Buffer<u32>,
    /// The first logical line of each source.
    pub logical_bases: Buffer<u32>,
    /// The first comment of each source.
    pub comment_bases: Buffer<u32>,
    /// The first name of each source.
    pub name_bases: Buffer<u32>,
    /// What each token is: numbers of `Terminal`.
    pub kinds: Buffer<u8>,
    /// Byte of the source where each token starts.
    pub starts: Buffer<u32>,
    /// Byte of the source behind it.
    pub ends: Buffer<u32>,
    /// As in `accelerd_parser::Tokens`: the names of a source are numbered from 0.
    pub payloads: Buffer<u32>,
    /// Byte of the source where each physical line starts.
    pub line_starts: Buffer<u32>,
    /// Of each logical line the first token, counted from the source's first.
    pub logical_firsts: Buffer<u32>,
    /// The token behind its last.
    pub logical_ends: Buffer<u32>,
    /// Its indentation, a tab counting to the next multiple of 8.
    pub logical_columns: Buffer<u32>,
    /// Its indentation, a tab counting 1.
    pub logical_alternates: Buffer<u32>,
    /// Byte of the source where each comment starts.
    pub comment_starts: Buffer<u32>,
    /// Byte of the source behind it.
    pub comment_ends: Buffer<u32>,
    /// Byte of the source where each name's first token starts.
    pub name_starts: Buffer<u32>,
    /// Byte of the source behind it.
    pub name_ends: Buffer<u32>,
    /// Tokens of all sources.
    pub token_count: usize,
    /// Physical lines of all sources.
    pub line_count: usize,
    /// Logical lines of all sources.
    pub logical_count: usize,
    /// Comments of all sources.
    pub comment_count: usize,
    /// Names of all sources.
    pub name_count: usize,
}

/// Takes sources apart. Waits for the counts, and so for everything.
pub fn lex(sources: &Sources, worker: &Worker) -> Result<Tokens, OpError> {
    Lexing::start(sources, worker)?.finish(sources, worker)
}

/// Sources that are being taken apart.
pub(super) struct Lexing {
    caps: Caps,
    room: Room,
    counts: Counting,
}

impl Lexing {
    /// Launches everything, with as much room as most sources need.
    pub(super) fn start(sources: &Sources, worker: &Worker) -> Result<Self, OpError> {
        Self::with(Caps::expected(sources), sources, worker)
    }

    fn with(caps: Caps, sources: &Sources, worker: &Worker) -> Result<Self, OpError> {
        let room = Room::new(sources, caps, worker)?;
        let zeros = Zeros::new(sources, caps, worker)?;
        launch(&room.batch(sources, &zeros, seed()), worker)?;
        Ok(Self { caps, room, counts: zeros.counts(worker)? })
    }

    /// Waits for it, and does it again where the room was too little.
    pub(super) fn finish(mut self, sources: &Sources, worker: &Worker) -> Result<Tokens, OpError> {
        loop {
            let counts = self.counts.wait()?;
            match self.caps.grown(&counts) {
                None => return Ok(self.room.tokens(&counts)),
                Some(grown) => self = Self::with(grown, sources, worker)?,
            }
        }
    }
}

/// Unknown to whoever writes the sources, lest names be written to collide.
fn seed() -> u64 {
    use std::{
        hash::{BuildHasher, RandomState},
        sync::OnceLock,
    };
    static SEED: OnceLock<u64> = OnceLock::new();
    *SEED.get_or_init(|| RandomState::new().hash_one(0x9e37_79b9_u32))
}

fn launch(batch: &Batch, worker: &Worker) -> Result<(), OpError> {
    let run = |kernel: &Kernel, blocks: usize, threads: u32| {
        worker.launch(kernel, Grid::x(word(blocks)), threads, 0, &mut Args::new().value(*batch))
    };
    let units = worker.units() as usize;
    let tiles = batch.tiles as usize;
    run(&STATES, tiles, 256)?;
    run(&JOIN_STATES, 1, 1024)?;
    run(&LEX, tiles, 256)?;
    run(&JOIN_COUNTS, 1, 1024)?;
    run(&WRITE, tiles, 256)?;
    run(&CLOSE, units * 8, 256)?;
    run(&LINES, (batch.line_cap as usize).div_ceil(A_BLOCK), 256)?;
    run(&MATCH, units * 8, 256)?;
    run(&MINIMA, (batch.logical_cap as usize).div_ceil(A_BLOCK), 1024)?;
    run(&CHECK, units * 8, 256)?;
    run(&RULES, units * 4, 256)?;
    run(&FIRSTS, units * 8, 256)?;
    run(&RANKS, (batch.token_cap as usize / 32 + 1).div_ceil(A_BLOCK), 256)?;
    run(&NUMBER, units * 8, 256)
}
