//! Places buffers in the arena by their lifetimes: those that are never alive at once share bytes.

use std::collections::HashMap;

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
        let reusable = reusable(step, nth, &lifetimes, &outputs);
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
fn reusable(step: &Step, nth: usize, lifetimes: &[Lifetime], outputs: &HashMap<usize, usize>) -> Vec<(usize, usize)> {
    let Step::Map(map) = step else { return vec![] };
    let whole = |view: &View| view.layout == Layout::contiguous(&map.shape);
    let mut pairs: Vec<(usize, usize)> = vec![];
    for output in map.outputs.iter().filter(|view| whole(view)) {
        let Some(taker) = number(output).filter(|number| !outputs.contains_key(number)) else { continue };
        let donor = map.inputs.iter().find_map(|input| {
            let donor = number(input)?;
            let reads = map.inputs.iter().filter(|other| other.location == input.location);
            let fits = input.dtype.size() == output.dtype.size()
                && lifetimes[donor].last == nth
                && lifetimes[donor].first < nth
                && !outputs.contains_key(&donor)
                && reads.into_iter().all(whole)
                && pairs.iter().all(|(_, used)| *used != donor);
            fits.then_some(donor)
        });
        pairs.extend(donor.map(|donor| (taker, donor)));
    }
    pairs
}

/// Allocates ranges of bytes, each from the smallest gap that holds it.
#[derive(Default)]
struct Arena {
    /// The ranges in use by their start: their end and the buffer that holds them.
    used: std::collections::BTreeMap<usize, (usize, usize)>,
    peak: usize,
}

impl Arena {
    fn allocate(&mut self, number: usize, bytes: usize) -> usize {
        let size = bytes.max(1).next_multiple_of(Plan::ALIGNMENT);
        let mut best: Option<(usize, usize)> = None;
        let mut free_from = 0;
        for (&start, &(end, _)) in &self.used {
            let gap = start - free_from;
            if gap >= size && best.is_none_or(|(least, _)| gap < least) {
                best = Some((gap, free_from));
            }
            free_from = end;
        }
        let start = best.map_or(free_from, |(_, start)| start);
        self.used.insert(start, (start + size, number));
        self.peak = self.peak.max(start + size);
        start
    }

    /// Gives the range of one buffer to another.
    fn hand_over(&mut self, from: usize, to: usize) {
        if let Some((_, holder)) = self.used.values_mut().find(|(_, holder)| *holder == from) {
            *holder = to;
        }
    }

    /// Frees the range of a buffer, unless another one has taken it.
    fn free(&mut self, number: usize) {
        self.used.retain(|_, (_, holder)| *holder != number);
    }
}
