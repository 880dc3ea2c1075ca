#include "accelerd/client.h"

#include "accelerd/detail/conversions.h"

namespace accelerd {

Client::Client(const std::string& target, ClientOptions options) : caller_(std::make_shared<detail::Caller>(target, std::move(options))) {}

void Client::prepare(grpc::ClientContext& context, const CallOptions& options) const {
  caller_->prepare(context, options, caller_->deadline(options, caller_->options().timeout));
}

std::vector<v1::Collection> Client::collections(const CallOptions& options) const {
  return detail::vector_of(call(&v1::SimilarityService::Stub::ListCollections, {}, options).collections());
}

Collection Client::create_collection(const std::string& name, const CreateCollectionOptions& options) const {
  v1::CreateCollectionRequest request;
  request.set_name(name);
  request.set_dimensions(options.dimensions);
  request.set_metric(options.metric);
  request.set_storage(options.storage);
  request.set_model(options.model);
  request.set_durable(options.durability == v1::DURABILITY_LOG);
  request.set_durability(options.durability);
  request.set_text_field(options.text_field);
  if (options.document_prompt) request.set_document_prompt(*options.document_prompt);
  if (options.query_prompt) request.set_query_prompt(*options.query_prompt);
  call(&v1::SimilarityService::Stub::CreateCollection, request, options);
  return collection(name);
}

void Client::delete_collection(const std::string& name, const CallOptions& options) const {
  v1::DeleteCollectionRequest request;
  request.set_name(name);
  call(&v1::SimilarityService::Stub::DeleteCollection, request, options);
}

Collection Client::restore_collection(const std::string& url, const std::string& name, const CallOptions& options) const {
  v1::RestoreCollectionRequest request;
  request.set_url(url);
  request.set_name(name);
  return collection(call(&v1::SimilarityService::Stub::RestoreCollection, request, options).collection().name());
}

Similar Client::find_similar(Tensor queries, Tensor corpus, std::uint32_t k, const SimilarOptions& options) const {
  v1::FindSimilarRequest request;
  *request.mutable_queries() = std::move(queries).to_message();
  *request.mutable_corpus() = std::move(corpus).to_message();
  request.set_k(k);
  request.set_metric(options.metric);
  if (options.score_threshold) request.set_score_threshold(*options.score_threshold);
  auto response = call(&v1::SimilarityService::Stub::FindSimilar, request, options);
  return {Tensor(std::move(*response.mutable_indices())), Tensor(std::move(*response.mutable_scores()))};
}

Clusters Client::cluster(Tensor rows, std::uint32_t cluster_count, const ClusterOptions& options) const {
  v1::ClusterRequest request = detail::cluster_request(cluster_count, options);
  *request.mutable_vectors() = std::move(rows).to_message();
  return detail::clusters_of(call(&v1::SimilarityService::Stub::Cluster, request, options));
}

std::vector<v1::Device> Client::devices(const CallOptions& options) const {
  return detail::vector_of(call(&v1::DeviceService::Stub::ListDevices, {}, options).devices());
}

v1::GetStatsResponse Client::stats(const CallOptions& options) const { return call(&v1::DeviceService::Stub::GetStats, {}, options); }

Stream<v1::WatchResponse> Client::watch(Duration interval, const CallOptions& options) const {
  v1::WatchRequest request;
  *request.mutable_interval() = detail::to_message(interval);
  return call(&v1::DeviceService::Stub::Watch, std::move(request), options);
}

v1::DrainResponse Client::drain(std::optional<Duration> wait, const CallOptions& options) const {
  v1::DrainRequest request;
  if (wait) *request.mutable_timeout() = detail::to_message(*wait);
  return call(&v1::DeviceService::Stub::Drain, request, options);
}

bool Client::resume(const CallOptions& options) const { return call(&v1::DeviceService::Stub::Resume, {}, options).resumed(); }

}  // namespace accelerd
