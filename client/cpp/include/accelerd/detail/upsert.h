// Writes of points: the messages of a write, and the results of many.
#pragma once

#include <accelerd/v1/similarity.grpc.pb.h>

#include <deque>
#include <memory>
#include <optional>
#include <string>

#include "accelerd/collection.h"
#include "accelerd/detail/streams.h"

namespace accelerd::detail {

// Checked points, and the requests that write ranges of them.
class PointsEncoder {
 public:
  // Throws std::invalid_argument if there is not one vector or text, and no or one payload, for each id.
  PointsEncoder(const std::string& collection, const UpsertOptions& options, Points points);

  std::size_t size() const { return size_; }
  v1::UpsertRequest request(std::size_t start, std::size_t count) const;
  // The end of the part that begins with a point: of at least one point, and at most so many bytes.
  std::size_t end_of_part(std::size_t start, std::size_t max_bytes) const;
  // Throws std::invalid_argument for a duplicate, which the daemon would find only in a single message.
  void check_ids() const;

 private:
  std::size_t bytes_of(std::size_t i) const;

  v1::UpsertRequest common_;
  Points points_;
  std::size_t size_;
};

// The results of steps, each of which is written by any number of messages.
class UpsertSteps final : public Stream<UpsertResult>::Source {
 public:
  UpsertSteps(std::shared_ptr<Caller> caller, std::string collection, Input<Points> steps, const UpsertOptions& options);

  std::optional<UpsertResult> next() override;

 private:
  struct Step {
    std::uint64_t first_sequence = 0;
    std::size_t sent_count = 0;
    std::size_t answered_count = 0;
    bool is_sent = false;
    UpsertResult result{};
  };

  std::optional<v1::UpsertStreamRequest> next_request();
  bool begin_step();
  void add(const v1::UpsertStreamResponse& response);

  std::string collection_;
  UpsertOptions options_;
  Input<Points> input_;
  std::size_t max_bytes_;
  // The step whose messages are sent next, and how many of its points are.
  std::optional<PointsEncoder> sending_;
  std::size_t sent_points_ = 0;
  // Those without a result yet, in order.
  std::deque<Step> steps_;
  std::uint64_t sequence_ = 0;
  ResumedStream<v1::UpsertStreamRequest, v1::UpsertStreamResponse> stream_;
};

}  // namespace accelerd::detail
