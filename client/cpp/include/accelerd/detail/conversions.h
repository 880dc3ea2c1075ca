// Messages that several helpers read and write.
#pragma once

#include <accelerd/v1/similarity.pb.h>
#include <google/protobuf/duration.pb.h>

#include <vector>

#include "accelerd/collection.h"

namespace accelerd::detail {

template <class T>
std::vector<T> vector_of(const google::protobuf::RepeatedPtrField<T>& values) {
  return {values.begin(), values.end()};
}

google::protobuf::Duration to_message(Duration duration);
Duration duration_of(const google::protobuf::Duration& message);

std::vector<PointId> ids_of(const v1::PointIds& message);

v1::ClusterRequest cluster_request(std::uint32_t cluster_count, const ClusterOptions& options);
Clusters clusters_of(v1::ClusterResponse response);

}  // namespace accelerd::detail
