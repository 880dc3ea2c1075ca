//! The protocol over gRPC: messages to requests, and responses to messages.

use accelerd_proto::inference::{
    self as pb, InferTensorContents, model_infer_request::InferInputTensor, model_infer_response::InferOutputTensor,
    model_metadata_response::TensorMetadata, repository_index_response::ModelIndex,
};
use axum::body::Body;
use bytes::Bytes;
use http::StatusCode;
use prost::Message;
use tokio::runtime::Handle;
use tonic::{Response, Status};

use super::{
    datatype::Datatype,
    infer,
    metadata::{self, EXTENSIONS, NAME},
    models,
    parameters::Parameters,
    tensor::{Tensor, put_bytes},
};
use crate::{
    exchange::Exchange,
    failure::Failure,
    shared::{GrpcService, Settings, Shared},
};

/// The methods of `inference.GRPCInferenceService`, as calls of the services of the daemon. The extensions of requests have an `Arc<dyn Account>`.
#[derive(Clone)]
pub struct Inference(Shared);

impl Inference {
    /// Infers with the gRPC services.
    pub fn new(grpc: GrpcService, offload: Handle, settings: Settings) -> Self {
        Self(Shared { grpc, offload, settings: settings.into() })
    }

    fn exchange<T>(&self, request: tonic::Request<T>) -> Result<(Exchange, T), Status> {
        let (metadata, extensions, message) = request.into_parts();
        let mut request = http::Request::new(Body::empty());
        *request.headers_mut() = metadata.into_headers();
        *request.extensions_mut() = extensions;
        Ok((Exchange::new(self.0.clone(), request)?, message))
    }

    /// `ServerReady`.
    pub async fn server_ready(
        &self,
        request: tonic::Request<pb::ServerReadyRequest>,
    ) -> Result<Response<pb::ServerReadyResponse>, Status> {
        let (exchange, _) = self.exchange(request)?;
        Ok(Response::new(pb::ServerReadyResponse { ready: exchange.is_serving().await? }))
    }

    /// `ModelReady`.
    pub async fn model_ready(
        &self,
        request: tonic::Request<pb::ModelReadyRequest>,
    ) -> Result<Response<pb::ModelReadyResponse>, Status> {
        let (exchange, pb::ModelReadyRequest { name, version }) = self.exchange(request)?;
        let ready = match models::describe(&exchange, &name, &version).await {
            Ok(_) => true,
            Err(failure) if failure.status == StatusCode::NOT_FOUND => false,
            Err(failure) => return Err(failure.into()),
        };
        Ok(Response::new(pb::ModelReadyResponse { ready }))
    }

    /// `ModelMetadata`.
    pub async fn model_metadata(
        &self,
        request: tonic::Request<pb::ModelMetadataRequest>,
    ) -> Result<Response<pb::ModelMetadataResponse>, Status> {
        let (exchange, pb::ModelMetadataRequest { name, version }) = self.exchange(request)?;
        let found = models::describe(&exchange, &name, &version).await?;
        let tensors = |tensors: Vec<metadata::TensorMetadata>| {
            let tensors = tensors.into_iter();
            tensors.map(|metadata::TensorMetadata { name, datatype, shape }| TensorMetadata {
                name,
                datatype: datatype.into(),
                shape,
            })
        };
        Ok(Response::new(pb::ModelMetadataResponse {
            name: found.name,
            versions: found.versions.to_vec(),
            platform: found.platform.to_owned(),
            inputs: tensors(found.inputs).collect(),
            outputs: tensors(found.outputs).collect(),
        }))
    }

    /// `RepositoryIndex`.
    pub async fn repository_index(
        &self,
        request: tonic::Request<pb::RepositoryIndexRequest>,
    ) -> Result<Response<pb::RepositoryIndexResponse>, Status> {
        let (exchange, _) = self.exchange(request)?;
        let entries = models::index(&exchange).await?.into_iter();
        let model = |metadata::IndexEntry { name, version, state }| ModelIndex {
            name,
            version,
            state: state.into(),
            reason: String::new(),
        };
        Ok(Response::new(pb::RepositoryIndexResponse { models: entries.map(model).collect() }))
    }

    /// `ModelInfer`. `received` holds the memory of the encoded request, which is released before the service is called.
    pub async fn model_infer(
        &self,
        request: tonic::Request<pb::ModelInferRequest>,
        received: impl Send,
    ) -> Result<Response<pb::ModelInferResponse>, Status> {
        let (exchange, message) = self.exchange(request)?;
        // Contents that are not raw become so.
        let is_raw = !message.raw_input_contents.is_empty();
        let bytes = if is_raw { 0 } else { 2 * message.encoded_len() as u64 };
        let held = exchange.caller.account.charge(bytes)?;
        let request = from_grpc(message)?;
        let response = infer::infer(&exchange, request, (received, held)).await?;
        Ok(Response::new(to_grpc(response)))
    }
}

/// The response of `ServerMetadata`.
pub fn server_metadata() -> pb::ServerMetadataResponse {
    pb::ServerMetadataResponse {
        name: NAME.to_owned(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        extensions: EXTENSIONS.map(str::to_owned).to_vec(),
    }
}

/// Decodes a request.
pub(crate) fn from_grpc(message: pb::ModelInferRequest) -> Result<infer::Request, Failure> {
    let pb::ModelInferRequest { model_name, model_version, id, parameters, inputs, outputs, raw_input_contents } =
        message;
    let expected = inputs.len();
    let got = raw_input_contents.len();
    if got != 0 && got != expected {
        let message = format!("expected none, or one for each of the {expected} inputs, got {got}");
        return Err(Failure::invalid("raw_input_contents", message));
    }
    let raw = raw_input_contents.into_iter().map(Some).chain(std::iter::repeat(None));
    let inputs = inputs.into_iter().zip(raw).map(|(input, raw)| tensor(input, raw)).collect::<Result<_, _>>()?;
    let mut names = vec![];
    for output in outputs {
        Parameters::from(output.parameters).refuse_unsupported(&output.name)?;
        names.push(output.name);
    }
    let parameters = parameters.into();
    Ok(infer::Request { model: model_name, version: model_version, id, parameters, inputs, outputs: names })
}

fn tensor(input: InferInputTensor, raw: Option<Bytes>) -> Result<Tensor, Failure> {
    let InferInputTensor { name, datatype, shape, parameters, contents } = input;
    Parameters::from(parameters).refuse_unsupported(&name)?;
    let datatype = Datatype::named(&name, &datatype)?;
    let contents = contents.unwrap_or_default();
    let data = match raw {
        Some(raw) if contents == InferTensorContents::default() => raw,
        Some(_) => return Err(Failure::invalid(&name, "expected contents or raw_input_contents, got both")),
        None => elements(&name, datatype, &contents)?.into(),
    };
    Tensor::new(name, datatype, shape, data)
}

/// The bytes of contents, which are in the field of their type and in no other.
fn elements(name: &str, datatype: Datatype, contents: &InferTensorContents) -> Result<Vec<u8>, Failure> {
    let InferTensorContents {
        bool_contents,
        int_contents,
        int64_contents,
        uint_contents,
        uint64_contents,
        fp32_contents,
        fp64_contents,
        bytes_contents,
    } = contents;
    let fields = [
        ("bool_contents", bool_contents.len()),
        ("int_contents", int_contents.len()),
        ("int64_contents", int64_contents.len()),
        ("uint_contents", uint_contents.len()),
        ("uint64_contents", uint64_contents.len()),
        ("fp32_contents", fp32_contents.len()),
        ("fp64_contents", fp64_contents.len()),
        ("bytes_contents", bytes_contents.len()),
    ];
    let mut out = vec![];
    let mut fits = Some(());
    macro_rules! numbers {
        ($field:ident, $kind:ty) => {{
            for number in $field {
                match <$kind>::try_from(*number) {
                    Ok(number) => out.extend(number.to_le_bytes()),
                    Err(_) => fits = None,
                }
            }
            stringify!($field)
        }};
    }
    let field = match datatype {
        Datatype::Bool => {
            out.extend(bool_contents.iter().map(|value| u8::from(*value)));
            "bool_contents"
        }
        Datatype::Int8 => numbers!(int_contents, i8),
        Datatype::Int16 => numbers!(int_contents, i16),
        Datatype::Int32 => numbers!(int_contents, i32),
        Datatype::Int64 => numbers!(int64_contents, i64),
        Datatype::Uint8 => numbers!(uint_contents, u8),
        Datatype::Uint16 => numbers!(uint_contents, u16),
        Datatype::Uint32 => numbers!(uint_contents, u32),
        Datatype::Uint64 => numbers!(uint64_contents, u64),
        Datatype::Fp32 => numbers!(fp32_contents, f32),
        Datatype::Fp64 => numbers!(fp64_contents, f64),
        Datatype::Bytes => {
            fits = bytes_contents.iter().try_for_each(|element| put_bytes(&mut out, element));
            "bytes_contents"
        }
        Datatype::Fp16 | Datatype::Bf16 => "raw_input_contents",
    };
    if let Some((other, _)) = fields.iter().find(|(other, count)| *other != field && *count > 0) {
        let message = format!("expected the elements of {} in {field}, got {other}", datatype.name());
        return Err(Failure::invalid(name, message));
    }
    fits.ok_or_else(|| {
        Failure::invalid(name, format!("expected elements of {}, got one out of range", datatype.name()))
    })?;
    Ok(out)
}

fn to_grpc(response: infer::Response) -> pb::ModelInferResponse {
    let infer::Response { model, version, id, outputs } = response;
    let mut described = vec![];
    let mut raw = vec![];
    for Tensor { name, datatype, shape, data } in outputs {
        described.push(InferOutputTensor { name, datatype: datatype.name().to_owned(), shape, ..Default::default() });
        raw.push(data);
    }
    pb::ModelInferResponse {
        model_name: model,
        model_version: version,
        id,
        outputs: described,
        raw_output_contents: raw,
        ..Default::default()
    }
}
