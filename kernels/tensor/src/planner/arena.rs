//! Places buffers in the arena by their lifetimes: those that are never alive at once share bytes.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use crate::{Layout, Location, Plan, Step, View};

use super::steps::Lowered;

/// The steps that first write and last read a buffer.
#[derive(Clone, Copy)]
struct Lifetime {
    first: usize,
    last: usize,
}

/// Places the buffers; returns the bytes of the arena and the steps with their final locations.
pub(super) fn place(lowered: Lowered) -> (usize, Vec<Step>) {
    let Lowered { mut steps, buffer_bytes, outputs } = lowered;
    let lifetimes = lifetimes(&mut steps, buffer_bytes.len());
    let mut arena = Arena::default();
    let mut places: Vec<Option<Location>> =
        (0..buffer_bytes.len()).map(|number| outputs.get(&number).map(|output| Location::Output(*output))).collect();
    let mut ends: HashMap<usize, Vec<usize>> = HashMap::new();
    for (nth, step) in steps.iter_mut().enumerate() {
        let reusable = reusable(step, nth, &lifetimes, &buffer_bytes, &outputs);
        for number in written(step).into_iter().filter(|&number| lifetimes[number].first == nth) {
            if places[number].is_some() {
                continue;
            }
            let donor = reusable.iter().find(|(taker, _)| *taker == number).map(|(_, donor)| *donor);
            let offset = match donor.and_then(|donor| places[donor].map(|place| (donor, place))) {
                Some((donor, Location::Arena(offset))) => {
                    arena.hand_over(donor, number);
                    offset
                }
                _ => arena.allocate(number, buffer_bytes[number]),
            };
            places[number] = Some(Location::Arena(offset));
            ends.entry(lifetimes[number].last).or_default().push(number);
        }
        ends.remove(&nth).into_iter().flatten().for_each(|number| arena.free(number));
    }
    for view in steps.iter_mut().flat_map(Step::views_mut) {
        if let Location::Arena(number) = view.location {
            // Nothing writes a tensor without elements.
            view.location = places[number].unwrap_or(Location::Arena(0));
        }
    }
    (arena.peak, steps)
}

fn lifetimes(steps: &mut [Step], buffers: usize) -> Vec<Lifetime> {
    let mut lifetimes = vec![Lifetime { first: usize::MAX, last: 0 }; buffers];
    for (nth, step) in steps.iter_mut().enumerate() {
        for view in step.views_mut() {
            if let Location::Arena(number) = view.location {
                let lifetime = &mut lifetimes[number];
                *lifetime = Lifetime { first: lifetime.first.min(nth), last: nth };
            }
        }
    }
    lifetimes
}

/// The buffers that a step writes.
fn written(step: &mut Step) -> Vec<usize> {
    step.outputs_mut().into_iter().filter_map(|view| number(view)).collect()
}

fn number(view: &View) -> Option<usize> {
    match view.location {
        Location::Arena(number) => Some(number),
        Location::Input(_) | Location::Output(_) => None,
    }
}

/// Pairs of buffers of an elementwise step: one that it writes whole, and one that it reads last, element for element.
fn reusable(
    step: &Step,
    nth: usize,
    lifetimes: &[Lifetime],
    buffer_bytes: &[usize],
    outputs: &HashMap<usize, usize>,
) -> Vec<(usize, usize)> {
    let Step::Map(map) = step else { return vec![] };
    let is_contiguous = |view: &View| view.layout == Layout::contiguous(&map.shape);
    // The first part of a concatenation is contiguous as well, and its buffer continues beyond what the step writes.
    let is_whole = |view: &View| {
        let bytes = view.layout.elements() * view.dtype.size();
        is_contiguous(view) && number(view).is_some_and(|number| buffer_bytes[number] == bytes)
    };
    let mut pairs: Vec<(usize, usize)> = vec![];
    for output in map.outputs.iter().filter(|view| is_whole(view)) {
        let Some(taker) = number(output).filter(|number| !outputs.contains_key(number)) else { continue };
        let donor = map.inputs.iter().find_map(|input| {
            let donor = number(input)?;
            let reads = map.inputs.iter().filter(|other| other.location == input.location);
            let fits = input.dtype.size() == output.dtype.size()
                && lifetimes[donor].last == nth
                && lifetimes[donor].first < nth
                && !outputs.contains_key(&donor)
                && reads.into_iter().all(is_contiguous)
                && pairs.iter().all(|(_, used)| *used != donor);
            fits.then_some(donor)
        });
        pairs.extend(donor.map(|donor| (taker, donor)));
    }
    pairs
}

/// Allocates ranges of bytes, each from the smallest gap that holds it, and the first of equal ones.
#[derive(Default)]
struct Arena {
    /// The range of each buffer that has one: start and end.
    ranges: HashMap<usize, (usize, usize)>,
    /// The gaps between ranges: their ends by their starts, and their sizes and starts.
    gaps: BTreeMap<usize, usize>,
    by_size: BTreeSet<(usize, usize)>,
    /// The end of the last range.
    end: usize,
    peak: usize,
}

impl Arena {
    fn allocate(&mut self, number: usize, bytes: usize) -> usize {
        let size = bytes.max(1).next_multiple_of(Plan::ALIGNMENT);
        let gap = self.by_size.range((size, 0)..).next().map(|(_, start)| *start);
        let start = gap.unwrap_or(self.end);
        match gap {
            Some(start) => {
                let end = self.remove_gap(start);
                self.add_gap(start + size, end);
            }
            None => self.end += size,
        }
        self.ranges.insert(number, (start, start + size));
        self.peak = self.peak.max(self.end);
        start
    }

    /// Gives the range of one buffer to another.
    fn hand_over(&mut self, from: usize, to: usize) {
        if let Some(range) = self.ranges.remove(&from) {
            self.ranges.insert(to, range);
        }
    }

    /// Frees the range of a buffer, unless another one has taken it.
    fn free(&mut self, number: usize) {
        let Some((mut start, mut end)) = self.ranges.remove(&number) else { return };
        let before = self.gaps.range(..start).next_back().filter(|(_, gap_end)| **gap_end == start);
        if let Some((&before, _)) = before {
            self.remove_gap(before);
            start = before;
        }
        if self.gaps.contains_key(&end) {
            end = self.remove_gap(end);
        }
        if end == self.end { self.end = start } else { self.add_gap(start, end) }
    }

    fn add_gap(&mut self, start: usize, end: usize) {
        if start < end {
            self.gaps.insert(start, end);
            self.by_size.insert((end - start, start));
        }
    }

    /// Returns the end of the gap.
    fn remove_gap(&mut self, start: usize) -> usize {
        let end = self.gaps.remove(&start).expect("a gap starts here");
        self.by_size.remove(&(end - start, start));
        end
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// As [`Arena`], by looking at every range.
    #[derive(Default)]
    struct Reference(BTreeMap<usize, (usize, usize)>);

    impl Reference {
        fn allocate(&mut self, number: usize, bytes: usize) -> usize {
            let size = bytes.max(1).next_multiple_of(Plan::ALIGNMENT);
            let mut best: Option<(usize, usize)> = None;
            let mut free_from = 0;
            for (&start, &(end, _)) in &self.0 {
                let gap = start - free_from;
                if gap >= size && best.is_none_or(|(least, _)| gap < least) {
                    best = Some((gap, free_from));
                }
                free_from = end;
            }
            let start = best.map_or(free_from, |(_, start)| start);
            self.0.insert(start, (start + size, number));
            start
        }

        fn hand_over(&mut self, from: usize, to: usize) {
            if let Some((_, holder)) = self.0.values_mut().find(|(_, holder)| *holder == from) {
                *holder = to;
            }
        }

        fn free(&mut self, number: usize) {
            self.0.retain(|_, (_, holder)| *holder != number);
        }
    }

    proptest! {
        #[test]
        fn every_range_comes_from_the_smallest_gap(steps in prop::collection::vec((0..3_u8, 0..3000_usize, any::<prop::sample::Index>()), 1..200)) {
            let (mut arena, mut reference, mut live, mut peak) = (Arena::default(), Reference::default(), vec![], 0);
            for (number, (step, bytes, chosen)) in steps.into_iter().enumerate() {
                if step == 0 || live.is_empty() {
                    prop_assert_eq!(arena.allocate(number, bytes), reference.allocate(number, bytes));
                } else {
                    let old = live.swap_remove(chosen.index(live.len()));
                    if step == 1 {
                        arena.hand_over(old, number);
                        reference.hand_over(old, number);
                    }
                    arena.free(old);
                    reference.free(old);
                }
                live.extend(arena.ranges.contains_key(&number).then_some(number));
                peak = peak.max(reference.0.values().map(|(end, _)| *end).max().unwrap_or(0));
                prop_assert_eq!(arena.peak, peak);
            }
        }
    }
}
