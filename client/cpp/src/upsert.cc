#include "accelerd/detail/upsert.h"

#include <algorithm>
#include <stdexcept>

namespace accelerd::detail {

namespace {

// Larger messages are slower: a message is copied before it is sent, and the daemon processes it only when it is complete.
constexpr std::size_t bulk_bytes = std::size_t{2} << 20;
// Points that a message may have, as texts.
constexpr std::size_t max_points = 65'536;
// Bound of an encoded id.
constexpr std::size_t id_bytes = 38;
constexpr std::size_t max_in_flight = 8;

void check_count(const char* name, std::size_t count, std::size_t expected) {
  if (count == expected) return;
  throw std::invalid_argument(std::string(name) + ": expected " + std::to_string(expected) + ", one for each id, got " +
                              std::to_string(count));
}

std::size_t row_count(const Tensor& vectors) {
  if (vectors.dtype() != Dtype::f32 || vectors.shape().size() != 2) {
    throw std::invalid_argument("vectors: expected f32 [n, dimensions]");
  }
  return static_cast<std::size_t>(vectors.shape().front());
}

CallOptions stream_options(const UpsertOptions& options) { return options; }

StartBidi<v1::UpsertStreamRequest, v1::UpsertStreamResponse> start_upsert() {
  return [](Channel& channel, grpc::ClientContext* context, auto* reactor) {
    channel.stub<v1::SimilarityService::Stub>().async()->UpsertStream(context, reactor);
  };
}

}  // namespace

PointsEncoder::PointsEncoder(const std::string& collection, const UpsertOptions& options, Points points)
    : points_(std::move(points)), size_(points_.ids.size()) {
  common_.set_collection(collection);
  common_.set_prompt_name(options.prompt_name);
  if (options.prompt) common_.set_prompt(*options.prompt);
  if (const auto* vectors = std::get_if<Tensor>(&points_.content)) {
    check_count("vectors", row_count(*vectors), size_);
  } else {
    check_count("texts", std::get<Texts>(points_.content).size(), size_);
  }
  if (!points_.payloads.empty()) check_count("payloads", points_.payloads.size(), size_);
}

v1::UpsertRequest PointsEncoder::request(std::size_t start, std::size_t count) const {
  v1::UpsertRequest request = common_;
  *request.mutable_ids() = points_.ids.to_message(start, count);
  if (const auto* vectors = std::get_if<Tensor>(&points_.content)) {
    *request.mutable_vectors() = vectors->rows(start, count).to_message();
  } else {
    const auto& texts = std::get<Texts>(points_.content).message().values();
    const auto first = texts.begin() + static_cast<std::ptrdiff_t>(start);
    request.mutable_texts()->mutable_values()->Add(first, first + static_cast<std::ptrdiff_t>(count));
  }
  if (points_.payloads.empty()) return request;
  for (std::size_t i = start; i < start + count; ++i) *request.add_payloads() = to_message(points_.payloads[i]);
  return request;
}

std::size_t PointsEncoder::end_of_part(std::size_t start, std::size_t max_bytes) const {
  std::size_t bytes = bytes_of(start);
  std::size_t end = start + 1;
  while (end < size_ && end - start < max_points) {
    bytes += bytes_of(end);
    if (bytes > max_bytes) break;
    ++end;
  }
  return end;
}

void PointsEncoder::check_ids() const {
  const v1::PointIds ids = points_.ids.to_message();
  std::vector<std::string> all(ids.uuids().begin(), ids.uuids().end());
  for (std::size_t i = 0; i < ids.packed_numbers().size(); i += sizeof(std::uint64_t)) {
    all.push_back(ids.packed_numbers().substr(i, sizeof(std::uint64_t)));
  }
  std::sort(all.begin(), all.end());
  if (std::adjacent_find(all.begin(), all.end()) != all.end()) throw std::invalid_argument("ids: expected distinct ids, got a duplicate");
}

std::size_t PointsEncoder::bytes_of(std::size_t i) const {
  std::size_t bytes = id_bytes;
  if (const auto* vectors = std::get_if<Tensor>(&points_.content)) {
    bytes += vectors->bytes().size() / size_;
  } else {
    bytes += std::get<Texts>(points_.content).message().values(static_cast<int>(i)).size();
  }
  return points_.payloads.empty() ? bytes : bytes + to_message(points_.payloads[i]).ByteSizeLong();
}

UpsertSteps::UpsertSteps(std::shared_ptr<Caller> caller, std::string collection, Input<Points> steps, const UpsertOptions& options)
    : collection_(std::move(collection)),
      options_(options),
      input_(std::move(steps)),
      max_bytes_(std::min(bulk_bytes, caller->options().max_message_bytes)),
      stream_(std::move(caller), start_upsert(), Input<v1::UpsertStreamRequest>([this] { return next_request(); }),
              {stream_options(options), is_idempotent<v1::UpsertStreamRequest, v1::UpsertStreamResponse>(), true, max_in_flight}) {}

std::optional<UpsertResult> UpsertSteps::next() {
  const auto is_done = [this] {
    return !steps_.empty() && steps_.front().is_sent && steps_.front().answered_count == steps_.front().sent_count;
  };
  while (!is_done()) {
    if (const auto response = stream_.next()) {
      add(*response);
    } else if (!is_done()) {
      return std::nullopt;
    }
  }
  const UpsertResult result = steps_.front().result;
  steps_.pop_front();
  return result;
}

std::optional<v1::UpsertStreamRequest> UpsertSteps::next_request() {
  while (!sending_) {
    if (!begin_step()) return std::nullopt;
  }
  const std::size_t end = sending_->end_of_part(sent_points_, max_bytes_);
  v1::UpsertStreamRequest request;
  *request.mutable_upsert() = sending_->request(sent_points_, end - sent_points_);
  ++sequence_;
  ++steps_.back().sent_count;
  sent_points_ = end;
  steps_.back().is_sent = end == sending_->size();
  if (steps_.back().is_sent) sending_.reset();
  return request;
}

// Returns false at the end of the input.
bool UpsertSteps::begin_step() {
  auto points = input_.next();
  if (!points) return false;
  sending_.emplace(collection_, options_, std::move(*points));
  sending_->check_ids();
  sent_points_ = 0;
  steps_.push_back({sequence_});
  // The daemon expects a point.
  steps_.back().is_sent = sending_->size() == 0;
  if (steps_.back().is_sent) sending_.reset();
  return true;
}

void UpsertSteps::add(const v1::UpsertStreamResponse& response) {
  if (response.has_error()) throw Error(static_cast<StatusCode>(response.error().code()), response.error().message());
  const auto step = std::find_if(steps_.begin(), steps_.end(), [&response](const Step& one) {
    return response.sequence() >= one.first_sequence && response.sequence() - one.first_sequence < one.sent_count;
  });
  if (step == steps_.end()) throw Error(StatusCode::INTERNAL, "malformed response: unexpected sequence");
  ++step->answered_count;
  step->result.inserted_count += response.upsert().inserted_count();
  step->result.updated_count += response.upsert().updated_count();
}

}  // namespace accelerd::detail
