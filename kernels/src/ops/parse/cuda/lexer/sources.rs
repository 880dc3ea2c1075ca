//! Sources in device memory, laid out as the kernels want them.

use std::mem::MaybeUninit;

use rayon::prelude::*;

use crate::{
    OpError,
    cuda::{Buffer, On, Parcel, Sent, Worker},
};

/// Bytes of text a block takes, and how many it sees beyond; as in `cu/parse_lex.cuh`.
pub(super) const TILE: usize = 8192;
const HALO: usize = 2048;
pub(super) const SPAN: usize = TILE + HALO;
/// Where sources may start.
const STEP: usize = 32;
/// Most bytes of a batch: counts are told in 31 bits.
const MOST_BYTES: usize = 1 << 30;

/// Bytes of source below which one thread packs them: waking others takes longer.
const SPREAD_BYTES: usize = 256 << 10;
/// Bytes that a thread packs at once.
const PACKED_AT_ONCE: usize = 128 << 10;

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
    /// Their host memory, until it has been copied.
    _sent: Sent,
}

impl Sources {
    /// Brings texts to the device, beside its kernels; those launched from now on see them.
    ///
    /// # Errors
    /// Where there is none, or where they are more than a batch may have.
    pub fn upload(texts: &[&str], worker: &Worker) -> Result<Self, OpError> {
        Self::room(texts, worker)?.fill(texts, worker)
    }

    /// Memory of a device for such texts, in the order of its kernels: so it should be asked for before they are launched.
    pub(in super::super) fn room(texts: &[&str], worker: &Worker) -> Result<SourcesRoom, OpError> {
        let starts = starts(texts)?;
        let tiles = (starts[texts.len()] as usize).div_ceil(TILE);
        let room = SourcesRoom {
            text: worker.alloc(tiles * TILE + HALO)?,
            starts: worker.alloc(starts.len())?,
            lens: worker.alloc(texts.len())?,
            by_tile: worker.alloc(tiles + 2)?,
            tiles,
            places: starts,
        };
        worker.after(On::Kernels, On::Uploads)?;
        Ok(room)
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

/// Memory of a device for texts that are not there yet.
pub(in super::super) struct SourcesRoom {
    text: Buffer<u8>,
    starts: Buffer<u32>,
    lens: Buffer<u32>,
    by_tile: Buffer<u32>,
    tiles: usize,
    places: Vec<u32>,
}

impl SourcesRoom {
    /// Packs the texts that the room was made for, and sends them.
    pub(in super::super) fn fill(self, texts: &[&str], worker: &Worker) -> Result<Sources, OpError> {
        let Self { text, starts, lens, by_tile, tiles, places } = self;
        let lengths: Vec<u32> = texts.iter().map(|text| word(text.len())).collect();
        let tile_sources = tile_sources(&places, tiles);
        let mut parcel = Parcel::default();
        let text_at = parcel.add(&text);
        let [starts_at, lens_at, tiles_at] = [&starts, &lens, &by_tile].map(|numbers| parcel.add(numbers));
        let mut block = worker.block(parcel.bytes())?;
        let bytes = block.bytes_mut();
        pack(texts, &places, &mut bytes[text_at..text_at + text.len()], worker);
        for (at, numbers) in [(starts_at, &places), (lens_at, &lengths), (tiles_at, &tile_sources)] {
            write(bytemuck::cast_slice(numbers), &mut bytes[at..]);
        }
        let sent = worker.send(block, &parcel)?;
        let end = places[texts.len()] as usize;
        let bytes = texts.iter().map(|text| text.len()).sum();
        Ok(Sources { text, starts, lens, by_tile, count: texts.len(), tiles, end, bytes, _sent: sent })
    }
}

/// Writes texts to their places, and newlines between them; on several threads where that pays.
fn pack(texts: &[&str], places: &[u32], out: &mut [MaybeUninit<u8>], worker: &Worker) {
    let (front, mut rest) = out.split_at_mut(STEP);
    front.fill(MaybeUninit::new(b'\n'));
    // What follows the last text is as long as its place says, and then to the end.
    let mut jobs = vec![];
    let (mut first, mut bytes) = (0, 0);
    for (at, text) in texts.iter().enumerate() {
        bytes += text.len();
        let last = at + 1 == texts.len();
        if bytes >= PACKED_AT_ONCE || last {
            let end = if last { rest.len() } else { (places[at + 1] - places[first]) as usize };
            let (own, behind) = rest.split_at_mut(end);
            jobs.push(Job { texts: &texts[first..=at], places: &places[first..=at], out: own });
            (first, bytes, rest) = (at + 1, 0, behind);
        }
    }
    if jobs.len() * PACKED_AT_ONCE < SPREAD_BYTES {
        jobs.into_iter().for_each(Job::run);
    } else {
        worker.device().cpu().install(|| jobs.into_par_iter().for_each(Job::run));
    }
}

/// Texts that one thread packs; the last one has the rest of `out`.
struct Job<'a> {
    texts: &'a [&'a str],
    places: &'a [u32],
    out: &'a mut [MaybeUninit<u8>],
}

impl Job<'_> {
    fn run(self) {
        let Self { texts, places, mut out } = self;
        for (at, text) in texts.iter().enumerate() {
            let end = places.get(at + 1).map_or(out.len(), |next| (next - places[at]) as usize);
            let (own, behind) = out.split_at_mut(end);
            write(text.as_bytes(), own);
            own[text.len()..].fill(MaybeUninit::new(b'\n'));
            out = behind;
        }
    }
}

fn write(from: &[u8], to: &mut [MaybeUninit<u8>]) {
    let to = &mut to[..from.len()];
    // SAFETY: as many on both sides, of which one is borrowed for writing and so apart from the other.
    unsafe { std::ptr::copy_nonoverlapping(from.as_ptr(), to.as_mut_ptr().cast(), from.len()) }
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
