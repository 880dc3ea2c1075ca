//! Graphs of any kind, most of them malformed: each is executed or refused by node and field, and none stops the daemon.

use std::{collections::BTreeMap, time::Duration};

use accelerd::config::Config;
use accelerd_kernels::ledger::{Kind, Place};
use accelerd_proto::v1::{self, tensor_attribute::Value, tensor_input::Source};
use proptest::{
    prelude::*,
    sample::{Index, select},
    test_runner::{TestCaseResult, TestRunner},
};
use tonic::{Code, Request, Status};
use tonic_types::StatusExt;

use super::harness::TestServer;

/// The names of all operations and attributes, from the tables of their documentation.
fn documented() -> (Vec<String>, Vec<String>) {
    let mut operations = vec![];
    let mut attributes = vec!["input".to_owned(), "other".to_owned(), "dim".to_owned()];
    let rows = include_str!("../../docs/tensor.md").lines().skip_while(|line| !line.starts_with("| family"));
    for row in rows.skip(2).take_while(|line| line.starts_with('|')) {
        let cell = row.splitn(3, '|').nth(2).unwrap_or_default();
        operations.extend(cell.split('`').skip(1).step_by(2).map(str::to_owned));
        let listed = cell.split('(').skip(1).filter_map(|rest| rest.split(')').next());
        let names =
            listed.flat_map(|list| list.split([',', ';'])).filter_map(|one| one.trim().split(['=', ':', ' ']).next());
        attributes.extend(names.filter(|name| !name.is_empty()).map(str::to_owned));
    }
    assert!(operations.len() > 150 && attributes.len() > 50, "the tables are found");
    (operations, attributes)
}

fn tensor(dtype: v1::Dtype, shape: &[i64], bytes: usize) -> v1::Tensor {
    // Small numbers of every type, if all bytes but one of an element are 0.
    v1::Tensor { dtype: dtype.into(), shape: shape.to_vec(), data: vec![0; bytes].into() }
}

/// Inputs of several types and ranks.
fn good_inputs() -> Vec<(&'static str, v1::Tensor)> {
    use v1::Dtype::{Bool, F16, F32, F64, I64, U8};
    vec![
        ("x", tensor(F32, &[2, 3], 24)),
        ("v", tensor(F32, &[3], 12)),
        ("s", tensor(F32, &[], 4)),
        ("z", tensor(F32, &[0, 3], 0)),
        ("h", tensor(F16, &[2, 3], 12)),
        ("d", tensor(F64, &[2, 3], 48)),
        ("i", tensor(I64, &[2, 3], 48)),
        ("u", tensor(U8, &[3], 3)),
        ("m", tensor(Bool, &[2, 3], 6)),
        ("images", tensor(F32, &[1, 2, 4, 4], 128)),
        ("filters", tensor(F32, &[2, 2, 3, 3], 144)),
        ("q", tensor(F32, &[1, 2, 3, 4], 96)),
    ]
}

fn inputs() -> impl Strategy<Value = Vec<v1::TensorInput>> {
    let good = || {
        let named = |(name, tensor): (&str, v1::Tensor)| v1::TensorInput {
            name: name.to_owned(),
            source: Some(Source::Value(tensor)),
        };
        good_inputs().into_iter().map(named).collect::<Vec<_>>()
    };
    let handle = |text: &str| Some(Source::Handle(text.to_owned()));
    let value = |tensor| Some(Source::Value(tensor));
    let bad = vec![
        None,
        handle("00000000000000000000000000000000"),
        handle("\u{0}"),
        value(tensor(v1::Dtype::F32, &[-1], 4)),
        value(tensor(v1::Dtype::F32, &[1 << 62, 4], 0)),
        value(tensor(v1::Dtype::F32, &[i64::MAX, i64::MAX, i64::MAX], 0)),
        value(tensor(v1::Dtype::F32, &[0, i64::MAX], 0)),
        value(tensor(v1::Dtype::F32, &[1; 9], 4)),
        value(tensor(v1::Dtype::F32, &[2], 7)),
        value(v1::Tensor { dtype: 99, ..tensor(v1::Dtype::F32, &[1], 4) }),
    ];
    let replaced = (any::<Index>(), select(bad)).prop_map(move |(nth, source)| {
        let mut inputs = good();
        let nth = nth.index(inputs.len());
        inputs[nth].source = source;
        inputs
    });
    let renamed = (any::<Index>(), select(vec!["", "x", "n0", "n0:1"])).prop_map(move |(nth, name)| {
        let mut inputs = good();
        let nth = nth.index(inputs.len());
        name.clone_into(&mut inputs[nth].name);
        inputs
    });
    prop_oneof![20 => Just(good()), 1 => replaced, 1 => renamed]
}

fn attribute() -> impl Strategy<Value = Option<Value>> {
    let ints = || select(vec![i64::MIN, -2, -1, 0, 1, 2, 3, 4, 1 << 31, 1 << 40, 1 << 62, i64::MAX]);
    let small = || select(vec![-1_i64, 0, 1, 2, 3]);
    let numbers = vec![f64::NAN, f64::INFINITY, f64::NEG_INFINITY, -0.0, 0.5, -1.0, 1.0, 1e308, 5e-324];
    let words =
        ["mean", "sum", "none", "f32", "f16", "i64", "bool", "relu", "gelu", "same", "high", "trunc", "", "\u{0}"];
    let list = |values| Value::Integers(v1::TensorIntegers { values });
    prop_oneof![
        1 => Just(None),
        4 => any::<bool>().prop_map(|flag| Some(Value::Boolean(flag))),
        8 => small().prop_map(|value| Some(Value::Integer(value))),
        4 => ints().prop_map(|value| Some(Value::Integer(value))),
        4 => select(numbers).prop_map(|value| Some(Value::Number(value))),
        4 => select(words.to_vec()).prop_map(|word| Some(Value::Text(word.to_owned()))),
        6 => prop::collection::vec(small(), 0..4).prop_map(move |values| Some(list(values))),
        3 => prop::collection::vec(ints(), 0..10).prop_map(move |values| Some(list(values))),
    ]
}

/// An operand of a node: an input, a node before or after it, a further result, or nothing that exists.
fn operand() -> impl Strategy<Value = String> {
    let inputs = good_inputs().into_iter().map(|(name, _)| name.to_owned()).collect::<Vec<_>>();
    let odd = ["n0:1", "n1:2", "n0:0", "x:1", "unknown", "", "n0:18446744073709551616"];
    prop_oneof![
        40 => select(inputs),
        4 => (0..2_u8).prop_map(|nth| format!("n{nth}")),
        1 => select(odd.map(str::to_owned).to_vec()),
    ]
}

fn node() -> impl Strategy<Value = v1::TensorNode> {
    let (operations, attributes) = documented();
    let op =
        prop_oneof![30 => select(operations), 1 => select(vec![String::new(), "relux".to_owned(), "ADD".to_owned()])];
    let few = prop_oneof![3 => Just(0..=0), 2 => Just(1..=1), 1 => Just(0..=4)];
    let attributes =
        few.prop_flat_map(move |count| prop::collection::btree_map(select(attributes.clone()), attribute(), count));
    let operands =
        prop_oneof![4 => Just(1..=2), 1 => Just(0..=4)].prop_flat_map(|count| prop::collection::vec(operand(), count));
    let name = prop_oneof![30 => Just(None), 1 => select(vec!["", "x", "n0", "n0:1"]).prop_map(Some)];
    (op, operands, attributes, name).prop_map(|(op, inputs, attributes, name)| {
        let attributes: BTreeMap<_, _> =
            attributes.into_iter().map(|(key, value)| (key, v1::TensorAttribute { value })).collect();
        v1::TensorNode { name: name.unwrap_or_default().to_owned(), op, inputs, attributes }
    })
}

fn requests() -> impl Strategy<Value = v1::ExecuteRequest> {
    let output = (operand(), any::<bool>()).prop_map(|(name, keep)| v1::TensorOutput { name, keep });
    (inputs(), prop::collection::vec(node(), 1..3), prop::collection::vec(output, 0..2)).prop_map(
        |(inputs, mut nodes, mut outputs)| {
            for (nth, node) in nodes.iter_mut().enumerate().filter(|(_, node)| node.name.is_empty()) {
                node.name = format!("n{nth}");
            }
            let last = nodes[nodes.len() - 1].name.clone();
            outputs.push(v1::TensorOutput { name: last, keep: false });
            v1::ExecuteRequest { inputs, nodes, outputs, ..Default::default() }
        },
    )
}

/// Limits that make absurd graphs fail at once.
fn small(config: &mut Config) {
    config.backend.kind = accelerd::config::BackendKind::Cpu;
    config.admission.max_bytes = "64MiB".parse().expect("a size");
    config.server.max_message_bytes = "4MiB".parse().expect("a size");
    config.tensors.memory_limit = "4MiB".parse().expect("a size");
}

/// A refusal names a field, the expectation and the value.
fn check(status: &Status) -> TestCaseResult {
    // A reduction of a tensor that is expanded without bound may take as long as its caller permits.
    if [Code::ResourceExhausted, Code::DeadlineExceeded, Code::Cancelled].contains(&status.code()) {
        return Ok(());
    }
    if status.code() == Code::NotFound {
        prop_assert!(status.get_details_resource_info().is_some_and(|info| info.resource_type == "tensor"));
        return Ok(());
    }
    prop_assert_eq!(status.code(), Code::InvalidArgument, "{:?}", status);
    let violations = status.get_details_bad_request().map(|bad| bad.field_violations).unwrap_or_default();
    prop_assert_eq!(violations.len(), 1, "{:?}", status);
    let field = &violations[0].field;
    let said = &violations[0].description;
    prop_assert!(!field.is_empty() && said.contains("expected ") && said.contains("got "), "{:?}", status);
    Ok(())
}

#[test]
fn every_graph_is_executed_or_refused_by_its_field() {
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().expect("a runtime");
    let server = runtime.block_on(TestServer::start_with(small));
    let mut runner = TestRunner::new(ProptestConfig { cases: 3000, failure_persistence: None, ..Default::default() });
    let executed = std::cell::Cell::new(0);
    let outcome = runner.run(&requests(), |request| {
        let mut request = Request::new(request);
        request.set_timeout(Duration::from_secs(2));
        match runtime.block_on(server.tensor().execute(request)) {
            Ok(response) => {
                executed.set(executed.get() + 1);
                let handles: Vec<_> = response.into_inner().kept.into_iter().map(|tensor| tensor.handle).collect();
                let freed = runtime.block_on(server.tensor().free_tensors(v1::FreeTensorsRequest { handles }));
                prop_assert!(freed.is_ok());
                Ok(())
            }
            Err(status) => check(&status),
        }
    });
    outcome.unwrap_or_else(|failure| panic!("{failure}"));
    assert!(executed.get() > 30, "{} graphs were valid", executed.get());
    assert_eq!(server.daemon.app().ledger.account(Place::Host, Kind::Tensors).usage().0, 0, "nothing stays");
    runtime.block_on(server.assert_serving());
}

/// Operations that read a scalar, expanded to 2^36 elements or more, and write little: they need no memory, and hours.
fn endless() -> Vec<Vec<v1::TensorNode>> {
    let node = |name: &str, op: &str, inputs: &[&str], attributes: &[(&str, Value)]| v1::TensorNode {
        name: name.to_owned(),
        op: op.to_owned(),
        inputs: inputs.iter().map(|name| (*name).to_owned()).collect(),
        attributes: attributes
            .iter()
            .map(|(key, value)| ((*key).to_owned(), v1::TensorAttribute { value: Some(value.clone()) }))
            .collect(),
    };
    let expand = |shape: &[i64]| {
        let values = shape.to_vec();
        node("e", "expand", &["x"], &[("shape", Value::Integers(v1::TensorIntegers { values }))])
    };
    let whole = ["sum", "prod", "mean", "norm", "logsumexp", "var", "amax", "argmax"];
    let mut all: Vec<_> = whole.iter().map(|op| vec![expand(&[1 << 40]), node("y", op, &["e"], &[])]).collect();
    let size = || ("output_size", Value::Integer(1));
    all.extend([
        vec![expand(&[1, 1, 1 << 40]), node("y", "adaptive_avg_pool1d", &["e"], &[size()])],
        vec![expand(&[1, 1, 1 << 40]), node("y", "adaptive_max_pool1d", &["e"], &[size()])],
        vec![expand(&[1 << 20, 1 << 20]), node("y", "argmin", &["e"], &[("dim", Value::Integer(0))])],
        vec![expand(&[1 << 20, 1 << 20]), node("y", "sum", &["e"], &[("dim", Value::Integer(0))])],
        vec![expand(&[1 << 20, 1 << 20]), node("y", "sum", &["e"], &[("dim", Value::Integer(1))])],
        vec![
            expand(&[1 << 20, 1 << 20]),
            node("p", "softmax", &["e"], &[("dim", Value::Integer(1))]),
            node("y", "sum", &["p"], &[]),
        ],
    ]);
    all
}

#[tokio::test(flavor = "multi_thread")]
async fn work_without_end_ends_with_its_call() {
    let server = TestServer::start_with(|config| {
        small(config);
        config.backend.cpu_threads = 1;
        config.backend.cpu_workers = 1;
    })
    .await;
    let running = || {
        let stats = server.daemon.app().engine.stats();
        let lane = stats.lanes.into_iter().find(|lane| lane.name == "tensor").expect("the lane of graphs");
        lane.running_batches
    };
    for nodes in endless() {
        let what = nodes[1].op.clone();
        let x = v1::Tensor { dtype: v1::Dtype::F32.into(), shape: vec![], data: 1_f32.to_le_bytes().to_vec().into() };
        let inputs = vec![v1::TensorInput { name: "x".to_owned(), source: Some(Source::Value(x)) }];
        let outputs = vec![v1::TensorOutput { name: "y".to_owned(), keep: false }];
        let request = v1::ExecuteRequest { inputs, nodes, outputs, ..Default::default() };
        let mut client = server.tensor();
        let call = tokio::spawn(async move { client.execute(request).await });
        super::flow_control::until(&what, || running() == 1 || call.is_finished()).await;
        if call.is_finished() {
            // A materialised tensor is refused by its size.
            let refused = call.await.expect("no panic").expect_err("nobody waits for so long");
            assert!(matches!(refused.code(), Code::InvalidArgument | Code::ResourceExhausted), "{what}: {refused:?}");
            continue;
        }
        call.abort();
        super::flow_control::until(&what, || running() == 0).await;
        server.assert_serving().await;
    }
}
