#include "accelerd/collection.h"

#include "accelerd/detail/conversions.h"
#include "accelerd/detail/unary.h"
#include "accelerd/detail/upsert.h"

namespace accelerd {

namespace {

using Stub = v1::SimilarityService::Stub;

Hit hit_of(const v1::Hit& message) {
  PointId id = message.number();
  if (message.id_case() == v1::Hit::kUuid) id = message.uuid();
  return {std::move(id), message.score(), payload_of(message.payload())};
}

v1::SearchRequest search_request(const std::string& name, Queries queries, const SearchOptions& options) {
  v1::SearchRequest request;
  request.set_collection(name);
  if (auto* vectors = std::get_if<Tensor>(&queries)) {
    *request.mutable_vectors() = std::move(*vectors).to_message();
  } else if (auto* texts = std::get_if<Texts>(&queries)) {
    *request.mutable_texts() = std::move(*texts).message();
  } else {
    *request.mutable_ids() = std::get<Ids>(queries).to_message();
  }
  request.set_limit(options.limit);
  request.set_offset(options.offset);
  if (options.score_threshold) request.set_score_threshold(*options.score_threshold);
  if (options.filter) *request.mutable_filter() = options.filter->message();
  request.set_include_payload(options.include_payload);
  request.set_hybrid(options.hybrid);
  request.set_fusion(options.fusion);
  if (options.text_weight) request.set_text_weight(*options.text_weight);
  request.set_prompt_name(options.prompt_name);
  if (options.prompt) request.set_prompt(*options.prompt);
  return request;
}

// Points of a response, which has vectors and payloads if they were requested.
template <class Response>
std::vector<Point> points_of(Response& response) {
  const std::vector<PointId> ids = detail::ids_of(response.ids());
  std::vector<Point> points(ids.size());
  std::optional<Tensor> vectors;
  if (response.has_vectors() && !ids.empty()) vectors.emplace(std::move(*response.mutable_vectors()));
  for (std::size_t i = 0; i < points.size(); ++i) {
    points[i].id = ids[i];
    if (static_cast<int>(i) < response.payloads_size()) points[i].payload = payload_of(response.payloads(static_cast<int>(i)));
    if (!vectors) continue;
    const auto row = vectors->row<float>(i);
    points[i].vector.assign(row.begin(), row.end());
  }
  return points;
}

// Reads one page after another.
class Pages final : public Stream<Point>::Source {
 public:
  Pages(std::shared_ptr<detail::Caller> caller, v1::ScrollPointsRequest request, CallOptions options)
      : caller_(std::move(caller)), request_(std::move(request)), options_(std::move(options)) {}

  std::optional<Point> next() override {
    while (at_ == page_.size()) {
      if (is_last_) return std::nullopt;
      read();
    }
    return std::move(page_[at_++]);
  }

 private:
  void read() {
    auto response = detail::call(*caller_, &Stub::ScrollPoints, request_, options_);
    page_ = points_of(response);
    at_ = 0;
    is_last_ = response.next_cursor().empty();
    request_.set_cursor(response.next_cursor());
  }

  std::shared_ptr<detail::Caller> caller_;
  v1::ScrollPointsRequest request_;
  CallOptions options_;
  std::vector<Point> page_;
  std::size_t at_ = 0;
  bool is_last_ = false;
};

}  // namespace

v1::Collection Collection::describe(const CallOptions& options) const {
  v1::GetCollectionRequest request;
  request.set_name(name_);
  return detail::call(*caller_, &Stub::GetCollection, request, options).collection();
}

UpsertResult Collection::upsert(Points points, const UpsertOptions& options) const {
  const detail::PointsEncoder encoder(name_, options, points);
  const std::size_t limit = caller_->options().max_message_bytes;
  if (encoder.size() == 0) return {};
  if (encoder.end_of_part(0, limit) == encoder.size()) {
    const v1::UpsertRequest request = encoder.request(0, encoder.size());
    if (request.ByteSizeLong() <= limit) {
      const auto response = detail::call(*caller_, &Stub::Upsert, request, options);
      return {response.inserted_count(), response.updated_count()};
    }
  }
  UpsertOptions in_parts = options;
  in_parts.timeout = options.timeout.value_or(caller_->options().timeout);
  std::vector<Points> steps;
  steps.push_back(std::move(points));
  return upsert_many(std::move(steps), in_parts).next().value_or(UpsertResult{});
}

Stream<UpsertResult> Collection::upsert_many(Input<Points> steps, const UpsertOptions& options) const {
  return Stream<UpsertResult>(std::make_unique<detail::UpsertSteps>(caller_, name_, std::move(steps), options));
}

std::vector<std::vector<Hit>> Collection::search(Queries queries, const SearchOptions& options) const {
  const auto response = detail::call(*caller_, &Stub::Search, search_request(name_, std::move(queries), options), options);
  std::vector<std::vector<Hit>> results;
  for (const auto& result : response.results()) {
    auto& hits = results.emplace_back();
    for (const auto& hit : result.hits()) hits.push_back(hit_of(hit));
  }
  return results;
}

std::vector<Point> Collection::get(const Ids& ids, const GetOptions& options) const {
  v1::GetPointsRequest request;
  request.set_collection(name_);
  *request.mutable_ids() = ids.to_message();
  request.set_include_vectors(options.include_vectors);
  auto response = detail::call(*caller_, &Stub::GetPoints, request, options);
  return points_of(response);
}

Stream<Point> Collection::scroll(const ScrollOptions& options) const {
  v1::ScrollPointsRequest request;
  request.set_collection(name_);
  if (options.filter) *request.mutable_filter() = options.filter->message();
  request.set_limit(options.page_size);
  request.set_include_payload(options.include_payload);
  request.set_include_vectors(options.include_vectors);
  return Stream<Point>(std::make_unique<Pages>(caller_, std::move(request), options));
}

std::uint64_t Collection::count(const FilterOptions& options) const {
  v1::CountPointsRequest request;
  request.set_collection(name_);
  if (options.filter) *request.mutable_filter() = options.filter->message();
  return detail::call(*caller_, &Stub::CountPoints, request, options).point_count();
}

std::uint64_t Collection::delete_points(const Ids& ids, const CallOptions& options) const {
  return delete_points(Filter().ids(ids), options);
}

std::uint64_t Collection::delete_points(const Filter& filter, const CallOptions& options) const {
  v1::DeletePointsRequest request;
  request.set_collection(name_);
  *request.mutable_filter() = filter.message();
  return detail::call(*caller_, &Stub::DeletePoints, request, options).deleted_count();
}

Clusters Collection::cluster(std::uint32_t cluster_count, const ClusterOptions& options) const {
  v1::ClusterRequest request = detail::cluster_request(cluster_count, options);
  request.set_collection(name_);
  return detail::clusters_of(detail::call(*caller_, &Stub::Cluster, request, options));
}

v1::Snapshot Collection::snapshot(const std::string& url, const CallOptions& options) const {
  v1::CreateSnapshotRequest request;
  request.set_collection(name_);
  request.set_url(url);
  return detail::call(*caller_, &Stub::CreateSnapshot, request, options).snapshot();
}

}  // namespace accelerd
