//! Changes that make a case simpler.

use std::{collections::BTreeMap, ops::Range};

use accelerd_ir::{Dtype, scalar::Literal};

use crate::{
    input::Input,
    proposals::{as_integer, points, related, simpler, simplest},
    simplicity::{Complexity, complexity_of},
    values::Values,
};

/// Elements that get new values, ascending.
pub(crate) type Edit = Vec<(usize, u64)>;

/// Edits of a case. More are not tried before one of them leads to a simpler case.
const MAX_EDITS: usize = 1 << 13;

/// New values in all edits of a case; in addition to some for each element.
const MAX_CHANGES: usize = 1 << 20;

/// Parts of a list that are made simple one by one.
const MAX_PARTS: usize = 64;

/// Elements that are changed one by one.
const MAX_SINGLES: usize = 64;

/// Elements that are changed in pairs.
const MAX_PAIRED: usize = 6;

/// The most elements of a case that are replaced by integers with the same remainder, or by quotients.
const MAX_RELATED: usize = 8;

/// Elements whose values others take.
const MAX_SOURCES: usize = 8;

/// The elements of a case: those of all inputs, one after the other.
#[derive(Clone, Debug)]
pub(crate) struct Elements {
    sets: Vec<Values>,
    /// The simplest value of each input.
    simplest: Vec<u64>,
    spans: Vec<Range<usize>>,
    /// The input of each element.
    owners: Vec<usize>,
}

impl Elements {
    pub(crate) fn new(inputs: &[Input]) -> Self {
        let mut elements = Self {
            sets: inputs.iter().map(|input| input.values().clone()).collect(),
            simplest: inputs.iter().map(|input| simplest(input.values())).collect(),
            spans: Vec::new(),
            owners: Vec::new(),
        };
        for (position, input) in inputs.iter().enumerate() {
            let start = elements.owners.len();
            elements.owners.resize(start + input.elements(), position);
            elements.spans.push(start..elements.owners.len());
        }
        elements
    }

    /// The inputs: their values, and where their elements are.
    pub(crate) fn inputs(&self) -> impl Iterator<Item = (&Values, Range<usize>)> {
        self.sets.iter().zip(self.spans.iter().cloned())
    }

    pub(crate) fn set(&self, element: usize) -> &Values {
        &self.sets[self.owners[element]]
    }

    fn dtype(&self, element: usize) -> Dtype {
        self.set(element).dtype()
    }

    fn simplest(&self, element: usize) -> u64 {
        self.simplest[self.owners[element]]
    }

    fn least(&self, element: usize) -> Complexity {
        Complexity::new(self.dtype(element), self.simplest(element))
    }

    /// The complexity of a case; see [`complexity_of`].
    pub(crate) fn complexity(&self, case: &[u64]) -> (usize, Vec<Complexity>, Vec<Complexity>) {
        complexity_of(case.iter().enumerate().map(|(element, &value)| (self.dtype(element), value)))
    }

    /// Returns true if an edit makes a case simpler. That depends on the elements that it changes alone.
    fn is_simpler(&self, case: &[u64], edit: &Edit) -> bool {
        let old = edit.iter().map(|&(element, _)| (self.dtype(element), case[element]));
        let new = edit.iter().map(|&(element, value)| (self.dtype(element), value));
        complexity_of(new) < complexity_of(old)
    }
}

/// The edits that make a case simpler, in the order in which they should be tried. Some may be equal.
pub(crate) fn edits(elements: &Elements, case: &[u64]) -> Vec<Edit> {
    let mut planner = Planner { elements, case, room: MAX_CHANGES + 16 * case.len(), planned: Vec::new() };
    planner.parts();
    planner.integers();
    planner.values();
    planner.others();
    planner.pairs();
    planner.related();
    planner.planned
}

struct Planner<'a> {
    elements: &'a Elements,
    case: &'a [u64],
    /// New values that more edits may have.
    room: usize,
    planned: Vec<Edit>,
}

impl Planner<'_> {
    /// Plans an edit, less the elements that keep their values. An element without a new value makes it void.
    fn add(&mut self, edit: impl IntoIterator<Item = (usize, Option<u64>)>) {
        if self.planned.len() >= MAX_EDITS || self.room == 0 {
            return;
        }
        let mut changed = Edit::new();
        for (element, value) in edit {
            match value {
                Some(value) if value != self.case[element] => changed.push((element, value)),
                Some(_) => {}
                None => return,
            }
        }
        changed.sort_unstable();
        if self.elements.is_simpler(self.case, &changed) {
            self.room = self.room.saturating_sub(changed.len());
            self.planned.push(changed);
        }
    }

    /// Gives all elements, those of each input, and ever smaller parts of them the simplest value.
    fn parts(&mut self) {
        self.simplest(&self.complex(0..self.case.len()));
        for span in &self.elements.spans {
            let complex = self.complex(span.clone());
            let mut size = complex.len();
            while size > complex.len() / MAX_PARTS {
                complex.chunks(size).for_each(|part| self.simplest(part));
                size /= 2;
            }
        }
    }

    fn simplest(&mut self, part: &[usize]) {
        let elements = self.elements;
        self.add(part.iter().map(|&element| (element, Some(elements.simplest(element)))));
    }

    /// Gives all integers the other sign, no sign, and half of their values.
    fn integers(&mut self) {
        let maps: [fn(i128) -> i128; 3] = [|integer| -integer, i128::abs, |integer| integer / 2];
        for map in maps {
            let mapped = self.mapped(map);
            self.add(mapped);
        }
    }

    /// All integers mapped, and clamped to their sets; others keep their values.
    fn mapped(&self, map: fn(i128) -> i128) -> Vec<(usize, Option<u64>)> {
        let new = |element: usize| {
            let set = self.elements.set(element);
            as_integer(set.dtype(), self.case[element]).map_or(Some(self.case[element]), |integer| {
                let mapped = map(integer);
                set.integer(mapped).or_else(|| (!set.dtype().is_float()).then(|| set.clamped(mapped)))
            })
        };
        (0..self.case.len()).map(|element| (element, new(element))).collect()
    }

    /// Elements of a range for which there is a simpler value.
    fn complex(&self, range: Range<usize>) -> Vec<usize> {
        range.filter(|&element| self.complexity(element) > self.elements.least(element)).collect()
    }

    /// The simplest of these elements, in their order.
    fn first_complex(&self, limit: usize) -> Vec<usize> {
        let mut complex = self.complex(0..self.case.len());
        complex.sort_by_key(|&element| self.complexity(element));
        complex.truncate(limit);
        complex.sort_unstable();
        complex
    }

    fn complexity(&self, element: usize) -> Complexity {
        Complexity::new(self.elements.dtype(element), self.case[element])
    }

    /// Gives each element, and all elements with the same value, simpler values. The elements take turns.
    fn values(&mut self) {
        let mut groups: BTreeMap<(Dtype, u64), Vec<usize>> = BTreeMap::new();
        for element in 0..self.case.len() {
            groups.entry((self.elements.dtype(element), self.case[element])).or_default().push(element);
        }
        let singles = self.first_complex(MAX_SINGLES).into_iter().map(|element| vec![element]);
        let groups = groups.into_values().filter(|group| group.len() > 1).take(MAX_SINGLES);
        let turns: Vec<(Vec<usize>, Vec<u64>)> = singles
            .chain(groups)
            .map(|group| {
                let values = simpler(self.elements.set(group[0]), self.case[group[0]]);
                (group, values)
            })
            .collect();
        let longest = turns.iter().map(|(_, values)| values.len()).max().unwrap_or(0);
        for turn in 0..longest {
            for (group, values) in &turns {
                if let Some(&value) = values.get(turn) {
                    self.add(group.iter().map(|&element| (element, self.elements.set(element).checked(value))));
                }
            }
        }
    }

    /// Gives elements the values of others.
    fn others(&mut self) {
        let sources = self.first_complex(MAX_SOURCES);
        for element in self.first_complex(MAX_SINGLES) {
            let set = self.elements.set(element);
            for &source in &sources {
                let value = Literal::from_bits(self.elements.dtype(source), self.case[source]).cast(set.dtype()).bits();
                self.add([(element, set.checked(value))]);
            }
        }
    }

    /// Replaces elements by simpler integers that have the same remainder, and by quotients.
    fn related(&mut self) {
        for element in self.first_complex(MAX_RELATED) {
            for value in related(self.elements.set(element), self.case[element]) {
                self.add([(element, Some(value))]);
            }
        }
    }

    /// Swaps elements, also with their neighbours and the last of their list, and moves two towards 0, or one at the cost of the other.
    fn pairs(&mut self) {
        let paired = self.first_complex(MAX_PAIRED);
        for &first in &paired {
            let last = self.elements.spans[self.elements.owners[first]].end - 1;
            let neighbours = [first.wrapping_sub(1), first + 1, last];
            for second in paired.iter().copied().chain(neighbours) {
                if second < self.case.len() && second != first {
                    self.swap(first, second);
                    self.shift(first, second);
                }
            }
        }
        self.shift_all(&paired);
    }

    fn swap(&mut self, first: usize, second: usize) {
        let [for_second, for_first] = [(first, second), (second, first)].map(|(from, to)| {
            let same = self.elements.dtype(from) == self.elements.dtype(to);
            same.then_some(self.case[from]).and_then(|value| self.elements.set(to).checked(value))
        });
        self.add([(first, for_first), (second, for_second)]);
    }

    /// Keeps the sum, or the difference, of two integers.
    fn shift(&mut self, first: usize, second: usize) {
        let (Some(one), Some(other)) = (self.integer(first), self.integer(second)) else { return };
        for point in [1, -1, 2, -2].into_iter().chain(points(one, 0)) {
            for moved in [other + (one - point), other - (one - point)] {
                self.add([(first, self.at(first, point)), (second, self.at(second, moved))]);
            }
        }
    }

    /// Takes the same from all integers, so that their differences stay.
    fn shift_all(&mut self, shifted: &[usize]) {
        if shifted.len() < 3 {
            return;
        }
        let integers: Option<Vec<i128>> = shifted.iter().map(|&element| self.integer(element)).collect();
        let Some(integers) = integers else { return };
        for target in &integers {
            for point in points(*target, 0) {
                let moved =
                    |(&element, integer): (&usize, &i128)| (element, self.at(element, integer - (target - point)));
                let edit: Vec<_> = shifted.iter().zip(&integers).map(moved).collect();
                self.add(edit);
            }
        }
    }

    fn integer(&self, element: usize) -> Option<i128> {
        as_integer(self.elements.dtype(element), self.case[element])
    }

    fn at(&self, element: usize, integer: i128) -> Option<u64> {
        self.elements.set(element).integer(integer)
    }
}
