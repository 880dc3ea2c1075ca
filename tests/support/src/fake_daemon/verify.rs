//! Comparisons of f32: numbers pass if their bits are equal.

use accelerd_proto::v1::{self as proto, OutputVerdict, tensor_input::Source, verify_service_server::VerifyService};
use futures::stream::BoxStream;
use tonic::{Request, Response, Status, Streaming};

use super::FakeDaemon;

#[tonic::async_trait]
impl VerifyService for FakeDaemon {
    async fn compare_outputs(
        &self,
        request: Request<proto::CompareOutputsRequest>,
    ) -> Result<Response<proto::CompareOutputsResponse>, Status> {
        let proto::CompareOutputsRequest { actual, expected, policy, .. } = request.into_inner();
        let tolerances = policy.unwrap_or_default().tolerances;
        let outputs = actual.into_iter().zip(expected);
        let outputs: Vec<_> = outputs.map(|(actual, expected)| compare(actual, expected, &tolerances)).collect();
        let passed = outputs.iter().all(|output| output.verdict() == OutputVerdict::Passed);
        Ok(Response::new(proto::CompareOutputsResponse { passed, outputs }))
    }

    type VerifyStream = BoxStream<'static, Result<proto::VerifyResponse, Status>>;

    async fn verify(
        &self,
        _: Request<Streaming<proto::VerifyRequest>>,
    ) -> Result<Response<Self::VerifyStream>, Status> {
        Err(Status::unimplemented("the fake daemon verifies no streams"))
    }
}

fn compare(
    actual: proto::TensorInput,
    expected: proto::TensorInput,
    tolerances: &[proto::Tolerance],
) -> proto::OutputComparison {
    let (Some(Source::Value(a)), Some(Source::Value(e))) = (actual.source, expected.source) else {
        return proto::OutputComparison::default();
    };
    let is_comparable = a.shape == e.shape;
    let numbers = |tensor: &proto::Tensor| -> Vec<f32> {
        let (numbers, _) = tensor.data.as_chunks::<4>();
        numbers.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect()
    };
    let pairs: Vec<_> = numbers(&a).into_iter().zip(numbers(&e)).collect();
    let mismatches: Vec<_> = (0..)
        .zip(&pairs)
        .filter(|(_, (a, e))| a.to_bits() != e.to_bits())
        .map(|(index, (a, e))| proto::Mismatch {
            index,
            kind: proto::MismatchKind::Tolerance.into(),
            actual: f64::from(*a),
            expected: f64::from(*e),
            actual_bits: a.to_bits().into(),
            expected_bits: e.to_bits().into(),
            errors: None,
        })
        .collect();
    let differences = proto::Differences {
        element_count: pairs.len() as u64,
        failed_count: mismatches.len() as u64,
        mismatches,
        ..proto::Differences::default()
    };
    let verdict = match (is_comparable, differences.failed_count) {
        (false, _) => OutputVerdict::ShapeMismatch,
        (true, 0) => OutputVerdict::Passed,
        (true, _) => OutputVerdict::Mismatch,
    };
    proto::OutputComparison {
        name: actual.name,
        verdict: verdict.into(),
        actual_dtype: a.dtype,
        expected_dtype: e.dtype,
        actual_shape: a.shape,
        expected_shape: e.shape,
        tolerances: tolerances.to_vec(),
        differences: is_comparable.then_some(differences),
    }
}
