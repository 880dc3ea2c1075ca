//! The attacks: each is one request, which 64 calls send at once.

use std::{collections::BTreeMap, iter};

use accelerd_proto::v1::{
    self, kernel_service_client::KernelServiceClient, tensor_attribute::Value, tensor_input::Source,
    tensor_service_client::TensorServiceClient,
};
use tonic::{Request, Status, transport::Channel};

/// A kind of request, by the resource that it is made to exhaust.
pub(crate) struct Attack {
    pub(crate) name: &'static str,
    pub(crate) message: fn(index: usize) -> Message,
}

pub(crate) enum Message {
    Translate(v1::TranslateRequest),
    Launch(v1::LaunchRequest),
    Execute(v1::ExecuteRequest),
}

pub(crate) const ALL: [Attack; 5] = [
    Attack { name: "sources_of_deep_expressions", message: deep },
    Attack { name: "reductions_of_virtual_extents", message: virtual_extent },
    Attack { name: "sources_that_are_slow_to_lower", message: slow },
    Attack { name: "kernels_without_an_end", message: endless },
    Attack { name: "errors_with_long_names", message: long_names },
];

impl Message {
    /// Sends the request; the response itself does not matter.
    pub(crate) async fn send(self, channel: Channel, deadline: std::time::Duration) -> Result<(), Status> {
        fn within<T>(message: T, deadline: std::time::Duration) -> Request<T> {
            let mut request = Request::new(message);
            request.set_timeout(deadline);
            request
        }
        match self {
            Self::Translate(message) => KernelServiceClient::new(channel)
                .max_decoding_message_size(usize::MAX)
                .translate(within(message, deadline))
                .await
                .map(drop),
            Self::Launch(message) => {
                KernelServiceClient::new(channel).launch(within(message, deadline)).await.map(drop)
            }
            Self::Execute(message) => {
                TensorServiceClient::new(channel).execute(within(message, deadline)).await.map(drop)
            }
        }
    }
}

fn translate(source: String) -> Message {
    Message::Translate(v1::TranslateRequest { source, ..Default::default() })
}

fn repeated(part: &str, separator: &str, count: usize) -> String {
    iter::repeat_n(part, count).collect::<Vec<_>>().join(separator)
}

/// Chains that a parser reads in a loop, and whose expressions are as deep as they are long.
fn deep(index: usize) -> Message {
    let function = |result: String| format!("def f(x: int, y: float) -> bool:\n    return {result}\n");
    let warp = |term: String| {
        format!("import warp as wp\n@wp.kernel\ndef f(a: wp.array(dtype=int)):\n    a[0] = wp.static({term})\n")
    };
    translate(match index % 6 {
        0 => warp(repeated("1", "+", 40_000)),
        1 => function(repeated("x", " < ", 40_000)),
        2 => function(repeated("x > 0", " and ", 20_000)),
        3 => function(repeated("x > 0", " or ", 20_000)),
        4 => function(repeated("y", " * ", 40_000) + " > 0.0"),
        _ => function(format!("{}x{} > 0", "(".repeat(20_000), ")".repeat(20_000))),
    })
}

/// Lists that took time in proportion to the square of their length.
fn slow(index: usize) -> Message {
    let parameters = |count: usize| (0..count).map(|nth| format!("p{nth}: int")).collect::<Vec<_>>().join(", ");
    translate(match index % 5 {
        0 => format!("def f(x: int) -> int:\n    return ({})\n", repeated("x", ", ", 60_000)),
        1 => format!("def f(x: int) -> int:\n    {}x\n    return y\n", "y = ".repeat(50_000)),
        2 => {
            let helper = parameters(15_000);
            format!("def g({helper}) -> int:\n    return p0\n\ndef f(x: int) -> int:\n    return g(x)\n")
        }
        3 => format!("def f({}) -> int:\n    return p0\n", parameters(15_000).replace(": int", ": int = 1")),
        _ => {
            let chain = (0..15_000).map(|nth| format!("(a{nth} := ")).collect::<Vec<_>>().concat();
            format!("def f(x: int) -> int:\n    return {chain}x{}\n", ")".repeat(15_000))
        }
    })
}

/// A scalar that is expanded to 2^42 elements, and reduced.
fn virtual_extent(index: usize) -> Message {
    const REDUCTIONS: [&str; 8] = ["sum", "mean", "var", "prod", "amax", "argmax", "logsumexp", "norm"];
    let op = REDUCTIONS[index % REDUCTIONS.len()];
    let node = |name: &str, op: &str, input: &str, attributes: BTreeMap<String, v1::TensorAttribute>| v1::TensorNode {
        name: name.to_owned(),
        op: op.to_owned(),
        inputs: vec![input.to_owned()],
        attributes,
    };
    let list = |values: Vec<i64>| v1::TensorAttribute { value: Some(Value::Integers(v1::TensorIntegers { values })) };
    let dims = match op {
        "logsumexp" => BTreeMap::from([("dim".to_owned(), list(vec![0]))]),
        _ => BTreeMap::new(),
    };
    let shape = BTreeMap::from([("shape".to_owned(), list(vec![1 << 42]))]);
    let scalar =
        v1::Tensor { dtype: v1::Dtype::F32.into(), shape: vec![1], data: 1.0_f32.to_le_bytes().to_vec().into() };
    Message::Execute(v1::ExecuteRequest {
        inputs: vec![v1::TensorInput { name: "x".to_owned(), source: Some(Source::Value(scalar)) }],
        nodes: vec![node("many", "expand", "x", shape), node("result", op, "many", dims)],
        outputs: vec![v1::TensorOutput { name: "result".to_owned(), keep: false }],
        ..Default::default()
    })
}

/// A launch that only its deadline ends.
fn endless(_: usize) -> Message {
    let source = "def f(x: int) -> int:\n    while x == x:\n        x = x + 0\n    return x\n";
    Message::Launch(v1::LaunchRequest { loop_budget: Some(u64::MAX), ..super::polite::launch_of(source) })
}

/// Requests whose errors name what the client sent.
fn long_names(index: usize) -> Message {
    let name = "n\u{e9}".repeat(3_000 * (1 + index % 8));
    let shape = vec![1 + i64::try_from(index).unwrap_or(0); 100_000];
    let value = v1::Tensor { dtype: v1::Dtype::F32.into(), shape, data: vec![0; 4].into() };
    Message::Execute(v1::ExecuteRequest {
        inputs: vec![v1::TensorInput { name: name.clone(), source: Some(Source::Value(value)) }],
        outputs: vec![v1::TensorOutput { name, keep: false }],
        ..Default::default()
    })
}
