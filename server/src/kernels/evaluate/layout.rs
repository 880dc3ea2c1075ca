//! Where the arrays of a launch lie in its memory, and what fills the gaps: guards, whose bytes tell of writes outside of the arrays.

use std::ops::Range;

use bytes::Bytes;

/// The least bytes of a guard.
const GUARD: u64 = 4 << 10;

const ALIGNMENT: u64 = 256;

/// Bytes that a GPU maps at once. The guard at the end fills them up, so that nothing can be kept there.
const GRANULE: u64 = 2 << 20;

/// Arrays with guards before, between and after them.
#[derive(Debug)]
pub(super) struct Layout {
    /// By parameter; `None` for a value.
    arrays: Vec<Option<Range<u64>>>,
    total: u64,
}

/// A guard that was overwritten.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Overwritten {
    /// The parameter of the nearest array.
    pub(super) param: usize,
    /// Bytes after the end of the array; negative before its start.
    pub(super) distance: i64,
}

impl Layout {
    /// Places arrays of these bytes.
    pub(super) fn new(sizes: &[Option<u64>]) -> Self {
        let mut end = 0_u64;
        let mut place = |bytes: u64| {
            let start = end.saturating_add(GUARD).checked_next_multiple_of(ALIGNMENT).unwrap_or(u64::MAX);
            end = start.saturating_add(bytes);
            start..end
        };
        let arrays = sizes.iter().map(|bytes| bytes.map(&mut place)).collect();
        Self { arrays, total: end.saturating_add(GUARD).checked_next_multiple_of(GRANULE).unwrap_or(u64::MAX) }
    }

    /// Bytes of the memory.
    pub(super) fn total(&self) -> u64 {
        self.total
    }

    /// Where the array of a parameter lies.
    pub(super) fn array(&self, param: usize) -> Option<Range<u64>> {
        self.arrays[param].clone()
    }

    /// All that is no array, in order.
    pub(super) fn guards(&self) -> Vec<Range<u64>> {
        let mut start = 0;
        let mut guards = Vec::with_capacity(self.arrays.len() + 1);
        for array in self.arrays.iter().flatten() {
            guards.push(start..array.start);
            start = array.end;
        }
        guards.push(start..self.total);
        guards
    }

    /// The memory before a launch. Values of parameters are no part of it.
    pub(super) fn image(&self, contents: &[Bytes], seed: u64) -> Vec<u8> {
        let mut image = vec![0; to_usize(self.total)];
        for guard in self.guards() {
            fill(&mut image[to_usize(guard.start)..to_usize(guard.end)], guard.start, seed);
        }
        for (array, content) in self.arrays.iter().zip(contents) {
            let Some(array) = array else { continue };
            image[to_usize(array.start)..to_usize(array.end)].copy_from_slice(content);
        }
        image
    }

    /// The first byte of the guards that is not what [`Self::image`] wrote.
    pub(super) fn overwritten(&self, guards: &[Vec<u8>], seed: u64) -> Option<Overwritten> {
        self.guards().iter().zip(guards).find_map(|(range, actual)| {
            let mut expected = vec![0; to_usize(range.end - range.start)];
            fill(&mut expected, range.start, seed);
            let first = expected.iter().zip(actual).position(|(expected, actual)| expected != actual)?;
            let last = expected.iter().zip(actual).rposition(|(expected, actual)| expected != actual)?;
            Some(self.nearest(range, [first as u64, last as u64]))
        })
    }

    /// The array that the first and the last byte of a guard are nearest to.
    fn nearest(&self, guard: &Range<u64>, [first, last]: [u64; 2]) -> Overwritten {
        let (first, last) = (guard.start + first, guard.start + last);
        let arrays = || self.arrays.iter().enumerate().filter_map(|(param, array)| Some((param, array.as_ref()?)));
        let before = arrays().find(|(_, array)| array.end == guard.start);
        let after = arrays().find(|(_, array)| array.start == guard.end);
        let distance = |from: u64, to: u64| i64::try_from(to - from).unwrap_or(i64::MAX);
        match (before, after) {
            (Some((param, array)), None) => Overwritten { param, distance: distance(array.end, first) },
            (Some((param, array)), Some((_, next))) if first - array.end <= next.start - last => {
                Overwritten { param, distance: distance(array.end, first) }
            }
            (_, Some((param, array))) => Overwritten { param, distance: -distance(last, array.start) },
            (None, None) => Overwritten { param: 0, distance: 0 },
        }
    }
}

/// Bytes that no kernel guesses, from the address `start` on.
fn fill(bytes: &mut [u8], start: u64, seed: u64) {
    for (nth, chunk) in (0_u64..).zip(bytes.chunks_mut(8)) {
        let word = mix(seed.wrapping_add(start).wrapping_add(nth)).to_le_bytes();
        chunk.copy_from_slice(&word[..chunk.len()]);
    }
}

/// SplitMix64.
pub(super) fn mix(seed: u64) -> u64 {
    let mut word = seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
    word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    word ^ (word >> 31)
}

fn to_usize(bytes: u64) -> usize {
    usize::try_from(bytes).expect("the memory of a launch fits in memory")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(image: &[u8], guards: &[Range<u64>]) -> Vec<Vec<u8>> {
        guards.iter().map(|range| image[to_usize(range.start)..to_usize(range.end)].to_vec()).collect()
    }

    #[test]
    fn arrays_are_aligned_and_guards_are_all_the_rest() {
        let layout = Layout::new(&[Some(10), None, Some(0), Some(4096)]);
        assert_eq!(layout.total() % GRANULE, 0);
        let mut ranges: Vec<_> = layout.guards().into_iter().chain((0..4).filter_map(|at| layout.array(at))).collect();
        ranges.sort_by_key(|range| (range.start, range.end));
        assert!(ranges.windows(2).all(|pair| pair[0].end == pair[1].start), "{ranges:?}");
        assert_eq!((ranges[0].start, ranges[ranges.len() - 1].end), (0, layout.total()));
        assert!(layout.guards().iter().all(|guard| guard.end - guard.start >= GUARD));
        assert!(layout.array(1).is_none() && layout.array(3).is_some_and(|array| array.start % ALIGNMENT == 0));
        assert_eq!(Layout::new(&[Some(u64::MAX)]).total(), u64::MAX, "too large for any limit");
    }

    #[test]
    fn a_write_outside_of_an_array_is_found_with_its_distance() {
        let layout = Layout::new(&[Some(10), Some(20)]);
        let contents = [Bytes::from(vec![1; 10]), Bytes::from(vec![2; 20])];
        let image = layout.image(&contents, 7);
        let guards = layout.guards();
        assert_eq!(layout.overwritten(&read(&image, &guards), 7), None);
        assert!(layout.overwritten(&read(&image, &guards), 8).is_some(), "another run has other bytes");
        let [first, second] = [0, 1].map(|param| layout.array(param).expect("an array"));
        for (at, param, distance) in [
            (first.end, 0, 0),
            (first.end + 3, 0, 3),
            (second.start - 1, 1, -1),
            (second.end + 100, 1, 100),
            (layout.total() - 1, 1, i64::try_from(layout.total() - 1 - second.end).expect("small")),
            (0, 0, -i64::try_from(first.start).expect("small")),
        ] {
            let mut image = image.clone();
            image[to_usize(at)] ^= 1;
            let expected = Some(Overwritten { param, distance });
            assert_eq!(layout.overwritten(&read(&image, &guards), 7), expected, "byte {at}");
        }
    }
}
