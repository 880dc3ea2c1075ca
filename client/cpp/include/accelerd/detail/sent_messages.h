// The numbered messages of a stream, which are kept until they are answered, so that another call can send them again.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>

#include "accelerd/error.h"

namespace accelerd::detail {

template <class Request>
class SentMessages {
 public:
  // Ordered messages are sent again from the first without an answer on, as later ones may replace what it writes.
  explicit SentMessages(bool is_ordered) : is_ordered_(is_ordered) {}

  // Numbers and keeps the next message.
  std::shared_ptr<const Request> keep(Request request) {
    request.set_sequence(count_);
    auto kept = std::make_shared<const Request>(std::move(request));
    kept_.emplace(count_++, kept);
    return kept;
  }

  // The messages that another call sends again.
  const std::map<std::uint64_t, std::shared_ptr<const Request>>& kept() const { return kept_; }

  std::size_t unanswered_count() const { return kept_.size() - answered_.size(); }

  // Notes a response. Returns whether it is the first to its message.
  bool answered(std::uint64_t sequence) {
    const auto found = kept_.find(sequence);
    if (found == kept_.end()) {
      // It was answered in an earlier call, and what preceded it in this one.
      if (is_ordered_ && sequence < count_) return false;
      throw Error(StatusCode::INTERNAL, "malformed response: unexpected sequence " + std::to_string(sequence));
    }
    if (!is_ordered_) {
      kept_.erase(found);
      return true;
    }
    const bool is_new = answered_.insert(sequence).second;
    while (!kept_.empty() && answered_.erase(kept_.begin()->first) == 1) kept_.erase(kept_.begin());
    return is_new;
  }

 private:
  bool is_ordered_;
  std::map<std::uint64_t, std::shared_ptr<const Request>> kept_;
  // Those that follow one without a response.
  std::set<std::uint64_t> answered_;
  std::uint64_t count_ = 0;
};

}  // namespace accelerd::detail
