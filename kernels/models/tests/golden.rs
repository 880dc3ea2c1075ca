//! Compares the tokeniser with the trainer's, and tests the built-in model.

use accelerd_models::{Model, Sequences};
use proptest::prelude::*;

fn tokens(text: &str) -> Vec<u32> {
    let mut ids = vec![];
    Model::builtin().token_ids(text, &mut ids).expect("it takes texts");
    ids
}

#[test]
fn tokens_are_those_of_the_trainer() {
    let cases: serde_json::Value = serde_json::from_str(include_str!("golden/tokens.json")).expect("a JSON file");
    let cases = cases.as_array().expect("a list of cases");
    assert!(cases.len() > 300);
    for case in cases {
        let text = case["text"].as_str().expect("a text");
        let ids: Vec<_> = case["ids"].as_array().expect("ids").iter().map(|id| id.as_u64().expect("an id")).collect();
        assert_eq!(tokens(text).into_iter().map(u64::from).collect::<Vec<_>>(), ids, "{text:?}");
    }
}

#[test]
fn the_builtin_model_has_its_properties() {
    let model = Model::builtin();
    assert_eq!(model.name(), "builtin");
    assert_eq!(model.offered_dimensions(), [256, 128, 64]);
    assert_eq!(model.table().expect("a table").dim, 256);
    assert_eq!(model.vocabulary_size() * 256, model.table().expect("a table").values.len());
    assert_eq!(model.sha256().len(), 64);
    assert!(std::sync::Arc::ptr_eq(&model, &Model::builtin()));
}

#[test]
fn tokens_are_appended() {
    let mut ids = vec![7];
    Model::builtin().token_ids("read", &mut ids).expect("it takes texts");
    assert_eq!(ids, [&[7], &tokens("read")[..]].concat());
}

#[test]
fn tokens_have_the_bytes_that_they_come_from() {
    let text = "x = naïveStraße2(HTTPServer)";
    let mut out = Sequences::default();
    Model::builtin().token_spans(text, &mut out).expect("it takes texts");
    assert_eq!((&out.ids, &out.offsets), (&tokens(text), &vec![0, u32::try_from(out.ids.len()).expect("few")]));
    let words: Vec<_> = out.bytes.iter().map(|range| &text[range.clone()]).collect();
    assert_eq!(words.concat(), "xnaïveStraße2HTTPServer", "tokens cover the words");
    assert!(words.contains(&"2") && words.contains(&"x"), "{words:?}");
}

#[test]
fn identifiers_have_the_tokens_of_their_words() {
    let words = tokens("parse http urls 2");
    for identifier in ["parseHTTPUrls2", "parse_http_urls_2", "PARSE-HTTP-URLS.2", "ParseHttpURLs2"] {
        assert_eq!(tokens(identifier), words, "{identifier}");
    }
}

#[test]
fn a_megabyte_without_a_word_boundary_has_no_tokens() {
    for unit in ["a", "é", "\u{301}", "中", "A1"] {
        assert!(tokens(&unit.repeat(1 << 20)).is_empty(), "{unit:?}");
    }
}

proptest! {
    #[test]
    fn any_text_gives_known_ids_and_the_same_again(text in any::<String>()) {
        let ids = tokens(&text);
        let rows = Model::builtin().vocabulary_size();
        prop_assert!(ids.iter().all(|&id| (id as usize) < rows));
        prop_assert_eq!(&ids, &tokens(&text));
        let mut spans = Sequences::default();
        Model::builtin().token_spans(&text, &mut spans).expect("it takes texts");
        prop_assert_eq!(spans.ids, ids);
        prop_assert!(spans.bytes.iter().all(|range| text.get(range.clone()).is_some_and(|part| !part.is_empty())));
    }

    #[test]
    fn texts_joined_by_a_separator_give_the_tokens_of_both(a in "[a-zA-Z0-9_éßÀ中 ]{0,200}", b in any::<String>()) {
        let joined = tokens(&format!("{a}\n{b}"));
        prop_assert_eq!(joined, [tokens(&a), tokens(&b)].concat());
    }

    #[test]
    fn ascii_case_of_a_whole_word_changes_nothing(word in "[a-z]{2,40}") {
        prop_assert_eq!(tokens(&word), tokens(&word.to_ascii_uppercase()));
    }
}
