//! Sources in device memory, laid out as the kernels want them.

use crate::{
    OpError,
    cuda::{Buffer, Worker},
};

/// Bytes of text a block takes, and how many it sees beyond; as in `cu/parse_lex.cuh`.
pub(super) const TILE: usize = 8192;
const HALO: usize = 2048;
pub(super) const SPAN: usize = TILE + HALO;
/// Where sources may start.
const STEP: usize = 32;
/// Most bytes of a batch: counts are told in 31 bits.
const MOST_BYTES: usize = 1 << 30;

static NEWLINES: [u8; TILE + HALO + STEP] = [b'\n'; TILE + HALO + STEP];

/// The texts of a batch on the device. Text that belongs to no source is newlines.
#[derive(Debug)]
pub struct Sources {
    pub(in super::super) text: Buffer<u8>,
    pub(in super::super) starts: Buffer<u32>,
    pub(in super::super) lens: Buffer<u32>,
    /// The last source that starts at or before the first byte of each tile.
    pub(super) by_tile: Buffer<u32>,
    pub(super) count: usize,
    pub(super) tiles: usize,
    /// Behind the last source.
    pub(super) end: usize,
    bytes: usize,
}

impl Sources {
    /// Brings texts to the device.
    ///
    /// # Errors
    /// Where there is none, or where they are more than a batch may have.
    pub fn upload(texts: &[&str], worker: &Worker) -> Result<Self, OpError> {
        let starts = starts(texts)?;
        let end = starts[texts.len()] as usize;
        let tiles = end.div_ceil(TILE);
        let text = worker.alloc(tiles * TILE + HALO)?;
        let gaps = texts
            .iter()
            .zip(starts.windows(2))
            .flat_map(|(text, places)| [text.as_bytes(), &NEWLINES[..(places[1] - places[0]) as usize - text.len()]]);
        let (front, back) = (&NEWLINES[..STEP], &NEWLINES[..tiles * TILE + HALO - end]);
        worker.upload_parts(std::iter::once(front).chain(gaps).chain([back]), &text, 0)?;
        let lens: Vec<u32> = texts.iter().map(|text| word(text.len())).collect();
        Ok(Self {
            text,
            lens: worker.upload_new(&lens)?,
            by_tile: worker.upload_new(&tile_sources(&starts, tiles))?,
            starts: worker.upload_new(&starts)?,
            count: texts.len(),
            tiles,
            end,
            bytes: texts.iter().map(|text| text.len()).sum(),
        })
    }

    /// How many sources.
    pub fn count(&self) -> usize {
        self.count
    }

    /// The bytes of all sources.
    pub fn bytes(&self) -> usize {
        self.bytes
    }
}

/// Where each source starts, and what is behind the last: room for a newline behind each.
fn starts(texts: &[&str]) -> Result<Vec<u32>, OpError> {
    let total: usize = texts.iter().map(|text| text.len() + STEP).sum();
    if texts.is_empty() || total > MOST_BYTES {
        return Err(OpError::Invalid(format!(
            "sources have {total} bytes, at least one and at most {MOST_BYTES} are expected"
        )));
    }
    let mut at = STEP;
    let mut starts = Vec::with_capacity(texts.len() + 1);
    for text in texts {
        starts.push(word(at));
        at += (text.len() + 1).next_multiple_of(STEP);
    }
    starts.push(word(at));
    Ok(starts)
}

/// The last source that starts at or before the first byte of each tile.
fn tile_sources(starts: &[u32], tiles: usize) -> Vec<u32> {
    let sources = starts.len() - 1;
    let mut source = 0;
    (0..tiles + 2)
        .map(|tile| {
            while source + 1 < sources && starts[source + 1] as usize <= tile * TILE {
                source += 1;
            }
            word(source)
        })
        .collect()
}

/// A count or place of a batch, which [`MOST_BYTES`] keeps small.
pub(super) fn word(number: usize) -> u32 {
    u32::try_from(number).expect("batches are small")
}
