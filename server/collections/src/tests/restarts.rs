//! Any changes of a durable collection, compared with a model of it after each restart.

use proptest::prelude::*;

use super::*;

#[derive(Clone, Debug)]
enum Op {
    Upsert(Vec<u64>),
    Delete(Vec<u64>),
    DeleteEven,
    Reopen,
}

fn any_op() -> impl Strategy<Value = Op> {
    let ids = || proptest::collection::btree_set(0..30u64, 1..8).prop_map(|ids| ids.into_iter().collect::<Vec<_>>());
    prop_oneof![
        6 => ids().prop_map(Op::Upsert),
        2 => ids().prop_map(Op::Delete),
        1 => Just(Op::DeleteEven),
        1 => Just(Op::Reopen),
    ]
}

/// Runs operations on a collection and a map, and compares them at each reopening and at the end.
async fn follow(ops: Vec<Op>) {
    let data = TempDir::new().expect("it can be made");
    let settings = || Settings { wal_limit: 1500, compact_rows: 16, ..on_disk(&data) };
    let fixture = fixture(settings());
    let mut collections = Arc::clone(&fixture.collections);
    let mut collection = collections.create(durable("c")).await.expect("the name is free");
    let mut expected = BTreeMap::new();
    for (stamp, op) in (1u16..).zip(ops.into_iter().chain([Op::Reopen])) {
        match op {
            Op::Upsert(ids) => {
                upsert(&collection, &ids, f32::from(stamp)).await;
                expected.extend(ids.into_iter().map(|id| (id, f32::from(stamp))));
            }
            Op::Delete(ids) => {
                collection.delete(only(ids.clone())).await.expect("it can");
                expected.retain(|id, _| !ids.contains(id));
            }
            Op::DeleteEven => {
                collection.delete(even()).await.expect("it can");
                expected.retain(|id, _| id % 2 == 1);
            }
            Op::Reopen => {
                collections.close().await;
                collections = open(&fixture.engine, settings());
                collection = collections.get("c").expect("it is durable");
            }
        }
        assert_eq!(contents(&collection), expected);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn a_durable_collection_is_the_same_after_each_restart(ops in proptest::collection::vec(any_op(), 1..40)) {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
        runtime.expect("a runtime can be made").block_on(follow(ops));
    }
}
