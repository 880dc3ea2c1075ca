//! Columnar payloads, ids and hits: equal to the message form, and refused by field if the bytes do not fit.

use accelerd::config::ByteSize;
use accelerd_proto::v1::{self, Metric, PayloadColumn, payload_column::Values};
use bytes::Bytes;
use tonic::Code;

use super::harness::{TestServer, assert_refused, int, numbers, payload, tensor, text};

fn ints(values: &[i64]) -> Values {
    Values::Ints(values.iter().flat_map(|value| value.to_le_bytes()).collect())
}

fn doubles(values: &[f64]) -> Values {
    Values::Doubles(values.iter().flat_map(|value| value.to_le_bytes()).collect())
}

fn u32s(values: &[u32]) -> Bytes {
    values.iter().flat_map(|value| value.to_le_bytes()).collect()
}

fn strings(texts: &[&str], indices: &[u32]) -> v1::StringColumn {
    let mut offsets = vec![0];
    for text in texts {
        offsets.push(offsets[offsets.len() - 1] + u32::try_from(text.len()).expect("short"));
    }
    v1::StringColumn { offsets: u32s(&offsets), data: texts.concat().into(), indices: u32s(indices) }
}

fn column(name: &str, presence: &[u8], values: Values) -> PayloadColumn {
    PayloadColumn { name: name.into(), presence: presence.to_vec().into(), values: Some(values) }
}

fn packed(ids: &[u64]) -> v1::PointIds {
    v1::PointIds { packed_numbers: ids.iter().flat_map(|id| id.to_le_bytes()).collect(), ..Default::default() }
}

/// Nine points on a line, so that presence bits take more than one byte.
fn upsert(columns: Vec<PayloadColumn>) -> v1::UpsertRequest {
    let vectors: Vec<f32> = (0..9_u8).map(f32::from).collect();
    v1::UpsertRequest {
        collection: "c".into(),
        ids: Some(packed(&[0, 1, 2, 3, 4, 5, 6, 7, u64::MAX])),
        points: Some(v1::upsert_request::Points::Vectors(tensor(&[9, 1], &vectors))),
        payload_columns: Some(v1::PayloadColumns { columns }),
        ..Default::default()
    }
}

/// Every type, with missing values, and two types under one name.
fn all_types() -> Vec<PayloadColumn> {
    vec![
        column("n", &[0b0000_0011, 1], ints(&[i64::MIN, 9_007_199_254_740_993, -1])),
        column("n", &[0b0000_0100, 0], doubles(&[-0.0])),
        column("lang", &[], Values::Strings(strings(&["rust", "", "größe"], &[0, 1, 2, 0, 0, 0, 0, 0, 1]))),
        column("path", &[0b1000_0000, 1], Values::Strings(strings(&["a/b.rs", "ü"], &[]))),
        column("ok", &[], Values::Bools(vec![1, 0, 1, 0, 1, 0, 1, 0, 1].into())),
    ]
}

/// The same payloads in message form.
fn expected() -> Vec<v1::Payload> {
    let boolean = |value| v1::Value { kind: Some(v1::value::Kind::BoolValue(value)) };
    let double = |value| v1::Value { kind: Some(v1::value::Kind::DoubleValue(value)) };
    let mut all: Vec<_> = (0..9).map(|i| payload([("lang", text("rust")), ("ok", boolean(i % 2 == 0))])).collect();
    let mut set = |point: usize, name: &str, value| all[point].fields.insert(name.into(), value);
    set(0, "n", int(i64::MIN));
    set(1, "n", int(9_007_199_254_740_993));
    set(2, "n", double(-0.0));
    set(8, "n", int(-1));
    set(1, "lang", text(""));
    set(2, "lang", text("größe"));
    set(8, "lang", text(""));
    set(7, "path", text("a/b.rs"));
    set(8, "path", text("ü"));
    all
}

/// Converts columns of a response to payloads, independently of the daemon's code.
fn rows(columns: &v1::PayloadColumns, points: usize) -> Vec<v1::Payload> {
    let mut rows = vec![v1::Payload::default(); points];
    for column in &columns.columns {
        let has = |point: usize| column.presence.is_empty() || column.presence[point / 8] >> (point % 8) & 1 == 1;
        for (value, point) in (0..points).filter(|&point| has(point)).enumerate() {
            let wide = |bytes: &[u8]| u64::from_le_bytes(bytes[value * 8..][..8].try_into().expect("eight bytes"));
            let narrow = |bytes: &[u8], index: usize| {
                u32::from_le_bytes(bytes[index * 4..][..4].try_into().expect("four bytes")) as usize
            };
            let kind = match column.values.as_ref().expect("a column has values") {
                Values::Ints(ints) => v1::value::Kind::IntValue(wide(ints).cast_signed()),
                Values::Doubles(doubles) => v1::value::Kind::DoubleValue(f64::from_bits(wide(doubles))),
                Values::Bools(bools) => v1::value::Kind::BoolValue(bools[value] == 1),
                Values::Strings(v1::StringColumn { offsets, data, indices }) => {
                    let index = if indices.is_empty() { value } else { narrow(indices, value) };
                    let text = &data[narrow(offsets, index)..narrow(offsets, index + 1)];
                    v1::value::Kind::StringValue(String::from_utf8(text.to_vec()).expect("texts are UTF-8"))
                }
            };
            let before = rows[point].fields.insert(column.name.clone(), v1::Value { kind: Some(kind) });
            assert_eq!(before, None, "no point has a field twice");
        }
    }
    rows
}

async fn filled() -> TestServer {
    let server = TestServer::start().await;
    server.collection("c", 1, Metric::SquaredL2).await;
    let answer = server.similarity().upsert(upsert(all_types())).await.expect("upserts").into_inner();
    assert_eq!(answer.inserted_count, 9);
    server
}

fn get(columns: bool) -> v1::GetPointsRequest {
    let ids = Some(packed(&[0, 1, 2, 3, 4, 5, 6, 7, u64::MAX]));
    v1::GetPointsRequest { collection: "c".into(), ids, columns, ..Default::default() }
}

#[tokio::test]
async fn payload_columns_equal_payload_messages() {
    let server = filled().await;
    let read = server.similarity().get_points(get(false)).await.expect("reads").into_inner();
    assert_eq!(read.payloads, expected());
    let equals =
        |name: &str, value| v1::Condition { field: name.into(), test: Some(v1::condition::Test::Equals(value)) };
    for (condition, count) in [(equals("lang", text("")), 2), (equals("n", int(0)), 1), (equals("path", text("ü")), 1)]
    {
        let filter = Some(v1::Filter { must: vec![condition], ..Default::default() });
        let request = v1::CountPointsRequest { collection: "c".into(), filter };
        let counted = server.similarity().count_points(request).await.expect("counts").into_inner();
        assert_eq!((counted.point_count, counted.exact), (count, true));
    }
}

#[tokio::test]
async fn columnar_points_and_hits_equal_the_messages() {
    let server = filled().await;
    let read = server.similarity().get_points(get(true)).await.expect("reads").into_inner();
    assert_eq!(read.ids, get(true).ids);
    assert!(read.payloads.is_empty());
    assert_eq!(rows(&read.payload_columns.expect("asked for"), 9), expected());

    let query = v1::search_request::Query::Vectors(tensor(&[3, 1], &[8.0, 2.2, 0.0]));
    let lang = v1::Condition { field: "lang".into(), test: Some(v1::condition::Test::Equals(text(""))) };
    for filter in [None, Some(v1::Filter { must: vec![lang], ..Default::default() })] {
        let request = v1::SearchRequest {
            collection: "c".into(),
            query: Some(query.clone()),
            limit: 4,
            include_payload: true,
            filter,
            ..Default::default()
        };
        let hits = server.similarity().search(request.clone()).await.expect("searches").into_inner().results;
        let request = v1::SearchRequest { columns: true, ..request };
        let answer = server.similarity().search(request).await.expect("searches").into_inner();
        assert!(answer.exact && answer.results.is_empty());
        let columns = answer.columns.expect("asked for");
        let mut ends = vec![0];
        for result in &hits {
            ends.push(ends[ends.len() - 1] + u32::try_from(result.hits.len()).expect("few"));
        }
        assert_eq!(columns.offsets, u32s(&ends));
        let hits: Vec<_> = hits.into_iter().flat_map(|result| result.hits).collect();
        let ids = hits.iter().map(|hit| match hit.id {
            Some(v1::hit::Id::Number(number)) => number,
            _ => panic!("{hit:?} has no number"),
        });
        assert_eq!(columns.ids, Some(packed(&ids.collect::<Vec<_>>())));
        let scores: Bytes = hits.iter().flat_map(|hit| hit.score.to_le_bytes()).collect();
        assert_eq!(columns.scores, scores);
        let payloads: Vec<_> = hits.into_iter().map(|hit| hit.payload.expect("asked for")).collect();
        assert_eq!(rows(&columns.payloads.expect("asked for"), payloads.len()), payloads);
    }
}

#[tokio::test]
async fn packed_uuids_name_the_same_points() {
    let server = TestServer::start().await;
    server.collection("c", 1, Metric::Dot).await;
    let uuid = [0x0f, 0x8f, 0xad, 0x5b, 0xd9, 0xcb, 0x46, 0x9f, 0xa1, 0x65, 0x70, 0x86, 0x77, 0x28, 0x95, 0x0e];
    let ids = Some(v1::PointIds { packed_uuids: uuid.to_vec().into(), ..Default::default() });
    let vectors = Some(v1::upsert_request::Points::Vectors(tensor(&[1, 1], &[1.0])));
    let upsert = v1::UpsertRequest { collection: "c".into(), ids: ids.clone(), points: vectors, ..Default::default() };
    server.similarity().upsert(upsert).await.expect("upserts");
    let get =
        |columns| v1::GetPointsRequest { collection: "c".into(), ids: ids.clone(), columns, ..Default::default() };
    let read = server.similarity().get_points(get(false)).await.expect("reads").into_inner();
    assert_eq!(read.ids.expect("ids").uuids, ["0f8fad5b-d9cb-469f-a165-70867728950e"]);
    let read = server.similarity().get_points(get(true)).await.expect("reads").into_inner();
    assert_eq!(read.ids, ids);
}

#[tokio::test]
async fn packed_ids_work_in_filters() {
    let server = filled().await;
    let lang = v1::Condition { field: "lang".into(), test: Some(v1::condition::Test::Equals(text("rust"))) };
    let filter = |must| Some(v1::Filter { ids: Some(packed(&[0, 1, 3, 77])), must, ..Default::default() });
    let mut similarity = server.similarity();
    let count = v1::CountPointsRequest { collection: "c".into(), filter: filter(vec![]) };
    assert_eq!(similarity.count_points(count).await.expect("counts").into_inner().point_count, 3);
    let delete = v1::DeletePointsRequest { collection: "c".into(), filter: filter(vec![lang]) };
    assert_eq!(similarity.delete_points(delete).await.expect("deletes").into_inner().deleted_count, 2);
}

#[tokio::test]
async fn malformed_columns_are_refused_by_field() {
    let server = TestServer::start_with(|config| config.limits.max_payload_bytes = ByteSize::b(100)).await;
    server.collection("c", 1, Metric::SquaredL2).await;
    let all = |values| column("f", &[], values);
    let bad_strings = |change: fn(&mut v1::StringColumn)| {
        let mut texts = strings(&["ä", "b"], &[0, 1, 0, 1, 0, 1, 0, 1, 0]);
        change(&mut texts);
        all(Values::Strings(texts))
    };
    let cases = [
        (PayloadColumn { name: String::new(), ..all(ints(&[0; 9])) }, "payload_columns.columns[0].name"),
        (PayloadColumn { values: None, ..all(ints(&[])) }, "payload_columns.columns[\"f\"]"),
        (all(ints(&[0; 8])), "columns[\"f\"].ints"),
        (all(Values::Doubles(vec![0; 71].into())), "columns[\"f\"].doubles"),
        (all(doubles(&[0.0, f64::NAN, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0])), "columns[\"f\"].doubles"),
        (column("f", &[0b100, 0], doubles(&[f64::INFINITY])), "columns[\"f\"].doubles"),
        (all(Values::Bools(vec![0, 1, 2, 0, 0, 0, 0, 0, 0].into())), "columns[\"f\"].bools"),
        (column("f", &[0b11], ints(&[0; 2])), "columns[\"f\"].presence"),
        (column("f", &[0b11, 0b10], ints(&[0; 3])), "columns[\"f\"].presence"),
        (column("f", &[0b11, 0], ints(&[0; 9])), "columns[\"f\"].ints"),
        (bad_strings(|texts| texts.offsets = Bytes::new()), "columns[\"f\"].strings.offsets"),
        (bad_strings(|texts| texts.offsets = u32s(&[0, 2])), "columns[\"f\"].strings.offsets"),
        (bad_strings(|texts| texts.offsets = u32s(&[1, 2, 3])), "columns[\"f\"].strings.offsets"),
        (bad_strings(|texts| texts.offsets = u32s(&[0, u32::MAX, 3])), "columns[\"f\"].strings.offsets"),
        (bad_strings(|texts| texts.offsets = u32s(&[0, 1, 3])), "columns[\"f\"].strings.data"),
        (bad_strings(|texts| texts.data = vec![0xff, 0, 0].into()), "columns[\"f\"].strings.data"),
        (bad_strings(|texts| texts.indices = u32s(&[0, 1, 2, 0, 0, 0, 0, 0, 0])), "columns[\"f\"].strings.indices"),
        (bad_strings(|texts| texts.indices = u32s(&[0])), "columns[\"f\"].strings.indices"),
        (bad_strings(|texts| texts.indices = Bytes::new()), "columns[\"f\"].strings.offsets"),
        (all(Values::Strings(strings(&[&"x".repeat(200)], &[0; 9]))), "payload_columns"),
    ];
    let mut similarity = server.similarity();
    for (column, field) in cases {
        let refused = similarity.upsert(upsert(vec![column.clone()])).await;
        assert_refused(refused, Code::InvalidArgument, field);
    }
    let twice = vec![all(ints(&[0; 9])), column("f", &[0, 1], doubles(&[0.0]))];
    assert_refused(similarity.upsert(upsert(twice)).await, Code::InvalidArgument, "columns[\"f\"]");
    let both = v1::UpsertRequest { payloads: vec![v1::Payload::default(); 9], ..upsert(vec![]) };
    assert_refused(similarity.upsert(both).await, Code::InvalidArgument, "payload_columns");
    let odd = v1::PointIds { packed_numbers: vec![0; 71].into(), ..Default::default() };
    let odd = v1::UpsertRequest { ids: Some(odd), ..upsert(vec![]) };
    assert_refused(similarity.upsert(odd).await, Code::InvalidArgument, "ids.packed_numbers");
    let two = v1::PointIds { packed_uuids: vec![0; 16].into(), ..numbers([1]) };
    assert_refused(
        similarity.upsert(v1::UpsertRequest { ids: Some(two), ..upsert(vec![]) }).await,
        Code::InvalidArgument,
        "ids",
    );
    let count = v1::CountPointsRequest { collection: "c".into(), filter: None };
    assert_eq!(similarity.count_points(count).await.expect("counts").into_inner().point_count, 0, "all or nothing");
}

#[tokio::test]
async fn payload_columns_survive_a_restart() {
    let dir = tempfile::tempdir().expect("a folder");
    let folder = dir.path().to_path_buf();
    let durable = move |config: &mut accelerd::config::Config| config.store.data_dir = folder.clone();
    let server = TestServer::start_with(durable.clone()).await;
    let create = v1::CreateCollectionRequest {
        name: "c".into(),
        dimensions: 1,
        metric: Metric::SquaredL2.into(),
        durable: true,
        ..Default::default()
    };
    server.similarity().create_collection(create).await.expect("is made");
    server.similarity().upsert(upsert(all_types())).await.expect("upserts");
    server.daemon.shutdown().await;
    let server = TestServer::start_with(durable).await;
    let read = server.similarity().get_points(get(false)).await.expect("reads").into_inner();
    assert_eq!(read.payloads, expected());
}
