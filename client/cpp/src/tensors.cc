#include <algorithm>

#include "accelerd/client.h"
#include "accelerd/detail/conversions.h"

namespace accelerd {

namespace {

using TensorStub = v1::TensorService::Stub;

// Bytes of a message of an upload.
constexpr std::size_t chunk_bytes = std::size_t{1} << 20;

v1::ExecuteResponse execute_graph(const Client& client, Graph graph, const std::vector<Graph::Value>& outputs, bool keep,
                                  const ExecuteOptions& options) {
  v1::ExecuteRequest request = std::move(graph).to_message(outputs, keep);
  request.set_device(options.device);
  if (options.ttl) *request.mutable_keep_ttl() = detail::to_message(*options.ttl);
  CallOptions call_options = options;
  // Only a graph that keeps tensors would keep them twice.
  if (!keep) call_options.is_idempotent = options.is_idempotent.value_or(true);
  return client.call(&TensorStub::Execute, request, call_options);
}

// Sends a tensor in chunks. gRPC ends the writes if the daemon refuses it.
void write(grpc::ClientWriter<v1::UploadTensorRequest>& writer, const Tensor& tensor, const ExecuteOptions& options) {
  v1::UploadTensorRequest message;
  auto& header = *message.mutable_header();
  header.set_dtype(static_cast<v1::Dtype>(tensor.dtype()));
  header.mutable_shape()->Add(tensor.shape().begin(), tensor.shape().end());
  header.set_device(options.device);
  if (options.ttl) *header.mutable_ttl() = detail::to_message(*options.ttl);
  std::size_t at = 0;
  do {
    const std::size_t count = std::min(chunk_bytes, tensor.bytes().size() - at);
    message.set_data(tensor.bytes().data() + at, count);
    if (!writer.Write(message)) break;
    message.clear_header();
    at += count;
  } while (at < tensor.bytes().size());
  writer.WritesDone();
}

}  // namespace

std::vector<Tensor> Client::execute(Graph graph, const std::vector<Graph::Value>& outputs, const ExecuteOptions& options) const {
  auto response = execute_graph(*this, std::move(graph), outputs, false, options);
  std::vector<Tensor> tensors;
  for (auto& output : *response.mutable_outputs()) tensors.emplace_back(std::move(output));
  if (tensors.size() != outputs.size()) throw Error(StatusCode::INTERNAL, "malformed response: not one tensor for each output");
  return tensors;
}

std::vector<ResidentTensor> Client::keep(Graph graph, const std::vector<Graph::Value>& outputs, const ExecuteOptions& options) const {
  return detail::vector_of(execute_graph(*this, std::move(graph), outputs, true, options).kept());
}

Tensor Client::op(const std::string& name, std::vector<TensorSource> operands, const std::map<std::string, Attribute>& attributes,
                  const ExecuteOptions& options) const {
  Graph graph;
  std::vector<Graph::Value> inputs;
  for (auto& operand : operands) inputs.push_back(graph.input(std::move(operand)));
  const Graph::Value result = graph.op(name, inputs, attributes);
  return std::move(execute(std::move(graph), {result}, options).front());
}

ResidentTensor Client::upload(const Tensor& tensor, const ExecuteOptions& options) const {
  v1::UploadTensorResponse response;
  const bool is_idempotent = detail::is_idempotent<v1::UploadTensorRequest, v1::UploadTensorResponse>();
  caller_->run(options, is_idempotent, [&](detail::Channel& channel, grpc::ClientContext& context) {
    response.Clear();
    const auto writer = channel.stub<TensorStub>().UploadTensor(&context, &response);
    write(*writer, tensor, options);
    return writer->Finish();
  });
  return response.tensor();
}

Tensor Client::download(const ResidentTensor& tensor, const CallOptions& options) const {
  v1::DownloadTensorRequest request;
  request.set_handle(tensor.handle());
  CallOptions with_timeout = options;
  with_timeout.timeout = options.timeout.value_or(caller_->options().timeout);
  v1::Tensor message;
  for (const auto& part : call(&TensorStub::DownloadTensor, std::move(request), with_timeout)) {
    if (part.has_tensor()) {
      message.set_dtype(part.tensor().dtype());
      *message.mutable_shape() = part.tensor().shape();
    }
    message.mutable_data()->append(part.data());
  }
  return Tensor(std::move(message));
}

void Client::free(const std::vector<ResidentTensor>& tensors, const CallOptions& options) const {
  v1::FreeTensorsRequest request;
  for (const auto& tensor : tensors) request.add_handles(tensor.handle());
  call(&TensorStub::FreeTensors, request, options);
}

}  // namespace accelerd
