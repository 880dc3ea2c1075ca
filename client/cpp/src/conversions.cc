#include "accelerd/detail/conversions.h"

#include <cstring>

namespace accelerd::detail {

namespace {

constexpr std::size_t uuid_bytes = 16;

// Hyphenated, in lower case.
std::string uuid_text(const char* bytes) {
  constexpr const char* digits = "0123456789abcdef";
  std::string text;
  for (std::size_t i = 0; i < uuid_bytes; ++i) {
    if (i == 4 || i == 6 || i == 8 || i == 10) text += '-';
    const auto byte = static_cast<unsigned char>(bytes[i]);
    text += digits[byte >> 4];
    text += digits[byte & 0xF];
  }
  return text;
}

}  // namespace

google::protobuf::Duration to_message(Duration duration) {
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(duration);
  google::protobuf::Duration message;
  message.set_seconds(seconds.count());
  message.set_nanos(static_cast<std::int32_t>((duration - seconds).count()));
  return message;
}

Duration duration_of(const google::protobuf::Duration& message) {
  return std::chrono::seconds(message.seconds()) + std::chrono::nanoseconds(message.nanos());
}

std::vector<PointId> ids_of(const v1::PointIds& message) {
  std::vector<PointId> ids(message.uuids().begin(), message.uuids().end());
  ids.insert(ids.end(), message.numbers().begin(), message.numbers().end());
  for (std::size_t at = 0; at + sizeof(std::uint64_t) <= message.packed_numbers().size(); at += sizeof(std::uint64_t)) {
    std::uint64_t number = 0;
    std::memcpy(&number, message.packed_numbers().data() + at, sizeof number);
    ids.emplace_back(number);
  }
  for (std::size_t at = 0; at + uuid_bytes <= message.packed_uuids().size(); at += uuid_bytes) {
    ids.emplace_back(uuid_text(message.packed_uuids().data() + at));
  }
  return ids;
}

v1::ClusterRequest cluster_request(std::uint32_t cluster_count, const ClusterOptions& options) {
  v1::ClusterRequest request;
  request.set_cluster_count(cluster_count);
  request.set_max_iterations(options.max_iterations);
  if (options.tolerance) request.set_tolerance(*options.tolerance);
  request.set_init_count(options.init_count);
  request.set_spherical(options.spherical);
  request.set_seed(options.seed);
  return request;
}

Clusters clusters_of(v1::ClusterResponse response) {
  Clusters clusters;
  clusters.centers = Tensor(std::move(*response.mutable_centers()));
  clusters.assignments = Tensor(std::move(*response.mutable_assignments()));
  clusters.inertia = response.inertia();
  clusters.iteration_count = response.iteration_count();
  clusters.converged = response.converged();
  clusters.ids = ids_of(response.ids());
  return clusters;
}

}  // namespace accelerd::detail
