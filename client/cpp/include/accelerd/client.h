// The client of a daemon.
#pragma once

#include <accelerd/v1/device.grpc.pb.h>
#include <accelerd/v1/embed.grpc.pb.h>
#include <accelerd/v1/kernel.grpc.pb.h>
#include <accelerd/v1/parse.grpc.pb.h>
#include <accelerd/v1/similarity.grpc.pb.h>
#include <accelerd/v1/tensor.grpc.pb.h>
#include <accelerd/v1/verify.grpc.pb.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "accelerd/collection.h"
#include "accelerd/detail/streams.h"
#include "accelerd/detail/unary.h"
#include "accelerd/embedding.h"
#include "accelerd/error.h"
#include "accelerd/graph.h"
#include "accelerd/kernel.h"
#include "accelerd/options.h"
#include "accelerd/stream.h"
#include "accelerd/tensor.h"
#include "accelerd/tree.h"

namespace accelerd {

// Batches of a stream that are sent before the first of them is answered.
inline constexpr std::size_t default_in_flight = 8;

// A client of a daemon, or of several between which calls take turns. It connects on the first call. All functions are thread-safe, and
// block until the answer; they throw accelerd::Error if the call fails, and std::invalid_argument for what cannot be sent.
class Client {
 public:
  // `host:port`, `https://host:port`, `http://host:port` or `unix:///path`, or several of them separated by commas. Empty means the
  // environment variable ACCELERD_SERVER, then localhost:7433. Throws std::invalid_argument for wrong options.
  explicit Client(const std::string& target = {}, ClientOptions options = {});
  Client(Client&&) noexcept = default;
  Client& operator=(Client&&) noexcept = default;
  ~Client() = default;

  // Makes a call of a generated stub: `client.call(&v1::EmbedService::Stub::Embed, request)`. It has the token, and is retried until its
  // deadline.
  template <class Stub, class Request, class Response>
  Response call(grpc::Status (Stub::*method)(grpc::ClientContext*, const Request&, Response*), const detail::identity<Request>& request,
                const CallOptions& options = {}) const {
    return detail::call(*caller_, method, request, options);
  }

  // The same for a method with a stream of responses, which is retried until the first of them. Without a deadline by default.
  template <class Stub, class Request, class Response>
  Stream<Response> call(std::unique_ptr<grpc::ClientReader<Response>> (Stub::*method)(grpc::ClientContext*, const Request&),
                        detail::identity<Request> request, const CallOptions& options = {}) const {
    using Source = detail::ResponseStream<Stub, Request, Response>;
    return Stream<Response>(std::make_unique<Source>(caller_, method, std::move(request), options));
  }

  // A connection for stubs of your own. `prepare` sets the deadline, the metadata and the token of a call.
  std::shared_ptr<grpc::Channel> channel() const { return caller_->next_channel().grpc(); }
  void prepare(grpc::ClientContext& context, const CallOptions& options = {}) const;

  // Embeds texts.
  Embeddings embed(Texts texts, const EmbedOptions& options = {}) const;
  // Embeds any number of batches. Outcomes come in the order of completion.
  Stream<EmbedOutcome> embed_stream(Input<Texts> batches, const EmbedOptions& options = {},
                                    std::size_t max_in_flight = default_in_flight) const;
  // Ranks documents by their relevance to a query, best first, by a cross-encoder.
  std::vector<RankedDocument> rerank(const std::string& model, const std::string& query, Texts documents,
                                     const RerankOptions& options = {}) const;
  // The token ids of each text.
  std::vector<std::vector<std::uint32_t>> tokenize(Texts texts, const TokenizeOptions& options = {}) const;
  std::vector<v1::Model> models(const CallOptions& options = {}) const;
  // Loads a folder or file of the daemon's machine, or `hf://owner/name`.
  v1::Model load_model(const std::string& name, const std::string& path, const LoadModelOptions& options = {}) const;
  void unload_model(const std::string& name, const CallOptions& options = {}) const;

  // A handle; makes no call.
  Collection collection(const std::string& name) const { return {caller_, name}; }
  std::vector<v1::Collection> collections(const CallOptions& options = {}) const;
  Collection create_collection(const std::string& name, const CreateCollectionOptions& options = {}) const;
  void delete_collection(const std::string& name, const CallOptions& options = {}) const;
  // Creates a collection from a snapshot; an empty name means that of the original.
  Collection restore_collection(const std::string& url, const std::string& name = {}, const CallOptions& options = {}) const;
  // The k best rows of a corpus for each query; both are f32 [n, dimensions].
  Similar find_similar(Tensor queries, Tensor corpus, std::uint32_t k, const SimilarOptions& options = {}) const;
  // Clusters rows, f32 [n, dimensions], by k-means.
  Clusters cluster(Tensor rows, std::uint32_t cluster_count, const ClusterOptions& options = {}) const;

  // Parses Python. A source with a syntax error has a diagnostic; the call succeeds.
  std::vector<Parsed> parse(std::vector<Source> sources, const ParseOptions& options = {}) const;
  Stream<ParseOutcome> parse_stream(Input<std::vector<Source>> batches, const ParseOptions& options = {},
                                    std::size_t max_in_flight = default_in_flight) const;

  // Computes values of a graph in one call.
  std::vector<Tensor> execute(Graph graph, const std::vector<Graph::Value>& outputs, const ExecuteOptions& options = {}) const;
  // Computes values that stay on the device.
  std::vector<ResidentTensor> keep(Graph graph, const std::vector<Graph::Value>& outputs, const ExecuteOptions& options = {}) const;
  // Computes one operation: `client.op("matmul", {a, b})`.
  Tensor op(const std::string& name, std::vector<TensorSource> operands, const std::map<std::string, Attribute>& attributes = {},
            const ExecuteOptions& options = {}) const;
  ResidentTensor upload(const Tensor& tensor, const ExecuteOptions& options = {}) const;
  Tensor download(const ResidentTensor& tensor, const CallOptions& options = {}) const;
  void free(const std::vector<ResidentTensor>& tensors, const CallOptions& options = {}) const;

  // Translates the kernels of a module to CUDA C++ and WebAssembly.
  v1::TranslateResponse translate(const Kernel& kernel, const TranslateOptions& options = {}) const;
  // Runs a kernel.
  LaunchResult launch(const Kernel& kernel, Tensors arguments, const LaunchOptions& options = {}) const;
  // Compares tensors with expected ones of the same names.
  v1::CompareOutputsResponse compare(Tensors actual, Tensors expected, const CompareOptions& options = {}) const;
  // Compares what two functions compute for generated cases.
  v1::VerifySummary verify(const Kernel& subject, const Kernel& reference, const VerifyOptions& options = {}) const;
  // Any verification: docs/verify.md.
  v1::VerifySummary verify(v1::VerifyHeader header, std::vector<v1::VerifyCases> chunks, const CallOptions& options = {}) const;

  std::vector<v1::Device> devices(const CallOptions& options = {}) const;
  v1::GetStatsResponse stats(const CallOptions& options = {}) const;
  // Statistics at an interval, until the stream is destroyed.
  Stream<v1::WatchResponse> watch(Duration interval = std::chrono::seconds(1), const CallOptions& options = {}) const;
  // Stops accepting work, and waits until accepted calls are answered.
  v1::DrainResponse drain(std::optional<Duration> wait = {}, const CallOptions& options = {}) const;
  // Ends a drain. Returns whether there was one.
  bool resume(const CallOptions& options = {}) const;

 private:
  std::shared_ptr<detail::Caller> caller_;
};

}  // namespace accelerd
