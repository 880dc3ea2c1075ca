//! Every kernel is in the language, and most have an example on which they run.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;

use accelerd_dataset::{Category, Dialect, Plan, Ratios, Source};
use accelerd_translate::{Request, Targets, Translation, translate};

/// Kernels of each category and dialect.
const KERNELS: u64 = 60;

fn sources(category: Category, dialect: Dialect) -> impl Iterator<Item = Source> {
    let ratios = Ratios { validation: 10, test: 10 };
    let plan = Plan::new(7, &[category], &[dialect], ratios).expect("the dialect has the category");
    (0..KERNELS).map(move |index| plan.source(index).expect("a kernel"))
}

fn kinds() -> impl Iterator<Item = (Category, Dialect)> {
    let dialects = [Dialect::Warp, Dialect::Python];
    let all = Category::ALL.into_iter().flat_map(move |category| dialects.map(|dialect| (category, dialect)));
    all.filter(|(category, dialect)| category.has(*dialect))
}

fn translation(source: &Source) -> Translation {
    let request = Request {
        source: source.text.clone(),
        dialect: Some(source.dialect),
        targets: Targets { cuda: true, wasm: false, device: false },
        max_bytes: 1 << 20,
        ..Request::default()
    };
    translate(&request, || ControlFlow::Continue(())).expect("small files")
}

#[test]
fn every_kernel_is_in_the_language_and_most_have_an_example() {
    let mut without_example = BTreeMap::new();
    for (category, dialect) in kinds() {
        for source in sources(category, dialect) {
            let Translation { kernels, diagnostics } = translation(&source);
            let wrong: Vec<_> = diagnostics.iter().filter(|diagnostic| diagnostic.code != "no_example").collect();
            assert!(wrong.is_empty(), "{wrong:?} in\n{}", source.text);
            assert_eq!(
                kernels.iter().map(|kernel| &kernel.name).collect::<Vec<_>>(),
                [&source.name],
                "{}",
                source.text
            );
            *without_example.entry((category, dialect as u8)).or_insert(0) += diagnostics.len() as u64;
        }
    }
    eprintln!("without example, of {KERNELS}: {without_example:?}");
    assert!(without_example.values().all(|count| count * 2 < KERNELS), "{without_example:?}");
}

#[test]
fn few_kernels_are_equal() {
    for (category, dialect) in kinds() {
        let ids: BTreeSet<_> = sources(category, dialect).map(|source| source.identity.id).collect();
        assert!(ids.len() as u64 * 10 >= KERNELS * 9, "{} of {KERNELS} kernels differ in {category:?}", ids.len());
    }
}
