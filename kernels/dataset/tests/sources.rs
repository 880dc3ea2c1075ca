//! Properties of many kernels together: everything in them is read, and none that is held out resembles one for training.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    hash::{DefaultHasher, Hash, Hasher},
    thread,
};

use accelerd_dataset::{Category, Dialect, Plan, Ratios, Source, Split};
use accelerd_parser::{Columns, Context, Kind, Options, Terminal, Tree, lexer::lex, parse};

const SEEDS: [u64; 3] = [1, 7, 19];
/// Kernels of each seed.
const KERNELS: u64 = 2_000;
/// Kernels are near if the Jaccard similarity of their 5-grams is at least this.
const NEAR: f64 = 0.8;

/// A name in a kernel.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Use {
    Param,
    Stored,
    Loaded,
    Function,
}

fn sources() -> Vec<Source> {
    let of = |seed| {
        let ratios = Ratios { validation: 10, test: 10 };
        let plan = Plan::new(seed, &Category::ALL, &[Dialect::Warp, Dialect::Python], ratios).expect("a plan");
        (0..KERNELS).map(|index| plan.source(index).expect("a kernel")).collect::<Vec<_>>()
    };
    thread::scope(|scope| {
        let seeds = SEEDS.map(|seed| scope.spawn(move || of(seed)));
        seeds.into_iter().flat_map(|seed| seed.join().expect("no panic")).collect()
    })
}

/// The names of a module, except for attributes and keywords of calls.
fn names(source: &Source) -> Vec<(Use, String)> {
    let parsed = parse(source.text.as_bytes(), &Options::default());
    let columns = parsed.outcome.as_ref().expect("Python");
    let tree = Tree::new(parsed.text.as_bytes(), columns);
    let named = (0..columns.kinds.len()).filter_map(|row| name(columns, row));
    named.map(|(use_of, number)| (use_of, tree.name(number).into_owned())).collect()
}

fn name(columns: &Columns, row: usize) -> Option<(Use, u32)> {
    let aux = columns.aux[row];
    let kind = columns.kinds[row];
    if kind == Kind::Name {
        let is_stored = aux & 3 == Context::Store as u32;
        return Some((if is_stored { Use::Stored } else { Use::Loaded }, aux / 4));
    }
    let others = [(Kind::Arg, Use::Param), (Kind::FunctionDef, Use::Function)];
    others.into_iter().find(|(of, _)| *of == kind).map(|(_, use_of)| (use_of, aux))
}

fn assert_all_are_read(source: &Source) {
    let names = names(source);
    let is_loaded = |name: &str| names.iter().any(|(of, loaded)| *of == Use::Loaded && loaded == name);
    let is_written = |of| matches!(of, Use::Stored | Use::Param);
    let unread = names.iter().find(|(of, name)| is_written(*of) && name != "_" && !is_loaded(name));
    assert!(unread.is_none(), "{} is not read in\n{}", unread.expect("a name").1, source.text);
}

/// The 5-grams of a module, as they are written or with `name` in place of its own names and 0 in place of numbers.
fn shingles(source: &Source, is_normal: bool) -> BTreeSet<u64> {
    let given: BTreeSet<_> =
        names(source).into_iter().filter(|(of, _)| *of != Use::Loaded).map(|(_, name)| name).collect();
    let tokens = lex(&source.text).tokens;
    let texts = (0..tokens.kinds.len()).map(|nth| {
        let token = &source.text[tokens.starts[nth] as usize..tokens.ends[nth] as usize];
        if is_normal && tokens.kinds[nth] == Terminal::Number {
            "0"
        } else if is_normal && given.contains(token) {
            "name"
        } else {
            token
        }
    });
    texts.collect::<Vec<_>>().windows(5).map(hash).collect()
}

fn hash(shingle: &[&str]) -> u64 {
    let mut hasher = DefaultHasher::new();
    shingle.hash(&mut hasher);
    hasher.finish()
}

/// The greatest similarity of a kernel that is held out and one for training.
fn greatest_similarity(sources: &[Source], is_normal: bool) -> f64 {
    let sets: Vec<_> = sources.iter().map(|source| shingles(source, is_normal)).collect();
    let (train, held_out): (Vec<_>, Vec<_>) = (0..sources.len()).partition(|nth| sources[*nth].split == Split::Train);
    let mut places: HashMap<u64, Vec<usize>> = HashMap::new();
    for nth in train {
        for shingle in &sets[nth] {
            places.entry(*shingle).or_default().push(nth);
        }
    }
    let similarity = |nth: usize| {
        let mut common = vec![0_usize; sources.len()];
        for other in sets[nth].iter().filter_map(|shingle| places.get(shingle)).flatten() {
            common[*other] += 1;
        }
        let jaccard =
            |(other, common): (usize, usize)| common as f64 / (sets[nth].len() + sets[other].len() - common) as f64;
        common.into_iter().enumerate().map(jaccard).fold(0.0, f64::max)
    };
    held_out.into_iter().map(similarity).fold(0.0, f64::max)
}

#[test]
fn everything_is_read_and_no_kernel_that_is_held_out_is_near_one_for_training() {
    let sources = sources();
    sources.iter().for_each(assert_all_are_read);

    let mut structures = BTreeMap::new();
    let mut counts = BTreeMap::new();
    for source in &sources {
        *counts.entry(source.split).or_insert(0_u32) += 1;
        let split = *structures.entry(source.identity.structure).or_insert(source.split);
        assert_eq!(split, source.split, "a structure is in one split");
    }
    let share = |split| f64::from(counts[&split]) / sources.len() as f64;
    // Five standard deviations of a share of 6,000.
    assert!([Split::Validation, Split::Test].iter().all(|split| (share(*split) - 0.1).abs() < 0.02), "{counts:?}");

    let greatest = [false, true].map(|is_normal| greatest_similarity(&sources, is_normal));
    eprintln!("greatest similarities, as written and without names and numbers: {greatest:.3?}");
    assert!(greatest.iter().all(|similarity| *similarity < NEAR), "{greatest:?}");
}
