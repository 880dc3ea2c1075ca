// Collections of points, similar rows and clusters.
#pragma once

#include <accelerd/v1/similarity.grpc.pb.h>

#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "accelerd/filter.h"
#include "accelerd/options.h"
#include "accelerd/points.h"
#include "accelerd/stream.h"
#include "accelerd/tensor.h"

namespace accelerd {

namespace detail {
class Caller;
}

struct CreateCollectionOptions : CallOptions {
  // 0 means the model's.
  std::uint32_t dimensions = 0;
  // Embeds the texts of points and queries; empty for vectors only.
  std::string model;
  v1::Metric metric = v1::METRIC_COSINE;
  // Element type of the copy that a GPU scans; results are the same for all.
  v1::Dtype storage = v1::DTYPE_UNSPECIFIED;
  // Payload field of the full-text index; empty for none.
  std::string text_field;
  v1::Durability durability = v1::DURABILITY_UNSPECIFIED;
  // Prompts before the texts of points and of queries; by default those of the model.
  std::optional<std::string> document_prompt;
  std::optional<std::string> query_prompt;
};

struct UpsertOptions : CallOptions {
  std::string prompt_name;
  std::optional<std::string> prompt;
};

struct UpsertResult {
  std::uint64_t inserted_count = 0;
  std::uint64_t updated_count = 0;
};

// What a search looks for: vectors f32 [n, dimensions], texts, or points of the collection.
using Queries = std::variant<Tensor, Texts, Ids>;

struct SearchOptions : CallOptions {
  std::uint32_t limit = 10;
  std::uint32_t offset = 0;
  std::optional<float> score_threshold;
  std::optional<Filter> filter;
  bool include_payload = true;
  // Combines full-text search with vector search.
  bool hybrid = false;
  v1::Fusion fusion = v1::FUSION_UNSPECIFIED;
  std::optional<float> text_weight;
  std::string prompt_name;
  std::optional<std::string> prompt;
};

struct FilterOptions : CallOptions {
  // By default all points.
  std::optional<Filter> filter;
};

struct ScrollOptions : FilterOptions {
  bool include_payload = true;
  bool include_vectors = false;
  // Points of a page, which is read with one call; 0 means 1,000.
  std::uint32_t page_size = 0;
};

struct GetOptions : CallOptions {
  bool include_vectors = false;
};

struct SimilarOptions : CallOptions {
  v1::Metric metric = v1::METRIC_COSINE;
  std::optional<float> score_threshold;
};

// The best rows of each query, best first.
struct Similar {
  // i32 [q, k], rows of the corpus; -1 where fewer than k pass the threshold.
  Tensor indices;
  // f32 [q, k].
  Tensor scores;
};

struct ClusterOptions : CallOptions {
  // 0 means 100.
  std::uint32_t max_iterations = 0;
  std::optional<double> tolerance;
  // Initialisations, of which the best result is returned; 0 means 1.
  std::uint32_t init_count = 0;
  // Normalises rows and centers.
  bool spherical = false;
  std::uint64_t seed = 0;
};

struct Clusters {
  // f32 [clusters, dimensions].
  Tensor centers;
  // i32 [n], the cluster of each row.
  Tensor assignments;
  double inertia = 0;
  std::uint32_t iteration_count = 0;
  bool converged = false;
  // The id of each row of a collection.
  std::vector<PointId> ids;
};

// A collection of a daemon, by its name. It shares the connections of its client, may outlive it, and is cheap to copy.
class Collection {
 public:
  Collection(std::shared_ptr<detail::Caller> caller, std::string name) : caller_(std::move(caller)), name_(std::move(name)) {}

  const std::string& name() const { return name_; }
  v1::Collection describe(const CallOptions& options = {}) const;

  // Inserts points, and replaces those whose ids exist. It is one atomic write if they fit into a message; else they are written in
  // parts, which stay if a later one fails.
  UpsertResult upsert(Points points, const UpsertOptions& options = {}) const;
  // Writes any number of points, with several messages in flight. The results are those of the steps, in order. After a lost connection,
  // or the drain of a daemon, what has no answer is sent to the next one. Without a deadline by default.
  Stream<UpsertResult> upsert_many(Input<Points> steps, const UpsertOptions& options = {}) const;

  // The nearest points to each query, best first.
  std::vector<std::vector<Hit>> search(Queries queries, const SearchOptions& options = {}) const;
  // Those of the points that exist.
  std::vector<Point> get(const Ids& ids, const GetOptions& options = {}) const;
  // All points, or those that a filter selects, in ascending order of id. The timeout is that of a page.
  Stream<Point> scroll(const ScrollOptions& options = {}) const;
  std::uint64_t count(const FilterOptions& options = {}) const;
  // Deletes points; returns how many existed.
  std::uint64_t delete_points(const Ids& ids, const CallOptions& options = {}) const;
  std::uint64_t delete_points(const Filter& filter, const CallOptions& options = {}) const;
  // Clusters all points by k-means.
  Clusters cluster(std::uint32_t cluster_count, const ClusterOptions& options = {}) const;
  // Writes a snapshot to an object store; an empty URL means the configured one.
  v1::Snapshot snapshot(const std::string& url = {}, const CallOptions& options = {}) const;

 private:
  std::shared_ptr<detail::Caller> caller_;
  std::string name_;
};

}  // namespace accelerd
