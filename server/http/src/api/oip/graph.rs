//! Models that are graphs of tensor operations in files. Inference executes the graph with the inputs of the request.

use std::{io::Read, sync::Arc};

use accelerd_proto::{
    methods::tensor_service,
    v1::{self as pb, tensor_input::Source},
};
use bytes::Bytes;
use prost::Message;
use tokio::task::spawn_blocking;

use super::{
    datatype::Datatype,
    metadata::{self, Metadata, TensorMetadata},
    request::{Request, check_outputs, of_service, take_inputs},
    tensor::Tensor,
};
use crate::{
    api::models,
    caller::{Account, Held},
    exchange::Exchange,
    failure::Failure,
    graphs::{GraphFile, Graphs},
};

/// A graph with the charge of its memory. It is read for each request, so that requests account for it.
pub(super) struct Loaded {
    pub(super) version: u64,
    graph: pb::SavedGraph,
    held: Held,
}

/// The graph of a model; `None` if the model is none.
pub(super) async fn load(exchange: &Exchange, model: &str) -> Result<Option<Loaded>, Failure> {
    let settings = Arc::clone(&exchange.shared.settings);
    if settings.graphs.is_empty() {
        return Ok(None);
    }
    let account = Arc::clone(&exchange.caller.account);
    let model = model.to_owned();
    on_thread(move || read(&settings.graphs, &model, &*account, settings.max_body)).await
}

/// The names and versions of all graphs.
pub(super) async fn list(exchange: &Exchange) -> Result<Vec<(String, u64)>, Failure> {
    let graphs = Arc::clone(&exchange.shared.settings.graphs);
    on_thread(move || graphs.list().map_err(|error| unreadable("the folder of graphs", &error))).await
}

async fn on_thread<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, Failure> + Send + 'static,
) -> Result<T, Failure> {
    spawn_blocking(work).await.unwrap_or_else(|_panic| Err(Failure::fault()))
}

fn unreadable(what: &str, error: &dyn std::fmt::Display) -> Failure {
    Failure::internal(format!("{what} cannot be read: {error}"))
}

fn read(graphs: &Graphs, model: &str, account: &dyn Account, limit: usize) -> Result<Option<Loaded>, Failure> {
    let failed = |error: &dyn std::fmt::Display| unreadable(&format!("the graph {model:?}"), error);
    let Some(GraphFile { file, length, version }) = graphs.open(model).map_err(|error| failed(&error))? else {
        return Ok(None);
    };
    if length > limit as u64 {
        return Err(failed(&format!("its {length} bytes exceed server.max_message_bytes, {limit}")));
    }
    // Data of constants is not copied; the operations are a small part.
    let held = account.charge(2 * length)?;
    let mut data = vec![];
    file.take(length).read_to_end(&mut data).map_err(|error| failed(&error))?;
    let graph = pb::SavedGraph::decode(Bytes::from(data)).map_err(|error| failed(&error))?;
    Ok(Some(Loaded { version, graph, held }))
}

impl Loaded {
    pub(super) fn describe(&self, name: &str) -> Result<Metadata, Failure> {
        let known =
            |dtype| Datatype::of(dtype).ok_or_else(|| unreadable(&format!("the graph {name:?}"), &"a type is unknown"));
        let inputs =
            self.graph.inputs.iter().map(|one| Ok(TensorMetadata::new(&one.name, known(one.dtype())?, &one.shape)));
        let outputs =
            self.graph.outputs.iter().map(|one| Ok(TensorMetadata::new(&one.name, known(one.dtype())?, &one.shape)));
        Ok(Metadata {
            name: name.to_owned(),
            versions: [self.version.to_string()],
            platform: "accelerd_graph",
            inputs: inputs.collect::<Result<_, Failure>>()?,
            outputs: outputs.collect::<Result<_, Failure>>()?,
        })
    }
}

/// Executes a graph.
pub(super) async fn execute(
    exchange: &Exchange,
    loaded: Loaded,
    request: Request,
    received: impl Send,
) -> Result<Vec<Tensor>, Failure> {
    let Loaded { version, graph, held } = loaded;
    let checked = metadata::check_version(&request.model, &request.version, version);
    let (execute_request, names) = match checked.and_then(|()| execute_request(graph, request)) {
        Ok(prepared) => prepared,
        Err(failure) => {
            // Callers without rights learn nothing about the graph.
            models::list(exchange).await?;
            return Err(failure);
        }
    };
    let held = (received, held);
    let response: pb::ExecuteResponse = exchange.call_releasing(tensor_service::EXECUTE, execute_request, held).await?;
    names.iter().zip(response.outputs).map(|(name, tensor)| of_service(name, tensor)).collect()
}

/// The request that executes a graph, and the names of its outputs.
fn execute_request(graph: pb::SavedGraph, request: Request) -> Result<(pb::ExecuteRequest, Vec<String>), Failure> {
    let names: Vec<_> = graph.inputs.iter().map(|input| input.name.as_str()).collect();
    let tensors = take_inputs(request.inputs, &names)?;
    let mut inputs = graph.constants;
    for (tensor, declared) in tensors.into_iter().zip(graph.inputs) {
        inputs.push(bind(tensor, declared)?);
    }
    let names: Vec<_> = graph.outputs.iter().map(|output| output.name.as_str()).collect();
    check_outputs(&request.outputs, &names)?;
    let all = || names.iter().map(|name| (*name).to_owned()).collect();
    let asked: Vec<String> = if request.outputs.is_empty() { all() } else { request.outputs };
    let value = |name: &String| {
        let output = graph.outputs.iter().find(|output| output.name == *name);
        pb::TensorOutput { name: output.map(|output| output.value.clone()).unwrap_or_default(), keep: false }
    };
    let outputs = asked.iter().map(value).collect();
    Ok((pb::ExecuteRequest { inputs, nodes: graph.nodes, outputs, ..Default::default() }, asked))
}

/// A tensor of a request as an input of the graph.
fn bind(tensor: Tensor, declared: pb::SavedGraphInput) -> Result<pb::TensorInput, Failure> {
    if let Some(datatype) = Datatype::of(declared.dtype()) {
        tensor.expect_type(datatype)?;
    }
    let fits = |(got, expected): (&i64, &i64)| *expected == -1 || got == expected;
    if tensor.shape.len() != declared.shape.len() || !tensor.shape.iter().zip(&declared.shape).all(fits) {
        let message = format!("expected the shape {:?}, got {:?}", declared.shape, tensor.shape);
        return Err(Failure::invalid(&tensor.name, message));
    }
    let dtype = tensor.datatype.dtype().into();
    let value = pb::Tensor { dtype, shape: tensor.shape, data: tensor.data };
    Ok(pb::TensorInput { name: declared.value, source: Some(Source::Value(value)) })
}
