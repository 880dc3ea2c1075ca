//! Which kernel has which index.

use accelerd_lower::Dialect;
use accelerd_verify::Random;

use crate::{
    category::Category,
    choices::{Changed, Choices},
    families,
    identity::{Identity, Ratios, Split, identify},
    shingles::{Meter, Side},
};

/// Changes after which a kernel is given up.
const MAX_CHANGES: u32 = 200;
/// Kernels that are given up before an index has none.
const MAX_STARTS: u32 = 50;

/// A sequence of kernels, which has no end. Categories take turns; those of a dialect likewise.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    seed: u64,
    /// Categories and dialects of the kernels, in turn.
    turns: Vec<(Category, Dialect)>,
    ratios: Ratios,
}

/// A kernel in Python.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Source {
    /// Its index in the plan.
    pub index: u64,
    /// Its category.
    pub category: Category,
    /// Its language.
    pub dialect: Dialect,
    /// The name of its function: that of the category, and the index.
    pub name: String,
    /// The module.
    pub text: String,
    /// Its hashes.
    pub identity: Identity,
    /// Its part of the data set.
    pub split: Split,
}

/// Why there is no plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PlanError {
    /// There is no category, or one twice.
    Categories,
    /// There is no dialect, or one twice.
    Dialects,
    /// No dialect has kernels of the category.
    NoKernels(Category),
}

impl Plan {
    /// A plan. Equal arguments make equal plans.
    ///
    /// # Errors
    /// A list is empty or has an entry twice, or a category has kernels in none of the dialects.
    pub fn new(seed: u64, categories: &[Category], dialects: &[Dialect], ratios: Ratios) -> Result<Self, PlanError> {
        if !is_set(categories) {
            return Err(PlanError::Categories);
        }
        if !is_set(dialects) {
            return Err(PlanError::Dialects);
        }
        let with = |category: Category| dialects.iter().copied().filter(move |dialect| category.has(*dialect));
        if let Some(none) = categories.iter().find(|category| with(**category).next().is_none()) {
            return Err(PlanError::NoKernels(*none));
        }
        // As many turns for each category, whether it has one dialect or two.
        let nth = |turn: usize, category: Category| with(category).cycle().nth(turn).expect("it has one");
        let turns = (0..dialects.len()).flat_map(|turn| categories.iter().map(move |of| (*of, nth(turn, *of))));
        Ok(Self { seed, turns: turns.collect(), ratios })
    }

    /// The kernel of an index, or `None` if none is found on its side of the data set.
    pub fn source(&self, index: u64) -> Option<Source> {
        let turn = usize::try_from(index % self.turns.len() as u64).expect("less than a length");
        let (category, dialect) = self.turns[turn];
        let name = format!("{}_{index}", category.name());
        let mut random = Random::new(Random::key(self.seed, category as u64), index);
        let side = if random.below(100) < self.ratios.held_out() { Side::HeldOut } else { Side::Train };
        let write = |choices| {
            let frame = families::write(category, dialect, choices);
            (frame.module(&name), frame.choices)
        };
        let mut meter = Meter::new(side);
        let text = (0..MAX_STARTS).find_map(|_| search(&mut random, &mut meter, write))?;
        let identity = identify(&text).expect("what is written is Python");
        let split = match side {
            Side::Train => Split::Train,
            Side::HeldOut => self.ratios.held_out_split(&identity.structure),
        };
        Some(Source { index, category, dialect, name, text, identity, split })
    }
}

/// A kernel on a side of the data set: choices of a random one are changed as long as its distance does not increase.
fn search(random: &mut Random, meter: &mut Meter, write: impl Fn(Choices) -> (String, Choices)) -> Option<String> {
    let (mut text, mut choices) = write(Choices::new(random));
    let mut distance = meter.distance(&text);
    for _ in 0..MAX_CHANGES {
        if distance == 0.0 {
            return Some(text);
        }
        let changed = match choices.changed(random) {
            Changed::Same(same) => {
                choices = same;
                continue;
            }
            Changed::Other(other) => write(other),
        };
        let new_distance = if changed.0 == text { distance } else { meter.distance(&changed.0) };
        if new_distance <= distance {
            (text, choices) = changed;
            distance = new_distance;
        }
    }
    None
}

fn is_set<T: PartialEq>(entries: &[T]) -> bool {
    !entries.is_empty() && (1..entries.len()).all(|nth| !entries[..nth].contains(&entries[nth]))
}

#[cfg(test)]
mod tests {
    use super::*;

    const BOTH: [Dialect; 2] = [Dialect::Warp, Dialect::Python];
    const RATIOS: Ratios = Ratios { validation: 10, test: 10 };

    #[test]
    fn a_source_depends_on_the_plan_and_its_index_alone() {
        let plan = |seed| Plan::new(seed, &Category::ALL, &BOTH, RATIOS).expect("a plan");
        let later: Vec<_> = (10..20).map(|index| plan(1).source(index)).collect();
        assert_eq!((0..20).map(|index| plan(1).source(index)).skip(10).collect::<Vec<_>>(), later);
        assert_ne!((10..20).map(|index| plan(2).source(index)).collect::<Vec<_>>(), later);
    }

    #[test]
    fn categories_and_dialects_take_turns() {
        let plan = Plan::new(0, &[Category::Math, Category::Atomic], &BOTH, RATIOS).expect("a plan");
        let sources: Vec<_> = (0..5).map(|index| plan.source(index).expect("a kernel")).collect();
        let kinds: Vec<_> = sources.iter().map(|source| (source.category, source.dialect)).collect();
        let [math, atomic] = [Category::Math, Category::Atomic];
        let [warp, python] = BOTH;
        assert_eq!(kinds, [(math, warp), (atomic, warp), (math, python), (atomic, warp), (math, warp)]);
        assert_eq!(sources[2].name, "math_2");
    }

    #[test]
    fn a_plan_without_kernels_is_refused() {
        let plan = |categories: &[Category], dialects: &[Dialect]| {
            Plan::new(0, categories, dialects, RATIOS).expect_err("none")
        };
        assert_eq!(plan(&[], &BOTH), PlanError::Categories);
        assert_eq!(plan(&[Category::Math; 2], &BOTH), PlanError::Categories);
        assert_eq!(plan(&[Category::Math], &[]), PlanError::Dialects);
        let only = plan(&[Category::Math, Category::Stencil], &[Dialect::Python]);
        assert_eq!(only, PlanError::NoKernels(Category::Stencil));
    }
}
