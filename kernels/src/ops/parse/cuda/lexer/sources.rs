//! Sources in device memory, laid out as the kernels want them.

use std::mem::MaybeUninit;

use crate::{
    OpError,
    cuda::{Block, Buffer, Copiers, Device, Layout, Parcel, Place, Sent, Worker, copy},
};

/// Bytes of text a block takes, and how many it sees beyond; as in `cu/parse_lex.cuh`.
pub(super) const TILE: usize = 8192;
const HALO: usize = 2048;
pub(super) const SPAN: usize = TILE + HALO;
/// Where sources may start.
const STEP: usize = 32;
/// Most bytes of a batch: counts are told in 31 bits.
const MOST_BYTES: usize = 1 << 30;

/// Bytes that a thread packs at once: fewer are packed by one, since waking others takes longer.
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
        let sizes: Vec<usize> = texts.iter().map(|text| text.len()).collect();
        Packed::new(&sizes, |at| texts[at], worker.device())?.0.send(worker)
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

/// The texts of a batch in host memory, as they are to be on the device.
pub(in super::super) struct Packed {
    block: Block,
    text: Place<u8>,
    starts: Place<u32>,
    lens: Place<u32>,
    by_tile: Place<u32>,
    count: usize,
    tiles: usize,
    end: usize,
    bytes: usize,
}

impl Packed {
    /// Packs the texts that `make` makes, each on some thread, and returns these, too. `sizes`: of each text, most likely;
    /// where one has another, all are packed once more.
    ///
    /// # Errors
    /// Where there is none, or where they are more than a batch may have.
    pub(in super::super) fn new<T: AsRef<str> + Send + Sync>(
        sizes: &[usize],
        make: impl Fn(usize) -> T + Sync,
        device: &Device,
    ) -> Result<(Self, Vec<T>), OpError> {
        let (packed, texts) = Self::with_room(sizes, make, device)?;
        let lens: Vec<usize> = texts.iter().map(|text| text.as_ref().len()).collect();
        if lens == sizes {
            return Ok((packed, texts));
        }
        drop(packed);
        let packed = Self::with_room(&lens, |at| texts[at].as_ref(), device)?.0;
        Ok((packed, texts))
    }

    fn with_room<T: AsRef<str> + Send>(
        sizes: &[usize],
        make: impl Fn(usize) -> T + Sync,
        device: &Device,
    ) -> Result<(Self, Vec<T>), OpError> {
        let starts = starts(sizes)?;
        let end = starts[sizes.len()] as usize;
        let tiles = end.div_ceil(TILE);
        let lens: Vec<u32> = sizes.iter().map(|&size| word(size)).collect();
        let by_tile = tile_sources(&starts, tiles);
        let mut layout = Layout::default();
        let text = layout.add(tiles * TILE + HALO);
        let numbers = [&starts, &lens, &by_tile].map(|numbers| (numbers, layout.add(numbers.len())));
        let mut block = device.pinned().take(layout.bytes());
        let bytes = block.bytes_mut();
        for (numbers, place) in &numbers {
            copy(bytemuck::cast_slice(numbers), &mut bytes[place.bytes()]);
        }
        let texts = pack(sizes, &starts, make, &mut bytes[text.bytes()], device.copiers());
        let [(_, starts), (_, lens), (_, by_tile)] = numbers;
        let (count, bytes) = (sizes.len(), sizes.iter().sum());
        Ok((Self { block, text, starts, lens, by_tile, count, tiles, end, bytes }, texts))
    }

    /// Sends them, beside what the device does; kernels launched from now on see them.
    pub(in super::super) fn send(self, worker: &Worker) -> Result<Sources, OpError> {
        let Self { block, count, tiles, end, bytes, .. } = self;
        let mut parcel = Parcel::default();
        let text = worker.alloc_for_upload(self.text.len())?;
        parcel.add(&text, self.text);
        let mut numbers = |place: Place<u32>| {
            let buffer = worker.alloc_for_upload(place.len())?;
            parcel.add(&buffer, place);
            Ok::<_, OpError>(buffer)
        };
        let (starts, lens, by_tile) = (numbers(self.starts)?, numbers(self.lens)?, numbers(self.by_tile)?);
        let sent = worker.send(block, &parcel)?;
        Ok(Sources { text, starts, lens, by_tile, count, tiles, end, bytes, _sent: sent })
    }
}

/// Makes texts and writes them to their places, and newlines between them and for those that are not as long as they should
/// be; on several threads where that pays.
fn pack<T: AsRef<str> + Send>(
    sizes: &[usize],
    places: &[u32],
    make: impl Fn(usize) -> T + Sync,
    out: &mut [MaybeUninit<u8>],
    copiers: &Copiers,
) -> Vec<T> {
    let (front, mut rest) = out.split_at_mut(STEP);
    front.fill(MaybeUninit::new(b'\n'));
    let mut jobs = vec![];
    let (mut first, mut bytes) = (0, 0);
    for at in 0..sizes.len() {
        bytes += sizes[at];
        let last = at + 1 == sizes.len();
        if bytes >= PACKED_AT_ONCE || last {
            // What follows the last text goes to the end.
            let end = if last { rest.len() } else { (places[at + 1] - places[first]) as usize };
            let (own, behind) = rest.split_at_mut(end);
            jobs.push((first..at + 1, own));
            (first, bytes, rest) = (at + 1, 0, behind);
        }
    }
    let texts = copiers.each(jobs, |(range, mut out)| {
        let last = range.end - 1;
        let one = |at: usize| {
            let end = if at == last { out.len() } else { (places[at + 1] - places[at]) as usize };
            let (own, behind) = std::mem::take(&mut out).split_at_mut(end);
            out = behind;
            let text = make(at);
            let fits = if text.as_ref().len() == sizes[at] { sizes[at] } else { 0 };
            copy(&text.as_ref().as_bytes()[..fits], &mut own[..fits]);
            own[fits..].fill(MaybeUninit::new(b'\n'));
            text
        };
        range.map(one).collect::<Vec<T>>()
    });
    texts.into_iter().flatten().collect()
}

/// Where each source starts, and what is behind the last: room for a newline behind each.
fn starts(sizes: &[usize]) -> Result<Vec<u32>, OpError> {
    let total: usize = sizes.iter().map(|size| size + STEP).sum();
    if sizes.is_empty() || total > MOST_BYTES {
        return Err(OpError::Invalid(format!(
            "sources have {total} bytes, at least one and at most {MOST_BYTES} are expected"
        )));
    }
    let mut at = STEP;
    let mut starts = Vec::with_capacity(sizes.len() + 1);
    for size in sizes {
        starts.push(word(at));
        at += (size + 1).next_multiple_of(STEP);
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

#[cfg(test)]
mod tests {
    use super::*;

    /// What a batch looks like when its texts are packed, and the texts.
    fn packed(sizes: &[usize], texts: &[&str]) -> (String, Vec<u32>, usize) {
        let starts = starts(sizes).expect("few");
        let mut out = vec![MaybeUninit::new(0); starts[sizes.len()] as usize + HALO];
        let made = pack(sizes, &starts, |at| texts[at], &mut out, &Copiers::default());
        assert_eq!(made, texts);
        // SAFETY: all were zero at least.
        let out = out.into_iter().map(|byte| unsafe { byte.assume_init() }).collect();
        (String::from_utf8(out).expect("texts"), starts, made.len())
    }

    #[test]
    fn texts_lie_where_they_should_and_newlines_elsewhere() {
        let long = "x".repeat(PACKED_AT_ONCE - 1);
        let texts = ["a", &long, "", "bcd", &long, "e = 1"];
        let sizes = texts.map(str::len);
        let (out, starts, count) = packed(&sizes, &texts);
        assert_eq!(count, 6);
        for (at, text) in texts.iter().enumerate() {
            assert!(out[starts[at] as usize..].starts_with(text));
            assert!(starts[at].is_multiple_of(32) && starts[at] as usize + text.len() < starts[at + 1] as usize);
        }
        let others = out.len() - sizes.iter().sum::<usize>();
        assert_eq!(out.bytes().filter(|byte| *byte == b'\n').count(), others);
    }

    #[test]
    fn a_text_of_another_size_is_left_out() {
        let (out, starts, _) = packed(&[3, 2, 4], &["abc", "longer than two", "d"]);
        assert_eq!(out.trim_matches('\n'), "abc");
        assert_eq!(starts, [32, 64, 96, 128]);
    }
}
