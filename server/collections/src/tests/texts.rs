//! Collections of texts: their model, and the full-text index.

use super::*;

#[tokio::test]
async fn texts_are_embedded_by_the_collections_model() {
    let fixture = fixture(Settings::default());
    let spec = NewCollection { dimensions: 0, model: "builtin".into(), metric: Metric::Cosine, ..spec("c") };
    let collection = fixture.collections.create(spec).await.expect("the name is free");
    let texts = ["parse a date from a string", "open a tcp socket", "sort a list of numbers"];
    let points = NewPoints {
        ids: Ids::Numbers(vec![10, 20, 30]),
        vectors: Vectors::Texts(texts.map(str::to_owned).to_vec(), PromptChoice::Default),
        payloads: NewPayloads::Messages(vec![]),
    };
    collection.upsert(points, Context::default()).await.expect("they can be embedded");
    let query = Query::Vectors(Vectors::Texts(vec!["open a tcp socket".into()], PromptChoice::Default));
    assert_eq!(ids(&collection, SearchSpec { query, ..near([0.0; 4], 1) }).await, [20]);
}

#[tokio::test]
async fn acknowledged_points_are_found_by_their_text_at_once_and_after_a_restart() {
    let dir = TempDir::new().expect("a folder");
    let fixture = fixture(on_disk(&dir));
    let collection = fixture.collections.create(of_texts("c", true)).await.expect("the name is free");
    for id in 0..20 {
        let point = texts(&[id], &[&format!("number word{id}")]);
        collection.upsert(point, Context::default()).await.expect("it can be embedded");
        assert_eq!(ids(&collection, by_words(&id.to_string(), 1)).await, [id]);
    }
    drop(collection);
    fixture.collections.close().await;
    let again = open(&fixture.engine, on_disk(&dir)).get("c").expect("it is on disk");
    for id in 0..20 {
        assert_eq!(ids(&again, by_words(&id.to_string(), 1)).await, [id]);
    }
}

#[tokio::test]
async fn a_corrupt_text_index_fails_text_only_searches() {
    let fixture = fixture(Settings::default());
    let collection = fixture.collections.create(of_texts("c", false)).await.expect("the name is free");
    collection.upsert(texts(&[1, 2], &["open a file", "sort"]), Context::default()).await.expect("it can be embedded");
    collection.shared().generation().text_index().expect("it has a text field").corrupt();
    let failed = collection.search(by_words("open", 1), Context::default()).await;
    assert!(matches!(&failed, Err(CollectionError::TextIndex(_))), "{failed:?}");
    assert!(message(failed).contains("without `hybrid` the collection can be searched"));
    collection.upsert(texts(&[3], &["close a file"]), Context::default()).await.expect("it still takes points");
    let nearest = SearchSpec { hybrid: None, ..by_words("close a file", 1) };
    assert_eq!(ids(&collection, nearest).await, [3]);
}

/// Texts in scripts without spaces, by id.
const SENTENCES: [&str; 8] = [
    "我们在北京大学学习计算机科学",
    "東京都の天気は晴れです。データベースを開く",
    "학교에서 데이터베이스를 공부합니다",
    "ฉันเรียนภาษาไทยที่มหาวิทยาลัยทุกวัน",
    "function parseHTTPUrl2 解析网址 🐱🚀",
    "\u{e9}cole Ａｐｐｌｅ ﾌﾟﾛｸﾞﾗﾑ",
    "open a file",
    "🐱🚀",
];

async fn of_sentences(fixture: &Fixture, durable: bool) -> Arc<Collection> {
    let collection = fixture.collections.create(of_texts("c", durable)).await.expect("the name is free");
    let ids: Vec<u64> = (0..SENTENCES.len() as u64).collect();
    collection.upsert(texts(&ids, &SENTENCES), Context::default()).await.expect("it can be embedded");
    collection
}

#[tokio::test]
async fn words_that_stand_in_a_text_without_spaces_are_found_also_after_a_restart() {
    let dir = TempDir::new().expect("a folder");
    let fixture = fixture(on_disk(&dir));
    let cases = [
        (0, &["大学", "北京大学", "计算机", "学", "计算机科学"][..]),
        (1, &["東京", "京都の", "天気", "データ", "ベース", "晴", "データベースを開く"]),
        (2, &["학교", "데이터", "데이터베이스", "공부", "베이스를"]),
        (3, &["ภาษา", "ไทย", "ภาษาไทย", "มหาวิทยาลัย", "เรียน"]),
        (4, &["网址", "parse", "http", "解析", "parseHTTPUrl2", "解析网址"]),
        (5, &["e\u{301}cole", "\u{c9}COLE", "apple", "ＡＰＰＬＥ", "プログラム", "ログラ", "ﾛｸﾞ"]),
    ];
    let collection = of_sentences(&fixture, true).await;
    for (id, words) in cases {
        for word in words {
            assert_eq!(ids(&collection, by_words(word, 1)).await, [id], "{word}");
        }
    }
    drop(collection);
    fixture.collections.close().await;
    let again = open(&fixture.engine, on_disk(&dir)).get("c").expect("it is on disk");
    for (id, words) in cases {
        for word in words {
            assert_eq!(ids(&again, by_words(word, 1)).await, [id], "{word}");
        }
    }
}

#[tokio::test]
async fn words_that_stand_in_no_text_have_no_hits_and_quotes_are_no_part_of_words() {
    let fixture = fixture(Settings::default());
    let collection = of_sentences(&fixture, false).await;
    for nothing in ["🐱", "\u{fe0f}\u{200d}", "鳥類", "ดาวอังคาร้", "도서관", "\u{301}\u{301}"]
    {
        let found = ids(&collection, by_words(nothing, 9)).await;
        assert_eq!(found, [0_u64; 0], "{nothing}");
    }
    assert_eq!(ids(&collection, by_words("\"北京大学\"", 1)).await, [0]);
    assert_eq!(ids(&collection, by_words("「天気」", 1)).await, [1]);
    // The best has most of the query.
    assert_eq!(ids(&collection, by_words("北京大学的计算机", 1)).await, [0]);
}

#[tokio::test]
async fn a_hybrid_search_finds_words_without_spaces_and_long_runs_are_indexed_whole() {
    let fixture = fixture(Settings::default());
    let collection = of_sentences(&fixture, false).await;
    // 10,000 different characters.
    let run: String = (0x4e00..0x4e00 + 10_000).filter_map(char::from_u32).collect();
    collection.upsert(texts(&[100], &[&run]), Context::default()).await.expect("it can be embedded");
    let characters: Vec<char> = run.chars().collect();
    for at in [0, 4_999, 9_996] {
        let part: String = characters[at..at + 4].iter().collect();
        assert_eq!(ids(&collection, by_words(&part, 1)).await, [100], "{part}");
    }
    assert_eq!(ids(&collection, by_words(&run, 1)).await, [100]);
    let hybrid = Some(Hybrid { fusion: Fusion::ReciprocalRank, text_weight: 0.9 });
    assert_eq!(ids(&collection, SearchSpec { hybrid, ..by_words("天気", 1) }).await, [1]);
}

#[tokio::test]
async fn texts_of_a_search_by_words_are_limited() {
    let fixture = fixture(Settings::default());
    let collection = of_sentences(&fixture, false).await;
    let long = "ab ".repeat(400_000);
    let refused = message(collection.search(by_words(&long, 1), Context::default()).await);
    assert_eq!(refused, "texts.values[0]: expected at most 1048576 bytes, got 1200000");
}
