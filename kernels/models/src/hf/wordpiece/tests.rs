//! Compares ids with `tokenizers` over all of Unicode and all settings.

use std::collections::BTreeSet;

use proptest::{collection::vec, prelude::*, sample::select};
use serde_json::{Map, Value, json};
use tokenizers::{NormalizedString, Normalizer, Tokenizer, normalizers::BertNormalizer};

use super::*;

/// All settings of the normaliser.
fn normalizers() -> impl Iterator<Item = BertNormalizer> {
    let bit = |n: usize, bit: usize| n >> bit & 1 == 0;
    let accents = |n: usize| [None, Some(true), Some(false)][n / 8];
    (0..24).map(move |n| BertNormalizer::new(bit(n, 0), bit(n, 1), accents(n), bit(n, 2)))
}

/// The uncased and the cased setting.
fn usual() -> [BertNormalizer; 2] {
    [BertNormalizer::new(true, true, None, true), BertNormalizer::new(true, true, None, false)]
}

/// A tokeniser with these initial and continuing pieces, and some added tokens.
fn tokenizer(normalizer: BertNormalizer, pieces: impl IntoIterator<Item = String>, added: &[&str]) -> Tokenizer {
    let words: BTreeSet<_> = pieces.into_iter().collect();
    let named = ["[UNK]", "[CLS]"].map(str::to_owned).into_iter();
    let inner = words.iter().map(|piece| format!("##{piece}"));
    let vocabulary: Map<_, _> = named.chain(words.iter().cloned()).chain(inner).zip((0..).map(Value::from)).collect();
    let added = added.iter().map(|token| {
        json!({"id": vocabulary[*token], "content": token, "special": true, "normalized": false,
            "single_word": false, "lstrip": *token == "[CLS]", "rstrip": false})
    });
    let file = json!({
        "added_tokens": added.collect::<Vec<_>>(),
        "normalizer": normalizer,
        "pre_tokenizer": {"type": "BertPreTokenizer"},
        "model": {"type": "WordPiece", "unk_token": "[UNK]", "continuing_subword_prefix": "##",
            "max_input_chars_per_word": 12, "vocab": vocabulary},
    });
    Tokenizer::from_bytes(file.to_string()).expect("a tokeniser")
}

/// The characters that a text becomes.
fn normal(normalizer: BertNormalizer, text: &str) -> BTreeSet<String> {
    let mut string = NormalizedString::from(text);
    normalizer.normalize(&mut string).expect("any text can be");
    string.get().chars().map(String::from).collect()
}

fn theirs(tokenizer: &Tokenizer, text: &str) -> Vec<u32> {
    tokenizer.encode_fast(text, false).expect("it has [UNK]").get_ids().to_vec()
}

/// Characters in texts of a few, with blanks between some.
fn texts(characters: &[char]) -> impl Iterator<Item = String> {
    let spaced = |(index, c): (usize, &char)| if index % 5 == 3 { format!(" {c}") } else { c.to_string() };
    characters.chunks(16).map(move |some| some.iter().enumerate().map(spaced).collect())
}

/// Compares characters, each next to others; returns how many fall back to `tokenizers`.
fn compared(normalizer: BertNormalizer, characters: &[char]) -> usize {
    let mut left = 0;
    for block in characters.chunks(1 << 13) {
        let all: String = block.iter().collect();
        let tokenizer = tokenizer(normalizer, normal(normalizer, &all), &["[UNK]", "[CLS]"]);
        let own = WordPiece::of(&tokenizer).expect("it is of the family");
        let (sure, unsure): (Vec<_>, Vec<_>) =
            block.iter().copied().partition(|c| own.characters.part(*c) != Part::ContextDependent);
        left += unsure.len();
        for text in texts(&sure) {
            assert_eq!(own.encode(&text), Some(theirs(&tokenizer, &text)), "{text:?} by {normalizer:?}");
        }
        for text in texts(&unsure) {
            assert_eq!(own.encode(&text), None, "{text:?}");
        }
    }
    left
}

#[test]
fn every_character_of_unicode_becomes_what_it_becomes_there() {
    // Samples pages of planes 2 and 3 (ideographs), 4 to 13 (empty), 15 and 16 (private use).
    let is_tried = |c: char| matches!(c as u32 >> 16, 0 | 1 | 14) || (c as u32 >> 8).is_multiple_of(37);
    let all: Vec<_> = ('\0'..=char::MAX).filter(|c| is_tried(*c)).collect();
    let [plain, cased] = usual();
    let left = compared(plain, &all);
    assert!(left < 128, "{left} characters depend on others");
    assert_eq!(compared(cased, &all[..1 << 14]), 0, "nothing is sorted without decomposition");
}

#[test]
fn every_setting_of_the_normaliser_is_followed() {
    let some: Vec<_> = ('\0'..'\u{700}').chain('\u{2000}'..'\u{2070}').chain('\u{3000}'..'\u{3500}').collect();
    for normalizer in normalizers() {
        assert!(compared(normalizer, &some) < 20, "{normalizer:?}");
    }
}

/// Special characters: combining marks of several classes, spacing marks, blanks, controls, Hangul, ideographs.
const SPECIAL: [char; 40] = [
    'a',
    'b',
    'É',
    'é',
    'ß',
    'İ',
    'ﬁ',
    'Σ',
    'ς',
    '\u{301}',
    '\u{323}',
    '\u{334}',
    '\u{345}',
    '\u{302e}',
    '\u{302f}',
    '\u{1d165}',
    '\u{16d}',
    '\u{200d}',
    '\u{200b}',
    '\u{ad}',
    '\u{fffd}',
    '\0',
    '\t',
    '\n',
    ' ',
    '\u{a0}',
    '\u{3000}',
    '\u{2028}',
    '.',
    '[',
    ']',
    '«',
    '中',
    '\u{f900}',
    '\u{2f800}',
    '각',
    '\u{1100}',
    '\u{1161}',
    'ी',
    '\u{10ffff}',
];

fn text() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        8 => select(&SPECIAL[..]).prop_map(String::from),
        2 => any::<char>().prop_map(String::from),
        4 => "[a-cA-C]{1,15}",
        1 => select(&["[UNK]", "[CLS]", "[unk]", "##a", "[CLS", " [CLS] "][..]).prop_map(str::to_owned),
    ];
    vec(piece, 0..24).prop_map(|pieces| pieces.concat())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]

    #[test]
    fn texts_have_the_same_ids_or_are_left(text in text(), setting in 0..24_usize, pieces in vec("[a-cé中]{1,4}", 0..20)) {
        let normalizer = normalizers().nth(setting).expect("one of them");
        let pieces = pieces.into_iter().chain(normal(normalizer, &text));
        let tokenizer = tokenizer(normalizer, pieces, &["[UNK]", "[CLS]"]);
        let own = WordPiece::of(&tokenizer).expect("it is of the family");
        if let Some(ids) = own.encode(&text) {
            prop_assert_eq!(ids, theirs(&tokenizer, &text));
        }
    }
}

#[test]
fn plain_texts_are_not_left() {
    let pieces = ["par", "se", "r", "s", "(", ")", ".", "nai", "ve"].map(str::to_owned);
    let tokenizer = tokenizer(usual()[0], pieces, &["[UNK]"]);
    let own = WordPiece::of(&tokenizer).expect("it is of the family");
    for text in ["", "parse(rs).", "Par  parser naïve", "unknown [CLS] words", "thirteen chars thirteenchars se"] {
        assert_eq!(own.encode(text), Some(theirs(&tokenizer, text)), "{text:?}");
    }
    assert_eq!(own.encode("par [UNK] se"), None, "an added token");
}

#[test]
fn tokenisers_of_other_kinds_are_left() {
    let of = |change: fn(&mut Value)| {
        let tokenizer = tokenizer(usual()[0], ["a".to_owned()], &["[UNK]"]);
        let mut file = serde_json::to_value(&tokenizer).expect("JSON");
        change(&mut file);
        WordPiece::of(&Tokenizer::from_bytes(file.to_string()).expect("a tokeniser")).is_some()
    };
    assert!(of(|_| {}));
    assert!(!of(|file| file["normalizer"] = json!({"type": "Lowercase"})));
    assert!(!of(|file| file["normalizer"] = Value::Null));
    assert!(!of(|file| file["pre_tokenizer"] = json!({"type": "Whitespace"})));
    assert!(!of(|file| file["added_tokens"][0]["normalized"] = true.into()), "it is found in normalised text");
    assert!(!of(|file| file["model"]["unk_token"] = "nowhere".into()), "an unknown word is an error");
    let twice = |file: &mut Value| {
        let text = json!({"Sequence": {"id": "A", "type_id": 0}});
        let pair = json!([text, {"Sequence": {"id": "B", "type_id": 0}}]);
        file["post_processor"] =
            json!({"type": "TemplateProcessing", "single": [text, text], "pair": pair, "special_tokens": {}});
    };
    assert!(!of(twice), "its post-processor changes the pieces");
}
