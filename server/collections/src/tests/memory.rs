//! Memory of collections: limits, and the eviction of indexes and of copies.

use super::*;

#[tokio::test]
async fn memory_is_limited_and_released() {
    let fixture = fixture(Settings { memory_limit: 64 << 20, ..Settings::default() });
    let wide = NewCollection { dimensions: 8192, ..spec("c") };
    let collection = fixture.collections.create(wide).await.expect("the name is free");
    let points = |rows: usize| NewPoints {
        ids: Ids::Numbers((0..rows as u64).collect()),
        vectors: Vectors::Rows(Matrix::from_vec(rows, 8192, vec![1.0; rows * 8192]).expect("whole rows")),
        payloads: NewPayloads::Messages(vec![]),
    };
    let refused = collection.upsert(points(2049), Context::default()).await.expect_err("64 MiB are not enough");
    assert!(matches!(&refused, CollectionError::MemoryLimit(full) if full.limit == 64 << 20), "{refused}");
    collection.upsert(points(1024), Context::default()).await.expect("32 MiB are enough");
    assert!(collection.upsert(points(1024), Context::default()).await.is_err());
    drop(collection);
    fixture.collections.delete("c").await.expect("it is there");
    let again = NewCollection { dimensions: 8192, ..spec("d") };
    let collection = fixture.collections.create(again).await.expect("the name is free");
    collection.upsert(points(1024), Context::default()).await.expect("the memory was given back");
}

#[tokio::test]
async fn indexes_are_evicted_largest_first_and_built_again() {
    let ledger = Ledger::new();
    let fixture = fixture(Settings { ledger: Arc::clone(&ledger), ..Settings::default() });
    for (name, count) in [("small", 3000), ("large", 9000)] {
        let collection = fixture.collections.create(spec(name)).await.expect("the name is free");
        upsert(&collection, &(0..count).collect::<Vec<_>>(), 1.0).await;
        collection.scroll(first_page(10)).await.expect("a page");
    }
    let held = || {
        let kinds = ledger.snapshot().remove(0).kinds;
        kinds.iter().find(|kind| kind.kind == ledger::Kind::Indexes).map_or(0, |kind| kind.held)
    };
    let all = held();
    assert!(all >= 12_000 * 4, "{all}");
    let evicted = fixture.collections.evict_indexes(1);
    assert!(evicted >= 9000 * 4 && held() == all - evicted, "the order of the large collection");
    assert_eq!(fixture.collections.evict_indexes(u64::MAX) + evicted, all);
    assert_eq!(held(), 0);
    let large = fixture.collections.get("large").expect("it is there");
    let page = large.scroll(first_page(3)).await.expect("a page");
    assert_eq!((page.ids, held() > 0), (Ids::Numbers(vec![0, 1, 2]), true));
}

#[tokio::test]
async fn device_copies_are_evicted_least_recently_used_first() {
    let fixture = fixture(Settings::default());
    let mut corpora = vec![];
    for name in ["a", "b"] {
        let collection = fixture.collections.create(spec(name)).await.expect("the name is free");
        let corpus = Arc::clone(&collection.shared().generation().corpus);
        corpus.set_device(DeviceId::Cuda(3));
        *corpus.device_slot() = Some(Arc::new(name));
        corpus.set_device_bytes(100);
        corpora.push(corpus);
    }
    assert_eq!(fixture.collections.device_bytes(DeviceId::Cuda(3)), 200);
    assert_eq!(fixture.collections.evict_device_copies(DeviceId::Cpu, u64::MAX), 0, "of that device only");
    let in_use = corpora[0].device_slot().clone();
    assert_eq!(fixture.collections.evict_device_copies(DeviceId::Cuda(3), u64::MAX), 100);
    assert_eq!([0, 1].map(|at: usize| corpora[at].device_bytes()), [100, 0], "a search is using the first");
    drop(in_use);
    assert_eq!(fixture.collections.evict_device_copies(DeviceId::Cuda(3), 1), 100);
}
