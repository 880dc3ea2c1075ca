//! `VerifyService`: compares outputs with expected ones, at once or in a stream of chunks, and functions with functions.

use std::sync::Arc;

use accelerd_engine::Context;
use accelerd_proto::v1::{self as pb, verify_request::Part};
use futures::{StreamExt, TryFutureExt, TryStreamExt, future::ready};
use tonic::{Request, Response, Status};

use self::{
    header::{chunk, verification_request},
    policy::policies,
    report::{comparison, response},
};
use crate::{
    app::App,
    auth::caller::Caller,
    error::ApiError,
    grpc::{
        call::{Requests, Responses},
        context::context,
        handlers::VerifyService,
        tensor_value::sources,
    },
    verification::{
        VerificationService,
        compare_outputs::{OutputsRequest, all_pass},
    },
};

mod header;
mod policy;
mod report;

/// The service.
#[derive(Clone)]
pub(super) struct Verifier(Arc<VerificationService>);

impl Verifier {
    pub(super) fn new(app: &Arc<App>) -> Self {
        Self(Arc::new(VerificationService::new(app)))
    }
}

impl VerifyService for Verifier {
    async fn compare_outputs(
        &self,
        request: Request<pb::CompareOutputsRequest>,
    ) -> Result<Response<pb::CompareOutputsResponse>, Status> {
        let caller = Caller::of(request.extensions());
        let context = context(&request);
        let request = outputs_request(request.into_inner())?;
        let reports = self.0.compare_outputs(&caller, context, request).await?;
        let passed = all_pass(&reports);
        let outputs = reports.into_iter().map(comparison).collect();
        Ok(Response::new(pb::CompareOutputsResponse { passed, outputs }))
    }

    fn verify(
        &self,
        caller: Caller,
        context: Context,
        mut requests: Requests<pb::VerifyRequest>,
    ) -> Responses<pb::VerifyResponse> {
        let state = Arc::clone(&self.0);
        let started = async move {
            let first = requests.next().await.transpose()?;
            let Some(pb::VerifyRequest { part: Some(Part::Header(header)) }) = first else {
                let reason = "expected a header in the first message, got none";
                return Err(Status::from(ApiError::invalid("header", reason)));
            };
            let chunks = requests.and_then(|request| ready(chunk(request).map_err(Status::from))).boxed();
            let answers = state.verify(caller, context, verification_request(header)?, chunks).await?;
            Ok(answers.map_ok(response))
        };
        started.try_flatten_stream().boxed()
    }
}

fn outputs_request(request: pb::CompareOutputsRequest) -> Result<OutputsRequest, ApiError> {
    let pb::CompareOutputsRequest { actual, expected, policy, output_policies, max_mismatches, row_verdicts } = request;
    Ok(OutputsRequest {
        policies: policies(policy, output_policies)?,
        actual: sources("actual", actual)?,
        expected: sources("expected", expected)?,
        max_mismatches,
        row_verdicts,
    })
}
