//! Benchmarks tokenisation on one thread, one text per call, against `tokenizers` with the same tokenizer.json.
//!
//!     cargo bench -p accelerd-models --bench tokenize_bench -- FOLDER
#![allow(clippy::print_stdout, reason = "a benchmark")]

use std::{env, hint::black_box, path::PathBuf, time::Instant};

use accelerd_models::hf::TextTokenizer;
use tokenizers::Tokenizer;

const ROUNDS: usize = 9;
const TEXTS: usize = 2000;

fn main() -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
    let folder =
        PathBuf::from(env::args().skip(1).find(|argument| argument != "--bench").ok_or("expected a model's folder")?);
    let ours = TextTokenizer::read_static(&folder, usize::MAX)?.ok_or("it has no tokenizer.json")?;
    let mut theirs = Tokenizer::from_file(folder.join("tokenizer.json"))?;
    theirs.with_padding(None).with_truncation(None)?;
    println!("text | bytes | ids | ours, us | tokenizers, us | times");
    for (name, words) in [("12 words", 12), ("100 words", 100), ("12 accented words", 0)] {
        let texts: Vec<_> = (0..TEXTS).map(|seed| text(words, seed)).collect();
        let ids = |text: &String| ours.pieces(text, false).map(|pieces| pieces.ids);
        for text in &texts {
            let expected = theirs.encode_fast(text.as_str(), false)?;
            assert_eq!(ids(text)?, expected.get_ids(), "{text:?}");
        }
        let bytes = texts[0].len();
        let tokens = ids(&texts[0])?.len();
        let own = median(|| texts.iter().for_each(|text| drop(black_box(ids(text)))));
        let baseline =
            median(|| texts.iter().for_each(|text| drop(black_box(theirs.encode_fast(text.as_str(), false)))));
        println!("{name} | {bytes} | {tokens} | {own:.2} | {baseline:.2} | {:.1}", baseline / own);
    }
    Ok(())
}

/// Median microseconds per text.
fn median(run: impl Fn()) -> f64 {
    let mut times: Vec<_> = (0..ROUNDS)
        .map(|_| {
            let start = Instant::now();
            run();
            start.elapsed().as_secs_f64() * 1e6 / TEXTS as f64
        })
        .collect();
    times.sort_unstable_by(f64::total_cmp);
    times[ROUNDS / 2]
}

fn text(words: usize, seed: usize) -> String {
    const PLAIN: [&str; 12] = [
        "parse",
        "socket",
        "Returns",
        "buffer",
        "self.open",
        "JSON",
        "thread",
        "import",
        "configuration",
        "async",
        "tokenization",
        "matrix",
    ];
    const ACCENTED: [&str; 6] = ["Größe", "naïve", "über", "façade", "東京", "coöperate"];
    let (count, from): (_, &[&str]) = if words == 0 { (12, &ACCENTED) } else { (words, &PLAIN) };
    let word = |index: usize| from[(index * 7 + seed * 5 + index * index * seed) % from.len()];
    (0..count).map(word).collect::<Vec<_>>().join(" ")
}
