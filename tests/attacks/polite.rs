//! A caller with small calls, each of which is answered well within its deadline by a daemon that serves all callers.

use std::time::{Duration, Instant};

use accelerd_proto::v1::{
    self, embed_service_client::EmbedServiceClient, kernel_service_client::KernelServiceClient, launch_request::Kernel,
    tensor_input::Source,
};
use tonic::{Request, Status, transport::Channel};

/// Long enough for an unoptimised daemon on a busy machine, and a small part of the time that the attacks ask for.
const DEADLINE: Duration = Duration::from_secs(30);

/// A launch of a function of one integer, on one row.
pub(crate) fn launch_of(source: &str) -> v1::LaunchRequest {
    let program = v1::KernelProgram { source: source.to_owned(), ..Default::default() };
    let row = v1::Tensor { dtype: v1::Dtype::I64.into(), shape: vec![1], data: 21_i64.to_le_bytes().to_vec().into() };
    v1::LaunchRequest {
        kernel: Some(Kernel::Program(program)),
        arguments: vec![v1::TensorInput { name: "x".to_owned(), source: Some(Source::Value(row)) }],
        ..Default::default()
    }
}

/// One call of each kind, with right results: the times of a launch and of an embedding.
pub(crate) async fn calls(channel: &Channel) -> Result<[Duration; 2], Status> {
    let start = Instant::now();
    let mut launch = Request::new(launch_of("def f(x: int) -> int:\n    return 2 * x\n"));
    launch.set_timeout(DEADLINE);
    let launched = KernelServiceClient::new(channel.clone()).launch(launch).await?.into_inner();
    let output = launched.outputs.first().and_then(|output| output.value.as_ref());
    assert_eq!(output.map(|tensor| &tensor.data[..]), Some(&42_i64.to_le_bytes()[..]));

    let launch_time = start.elapsed();

    let start = Instant::now();
    let texts = v1::TextInput { values: vec!["parse a date".to_owned()] };
    let mut embed =
        Request::new(v1::EmbedRequest { input: Some(v1::embed_request::Input::Texts(texts)), ..Default::default() });
    embed.set_timeout(DEADLINE);
    let embedded = EmbedServiceClient::new(channel.clone()).embed(embed).await?.into_inner();
    assert!(embedded.embeddings.is_some_and(|rows| rows.shape.first() == Some(&1)));
    Ok([launch_time, start.elapsed()])
}
