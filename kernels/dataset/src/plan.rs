//! Which kernel has which index.

use accelerd_lower::Dialect;
use accelerd_verify::Random;

use crate::{category::Category, families, frame::Frame};

/// A sequence of kernels, which has no end. Categories take turns; those of a dialect likewise.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    seed: u64,
    /// Categories and dialects of the kernels, in turn.
    turns: Vec<(Category, Dialect)>,
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
    pub fn new(seed: u64, categories: &[Category], dialects: &[Dialect]) -> Result<Self, PlanError> {
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
        Ok(Self { seed, turns: turns.collect() })
    }

    /// The kernel of an index.
    pub fn source(&self, index: u64) -> Source {
        let turn = usize::try_from(index % self.turns.len() as u64).expect("less than a length");
        let (category, dialect) = self.turns[turn];
        let name = format!("{}_{index}", category.name());
        let random = Random::new(Random::key(self.seed, category as u64), index);
        let text = families::write(category, Frame::new(dialect, random)).module(&name);
        Source { index, category, dialect, name, text }
    }
}

fn is_set<T: PartialEq>(entries: &[T]) -> bool {
    !entries.is_empty() && (1..entries.len()).all(|nth| !entries[..nth].contains(&entries[nth]))
}

#[cfg(test)]
mod tests {
    use super::*;

    const BOTH: [Dialect; 2] = [Dialect::Warp, Dialect::Python];

    #[test]
    fn a_source_depends_on_seed_and_index_alone() {
        let plan = |seed| Plan::new(seed, &Category::ALL, &BOTH).expect("a plan");
        let later: Vec<_> = (10..20).map(|index| plan(1).source(index)).collect();
        assert_eq!((0..20).map(|index| plan(1).source(index)).skip(10).collect::<Vec<_>>(), later);
        assert_ne!((10..20).map(|index| plan(2).source(index)).collect::<Vec<_>>(), later);
    }

    #[test]
    fn categories_and_dialects_take_turns() {
        let plan = Plan::new(0, &[Category::Math, Category::Atomic], &BOTH).expect("a plan");
        let kinds: Vec<_> =
            (0..5).map(|index| plan.source(index)).map(|source| (source.category, source.dialect)).collect();
        let [math, atomic] = [Category::Math, Category::Atomic];
        let [warp, python] = BOTH;
        assert_eq!(kinds, [(math, warp), (atomic, warp), (math, python), (atomic, warp), (math, warp)]);
        assert_eq!(plan.source(2).name, "math_2");
    }

    #[test]
    fn a_plan_without_kernels_is_refused() {
        let plan =
            |categories: &[Category], dialects: &[Dialect]| Plan::new(0, categories, dialects).expect_err("none");
        assert_eq!(plan(&[], &BOTH), PlanError::Categories);
        assert_eq!(plan(&[Category::Math; 2], &BOTH), PlanError::Categories);
        assert_eq!(plan(&[Category::Math], &[]), PlanError::Dialects);
        let only = plan(&[Category::Math, Category::Stencil], &[Dialect::Python]);
        assert_eq!(only, PlanError::NoKernels(Category::Stencil));
    }
}
