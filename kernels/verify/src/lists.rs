//! Lists: their elements are drawn together, for functions of lists depend on order, repetition and outliers.

use crate::{
    earlier::Earlier,
    random::Random,
    scalars::{Mix, Strategy},
    values::ordinal,
};

/// The relation between the elements of a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Shape {
    /// Each element has a strategy of its own.
    Independent,
    /// All elements have one strategy.
    Uniform,
    /// One value.
    Constant,
    /// Ascending; NaN is first.
    Sorted,
    /// Descending.
    Reversed,
    /// Two or three values.
    FewValues,
    /// Small numbers, and one that is drawn from the whole mix.
    Outlier,
    /// Numbers, each followed by its negative.
    Cancelling,
    /// The elements of an earlier list, but for one.
    Copy,
}

const SHAPES: [Shape; 16] = {
    use Shape::{Cancelling, Constant, Copy, FewValues, Independent, Outlier, Reversed, Sorted, Uniform};
    [
        Independent,
        Independent,
        Uniform,
        Uniform,
        Uniform,
        Uniform,
        Constant,
        Sorted,
        Sorted,
        Reversed,
        FewValues,
        FewValues,
        Outlier,
        Outlier,
        Cancelling,
        Copy,
    ]
};

/// Appends a list of the mix to `list`, which is empty.
pub(crate) fn draw(mix: &Mix, length: usize, earlier: &Earlier, random: &mut Random, list: &mut Vec<u64>) {
    if length == 0 {
        return;
    }
    let shape = random.pick(&SHAPES);
    match shape {
        Shape::Independent => list.extend((0..length).map(|_| mix.any(earlier, random))),
        Shape::Uniform | Shape::Sorted | Shape::Reversed => same_strategy(mix, length, earlier, random, list),
        Shape::Constant => list.resize(length, mix.any(earlier, random)),
        Shape::FewValues => few_values(mix, length, earlier, random, list),
        Shape::Outlier => outlier(mix, length, earlier, random, list),
        Shape::Cancelling => cancelling(mix, length, earlier, random, list),
        Shape::Copy => copy(mix, length, earlier, random, list),
    }
    if matches!(shape, Shape::Sorted | Shape::Reversed) {
        list.sort_unstable_by_key(|&value| ordinal(mix.values().dtype(), value));
    }
    if shape == Shape::Reversed {
        list.reverse();
    }
}

/// Appends a list with a special value to `list`, which is empty: all elements, or one of them, or one of the specials that follow.
pub(crate) fn special(
    mix: &Mix,
    special: usize,
    length: usize,
    earlier: &Earlier,
    random: &mut Random,
    list: &mut Vec<u64>,
) {
    if length == 0 {
        return;
    }
    let specials = mix.specials().all();
    let shape = random.below(4);
    match shape {
        0 => list.resize(length, specials[special]),
        1 => list.extend((0..length).map(|element| specials[(special + element) % specials.len()])),
        2 => list.resize(length, specials[0]),
        _ => list.extend((0..length).map(|_| mix.draw(Strategy::SmallInteger, earlier, random))),
    }
    if shape >= 2 {
        list[random.index(length)] = specials[special];
    }
}

fn same_strategy(mix: &Mix, length: usize, earlier: &Earlier, random: &mut Random, list: &mut Vec<u64>) {
    let strategy = Strategy::draw(random, earlier);
    list.extend((0..length).map(|_| mix.draw(strategy, earlier, random)));
}

fn few_values(mix: &Mix, length: usize, earlier: &Earlier, random: &mut Random, list: &mut Vec<u64>) {
    let values = [mix.any(earlier, random), mix.any(earlier, random), mix.any(earlier, random)];
    let distinct = 2 + random.index(2);
    list.extend((0..length).map(|_| random.pick(&values[..distinct])));
}

fn outlier(mix: &Mix, length: usize, earlier: &Earlier, random: &mut Random, list: &mut Vec<u64>) {
    list.extend((0..length).map(|_| mix.draw(Strategy::SmallInteger, earlier, random)));
    let place = random.index(length);
    list[place] = mix.any(earlier, random);
}

fn cancelling(mix: &Mix, length: usize, earlier: &Earlier, random: &mut Random, list: &mut Vec<u64>) {
    while list.len() < length {
        let drawn = mix.any(earlier, random);
        list.push(drawn);
        list.push(mix.negative(drawn).unwrap_or(drawn));
    }
    list.truncate(length);
}

fn copy(mix: &Mix, length: usize, earlier: &Earlier, random: &mut Random, list: &mut Vec<u64>) {
    let source = earlier.choose(random);
    list.extend((0..length).map(|element| {
        let copied = source.and_then(|source| earlier.element(source, element));
        let converted = copied.and_then(|copied| mix.values().converted(copied));
        converted.unwrap_or_else(|| mix.any(earlier, random))
    }));
    let place = random.index(length);
    list[place] = mix.any(earlier, random);
}
