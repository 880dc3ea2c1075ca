//! The first stage: plans slices of a batch, decodes their sources and packs them into pinned memory as the kernels read them.

use std::{
    borrow::Cow,
    mem::MaybeUninit,
    ops::Range,
    sync::mpsc::{Receiver, SyncSender, sync_channel},
    thread,
};

use accelerd_parser::text;
use bytes::Bytes;

use super::{
    fallback::{Batch, BatchSource, Fallback, has_named_character},
    fallback_reason::{REASON_LITERAL, REASON_MODE},
    kernels::{HALO, TILE},
};
use crate::{
    OpError,
    cuda::{Buffer, Device, Layout, MemcpyPool, PendingUpload, PinnedBlock, Region, UploadPlan, Worker, copy},
    ops::parse::{Mode, ParseRequest},
};

/// Bytes of source per slice: enough to keep the device busy, and few enough that the first columns are back early.
const SLICE_BYTES: usize = 24 << 20;
/// The first slice of a request with several is smaller, so that the device starts early; each is at most twice as large
/// as the one before.
const FIRST_SLICE_BYTES: usize = 6 << 20;
/// Slices packed ahead of the device.
const MAX_PACKED: usize = 4;

/// Sources that go to the device together.
pub(super) struct SlicePlan {
    pub(super) range: Range<usize>,
    /// For the first slice of a group whose columns belong together: bytes of source of the group.
    pub(super) group_bytes: Option<usize>,
}

/// Divides a batch into slices: several requests, or a part of one.
pub(super) fn plan_slices(batch: &[&ParseRequest]) -> Vec<SlicePlan> {
    let mut plan = vec![];
    let mut first = 0;
    let mut index = 0;
    let mut bytes = 0;
    for request in batch {
        let own = request.sources.iter().map(Bytes::len).sum();
        if bytes + own > SLICE_BYTES && index > first {
            plan.push(SlicePlan { range: first..index, group_bytes: Some(bytes) });
            (first, bytes) = (index, 0);
        }
        (index, bytes) = (index + request.sources.len(), bytes + own);
        if bytes > SLICE_BYTES {
            plan_large_request(&request.sources, first, own, &mut plan);
            (first, bytes) = (index, 0);
        }
    }
    if index > first {
        plan.push(SlicePlan { range: first..index, group_bytes: Some(bytes) });
    }
    plan
}

/// Divides one request into slices. `first`: its first source in the batch.
fn plan_large_request(sources: &[Bytes], mut first: usize, all: usize, plan: &mut Vec<SlicePlan>) {
    let mut group_bytes = Some(all);
    let mut bytes = 0;
    let mut max = FIRST_SLICE_BYTES;
    let begin = first;
    let end = first + sources.len();
    for (index, source) in (begin..).zip(sources) {
        if bytes + source.len() > max && index > first {
            plan.push(SlicePlan { range: first..index, group_bytes: group_bytes.take() });
            (first, bytes, max) = (index, 0, SLICE_BYTES.min(max * 2));
        }
        bytes += source.len();
    }
    plan.push(SlicePlan { range: first..end, group_bytes });
}

/// Packs all slices in order on a thread of their own, at most [`MAX_PACKED`] ahead of `run`; a single slice on this thread.
pub(super) fn pack_ahead<P: Send, R>(
    plan: &[SlicePlan],
    pack: impl Fn(Range<usize>) -> P + Sync,
    run: impl FnOnce(Receiver<P>) -> R,
) -> R {
    let (ready, packed) = sync_channel(MAX_PACKED);
    // The receiver may stop early, which ends packing.
    let pack_all = |ready: SyncSender<P>| {
        let _ = plan.iter().try_for_each(|slice| ready.send(pack(slice.range.clone())));
    };
    if plan.len() < 2 {
        pack_all(ready);
        return run(packed);
    }
    thread::scope(|threads| {
        threads.spawn(|| pack_all(ready));
        run(packed)
    })
}

/// The sources of a slice.
pub(super) struct SliceSources<'a> {
    pub(super) range: Range<usize>,
    pub(super) batch: &'a Batch<'a>,
    /// The decoded sources; none for those that cannot be decoded, which the CPU reports.
    pub(super) texts: Vec<Option<Cow<'a, str>>>,
}

impl<'a> SliceSources<'a> {
    pub(super) fn sources(&self) -> &'a [BatchSource<'a>] {
        &self.batch.sources[self.range.clone()]
    }

    /// Submits the sources with reasons to the CPU. `reasons`: by source of the slice, 0 for none.
    pub(super) fn submit(&self, reasons: impl Iterator<Item = u32>, fallback: Fallback<'_, 'a>) {
        fallback.submit(self.range.clone().zip(reasons).filter(|(_, reasons)| *reasons != 0));
    }
}

/// A slice in pinned memory.
pub(super) struct PackedSlice<'a> {
    pub(super) slice: SliceSources<'a>,
    pub(super) packed: PackedSources,
}

/// Decodes and packs sources; submits those that are known to fall back.
pub(super) fn pack<'a>(
    range: Range<usize>,
    device: &Device,
    fallback: Fallback<'_, 'a>,
) -> Result<PackedSlice<'a>, OpError> {
    let batch = fallback.batch;
    let sources = &batch.sources[range.clone()];
    // A longer source is an error.
    let size = |source: &BatchSource<'_>| {
        if source.bytes.len() > accelerd_parser::lexer::MAX_BYTES { 0 } else { source.bytes.len() }
    };
    let sizes: Vec<usize> = sources.iter().map(size).collect();
    let (packed, texts) = PackedSources::new(&sizes, |index| DecodedSource::new(&sources[index]), device)?;
    fallback.submit(range.clone().zip(&texts).filter_map(|(index, source)| Some((index, source.reasons?))));
    let texts = texts.into_iter().map(|source| source.text).collect();
    Ok(PackedSlice { slice: SliceSources { range, batch, texts }, packed })
}

struct DecodedSource<'a> {
    text: Option<Cow<'a, str>>,
    /// Why it falls back, if that is known already.
    reasons: Option<u32>,
}

impl<'a> DecodedSource<'a> {
    fn new(source: &BatchSource<'a>) -> Self {
        let text = text::decode(source.bytes, &source.options).ok();
        let reasons = match &text {
            None => Some(0),
            Some(_) if source.options.mode != Mode::Exec => Some(REASON_MODE),
            Some(text) => has_named_character(text.as_bytes()).then_some(REASON_LITERAL),
        };
        Self { text, reasons }
    }
}

impl AsRef<str> for DecodedSource<'_> {
    fn as_ref(&self) -> &str {
        self.text.as_deref().unwrap_or_default()
    }
}

/// Alignment of sources.
const ALIGNMENT: usize = 32;
/// The most bytes of a slice: counts have 31 bits.
const MAX_BYTES: usize = 1 << 30;
/// Bytes that one thread packs: waking others for less takes longer.
const PACK_BYTES_PER_THREAD: usize = 128 << 10;

/// Texts on the device. Bytes outside of the texts are newlines.
#[derive(Debug)]
pub struct Sources {
    pub(super) text: Buffer<u8>,
    pub(super) starts: Buffer<u32>,
    pub(super) lens: Buffer<u32>,
    /// By tile: the last source that starts at or before its first byte.
    pub(super) by_tile: Buffer<u32>,
    pub(super) count: usize,
    pub(super) tiles: usize,
    /// The end of the last source.
    pub(super) end: usize,
    bytes: usize,
    /// Keeps the host memory until it is copied.
    _upload: PendingUpload,
}

impl Sources {
    /// Copies texts to the device, concurrently with its kernels; kernels launched later wait for the copy.
    ///
    /// # Errors
    /// If there are no texts, or more bytes than a batch may have.
    pub fn upload(texts: &[&str], worker: &Worker) -> Result<Self, OpError> {
        let sizes: Vec<usize> = texts.iter().map(|text| text.len()).collect();
        PackedSources::new(&sizes, |index| texts[index], worker.device())?.0.upload(worker)
    }

    /// The number of sources.
    pub fn count(&self) -> usize {
        self.count
    }

    /// The bytes of all sources.
    pub fn bytes(&self) -> usize {
        self.bytes
    }
}

/// Texts in pinned memory, laid out as on the device.
pub(super) struct PackedSources {
    block: PinnedBlock,
    text: Region<u8>,
    starts: Region<u32>,
    lens: Region<u32>,
    by_tile: Region<u32>,
    count: usize,
    tiles: usize,
    end: usize,
    bytes: usize,
}

impl PackedSources {
    /// Packs the texts that `make` returns, on several threads, and returns the texts, too. `sizes`: the expected length of
    /// each text; if one differs, all are packed again.
    ///
    /// # Errors
    /// If there are no texts, or more bytes than a batch may have.
    fn new<T: AsRef<str> + Send + Sync>(
        sizes: &[usize],
        make: impl Fn(usize) -> T + Sync,
        device: &Device,
    ) -> Result<(Self, Vec<T>), OpError> {
        let (packed, texts) = Self::with_sizes(sizes, make, device)?;
        let lens: Vec<usize> = texts.iter().map(|text| text.as_ref().len()).collect();
        if lens == sizes {
            return Ok((packed, texts));
        }
        drop(packed);
        let packed = Self::with_sizes(&lens, |index| texts[index].as_ref(), device)?.0;
        Ok((packed, texts))
    }

    fn with_sizes<T: AsRef<str> + Send>(
        sizes: &[usize],
        make: impl Fn(usize) -> T + Sync,
        device: &Device,
    ) -> Result<(Self, Vec<T>), OpError> {
        let starts = starts(sizes)?;
        let end = starts[sizes.len()] as usize;
        let tiles = end.div_ceil(TILE);
        let lens: Vec<u32> = sizes.iter().map(|&size| to_u32(size)).collect();
        let by_tile = tile_sources(&starts, tiles);
        let mut layout = Layout::default();
        let text = layout.add(tiles * TILE + HALO);
        let numbers = [&starts, &lens, &by_tile].map(|numbers| (numbers, layout.add(numbers.len())));
        let mut block = device.pinned().take(layout.bytes());
        let bytes = block.bytes_mut();
        for (numbers, region) in &numbers {
            copy(bytemuck::cast_slice(numbers), &mut bytes[region.bytes()]);
        }
        let texts = pack_texts(sizes, &starts, make, &mut bytes[text.bytes()], device.memcpy_pool());
        let [(_, starts), (_, lens), (_, by_tile)] = numbers;
        let count = sizes.len();
        let bytes = sizes.iter().sum();
        Ok((Self { block, text, starts, lens, by_tile, count, tiles, end, bytes }, texts))
    }

    /// Copies them to the device, concurrently with its kernels; kernels launched later wait for the copy.
    pub(super) fn upload(self, worker: &Worker) -> Result<Sources, OpError> {
        let Self { block, count, tiles, end, bytes, .. } = self;
        let mut plan = UploadPlan::default();
        let text = worker.alloc_for_upload(self.text.len())?;
        plan.add(&text, self.text);
        let mut numbers = |region: Region<u32>| {
            let buffer = worker.alloc_for_upload(region.len())?;
            plan.add(&buffer, region);
            Ok::<_, OpError>(buffer)
        };
        let starts = numbers(self.starts)?;
        let lens = numbers(self.lens)?;
        let by_tile = numbers(self.by_tile)?;
        let upload = worker.upload_async(block, &plan)?;
        Ok(Sources { text, starts, lens, by_tile, count, tiles, end, bytes, _upload: upload })
    }
}

/// Makes texts and writes them to `starts`, with newlines between them and for texts of another than the expected size; on
/// several threads if there is enough to pack.
fn pack_texts<T: AsRef<str> + Send>(
    sizes: &[usize],
    starts: &[u32],
    make: impl Fn(usize) -> T + Sync,
    out: &mut [MaybeUninit<u8>],
    memcpy_pool: &MemcpyPool,
) -> Vec<T> {
    let (front, mut rest) = out.split_at_mut(ALIGNMENT);
    front.fill(MaybeUninit::new(b'\n'));
    let mut jobs = vec![];
    let mut first = 0;
    let mut bytes = 0;
    for index in 0..sizes.len() {
        bytes += sizes[index];
        let last = index + 1 == sizes.len();
        if bytes >= PACK_BYTES_PER_THREAD || last {
            // The last job fills the rest with newlines.
            let end = if last { rest.len() } else { (starts[index + 1] - starts[first]) as usize };
            let (own, after) = rest.split_at_mut(end);
            jobs.push((first..index + 1, own));
            (first, bytes, rest) = (index + 1, 0, after);
        }
    }
    let texts = memcpy_pool.each(jobs, |(range, mut out)| {
        let last = range.end - 1;
        let one = |index: usize| {
            let end = if index == last { out.len() } else { (starts[index + 1] - starts[index]) as usize };
            let (own, after) = std::mem::take(&mut out).split_at_mut(end);
            out = after;
            let text = make(index);
            let size = if text.as_ref().len() == sizes[index] { sizes[index] } else { 0 };
            copy(&text.as_ref().as_bytes()[..size], &mut own[..size]);
            own[size..].fill(MaybeUninit::new(b'\n'));
            text
        };
        range.map(one).collect::<Vec<T>>()
    });
    texts.into_iter().flatten().collect()
}

/// The start of each source, and the end of the last, with at least one newline after each.
fn starts(sizes: &[usize]) -> Result<Vec<u32>, OpError> {
    let total: usize = sizes.iter().map(|size| size + ALIGNMENT).sum();
    if sizes.is_empty() || total > MAX_BYTES {
        return Err(OpError::Invalid(format!(
            "sources have {total} bytes, at least one and at most {MAX_BYTES} are expected"
        )));
    }
    let mut offset = ALIGNMENT;
    let mut starts = Vec::with_capacity(sizes.len() + 1);
    for size in sizes {
        starts.push(to_u32(offset));
        offset += (size + 1).next_multiple_of(ALIGNMENT);
    }
    starts.push(to_u32(offset));
    Ok(starts)
}

/// By tile: the last source that starts at or before its first byte.
fn tile_sources(starts: &[u32], tiles: usize) -> Vec<u32> {
    let sources = starts.len() - 1;
    let mut source = 0;
    (0..tiles + 2)
        .map(|tile| {
            while source + 1 < sources && starts[source + 1] as usize <= tile * TILE {
                source += 1;
            }
            to_u32(source)
        })
        .collect()
}

/// A count or offset of a slice as the kernels take it.
pub(super) fn to_u32(number: usize) -> u32 {
    u32::try_from(number).expect("a slice has at most 1 GiB")
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

    use super::*;
    use crate::ops::parse::{Options, Outputs};

    fn request(sizes: &[usize]) -> ParseRequest {
        let sources = sizes.iter().map(|&size| vec![b'\n'; size].into()).collect();
        ParseRequest::new(sources, Options::default(), Outputs::default())
    }

    #[test]
    fn small_requests_share_a_slice_and_a_large_one_has_several() {
        const MAX: usize = SLICE_BYTES;
        const FIRST: usize = FIRST_SLICE_BYTES;
        let growing = [FIRST, 2 * FIRST, 3 * FIRST, FIRST, 1, MAX, 1];
        let requests = [&[1, 2][..], &[MAX - 4], &[], &[2], &growing, &[MAX + 1], &[5]];
        let requests: Vec<_> = requests.into_iter().map(request).collect();
        let plan: Vec<_> = plan_slices(&requests.iter().collect::<Vec<_>>())
            .into_iter()
            .map(|slice| (slice.range, slice.group_bytes))
            .collect();
        let expected = [
            (0..3, Some(MAX - 1)),
            (3..4, Some(2)),
            (4..5, Some(7 * FIRST + MAX + 2)),
            (5..6, None),
            (6..8, None),
            (8..9, None),
            (9..10, None),
            (10..11, None),
            (11..12, Some(MAX + 1)),
            (12..13, Some(5)),
        ];
        assert_eq!(plan, expected);
        assert!(plan_slices(&[]).is_empty());
    }

    fn slices(count: usize) -> Vec<SlicePlan> {
        (0..count).map(|index| SlicePlan { range: index..index + 1, group_bytes: None }).collect()
    }

    #[test]
    fn slices_are_packed_in_order_and_not_far_ahead() {
        for count in [0, 1, 20] {
            let begun = AtomicUsize::new(0);
            let taken = AtomicUsize::new(0);
            let pack = |range: Range<usize>| {
                begun.fetch_add(1, SeqCst);
                assert!(range.start <= taken.load(SeqCst) + MAX_PACKED + 1);
                range.start
            };
            let run = |packed: Receiver<usize>| {
                let take = |index: usize| {
                    taken.fetch_add(1, SeqCst);
                    index
                };
                packed.iter().map(take).collect::<Vec<_>>()
            };
            assert_eq!(pack_ahead(&slices(count), pack, run), (0..count).collect::<Vec<_>>());
            assert_eq!(begun.into_inner(), count);
        }
    }

    #[test]
    fn packing_ends_with_its_receiver() {
        assert_eq!(pack_ahead(&slices(20), |range| range.start, |packed| packed.recv()), Ok(0));
    }

    /// The packed bytes as text, and the starts of the sources.
    fn packed(sizes: &[usize], texts: &[&str]) -> (String, Vec<u32>) {
        let starts = starts(sizes).expect("few");
        let mut out = vec![MaybeUninit::new(0); starts[sizes.len()] as usize + HALO];
        let made = pack_texts(sizes, &starts, |index| texts[index], &mut out, &MemcpyPool::default());
        assert_eq!(made, texts);
        // SAFETY: all bytes are initialised with zeros.
        let out = out.into_iter().map(|byte| unsafe { byte.assume_init() }).collect();
        (String::from_utf8(out).expect("texts"), starts)
    }

    #[test]
    fn newlines_fill_the_gaps_between_aligned_texts() {
        let long = "x".repeat(PACK_BYTES_PER_THREAD - 1);
        let texts = ["a", &long, "", "bcd", &long, "e = 1"];
        let sizes = texts.map(str::len);
        let (out, starts) = packed(&sizes, &texts);
        for (index, text) in texts.iter().enumerate() {
            assert!(out[starts[index] as usize..].starts_with(text));
            assert!(
                starts[index].is_multiple_of(32) && starts[index] as usize + text.len() < starts[index + 1] as usize
            );
        }
        let gaps = out.len() - sizes.iter().sum::<usize>();
        assert_eq!(out.bytes().filter(|byte| *byte == b'\n').count(), gaps);
    }

    #[test]
    fn a_text_of_another_size_is_left_out() {
        let (out, starts) = packed(&[3, 2, 4], &["abc", "longer than two", "d"]);
        assert_eq!(out.trim_matches('\n'), "abc");
        assert_eq!(starts, [32, 64, 96, 128]);
    }
}
