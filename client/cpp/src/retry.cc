#include "accelerd/detail/retry.h"

#include <algorithm>
#include <array>
#include <cmath>

namespace accelerd::detail {

namespace {

using Seconds = std::chrono::duration<double>;

constexpr Seconds first_backoff{0.05};
constexpr Seconds max_backoff{2};
// How long a call without a deadline is retried, from its first failure.
constexpr std::chrono::seconds without_deadline{60};

constexpr double retries_per_call = 0.2;
constexpr double retries_per_second = 1;
// The most retries that are earned with time, and the most that are kept.
constexpr double reserve = 10;
constexpr double max_balance = 1000;

// What gRPC says if it has no connection for a call.
constexpr std::array not_sent = {"failed to connect to all addresses", "connections to all backends failing", "DNS resolution failed",
                                 "empty address list"};

Duration duration_of(Seconds seconds) { return std::chrono::duration_cast<Duration>(seconds); }

}  // namespace

bool is_not_sent(const Error& error) {
  const auto begins = [&error](const char* text) { return error.message().rfind(text, 0) == 0; };
  return error.code() == StatusCode::UNAVAILABLE && std::any_of(not_sent.begin(), not_sent.end(), begins);
}

void RetryBudget::deposit() {
  std::lock_guard lock(mutex_);
  balance_ = std::min(balance_ + retries_per_call, max_balance);
}

Duration RetryBudget::withdraw(TimePoint now) {
  std::lock_guard lock(mutex_);
  const double passed = Seconds(now - updated_).count();
  updated_ = now;
  if (balance_ < reserve) balance_ = std::min(balance_ + passed * retries_per_second, reserve);
  balance_ -= 1;
  return duration_of(Seconds(std::max(-balance_ / retries_per_second, 0.0)));
}

void RetryBudget::put_back() {
  std::lock_guard lock(mutex_);
  balance_ = std::min(balance_ + 1, max_balance);
}

Attempts::Attempts(RetryBudget& budget, TimePoint deadline, std::optional<int> limit, bool is_idempotent)
    : budget_(budget), deadline_(deadline), limit_(limit), is_idempotent_(is_idempotent) {
  budget_.deposit();
}

void Attempts::progressed() {
  failed_ = 0;
  failing_since_.reset();
}

std::optional<Duration> Attempts::wait(const Error& error, TimePoint now, double random) {
  ++failed_;
  if (!failing_since_) failing_since_ = now;
  const bool is_sent = !is_not_sent(error);
  if ((limit_ && failed_ >= *limit_) || !may_repeat(error, is_sent)) return std::nullopt;
  const Duration left = (deadline_ == no_deadline ? *failing_since_ + without_deadline : deadline_) - now;
  const Seconds backoff = std::min(first_backoff * std::exp2(std::min(failed_ - 1, 20)), max_backoff);
  const Duration hint = error.retry_delay().value_or(Duration::zero());
  if (hint >= left) return std::nullopt;
  Duration wait = hint + duration_of(random * backoff);
  if (wait >= left) return std::nullopt;
  if (is_sent) {
    wait = std::max(wait, budget_.withdraw(now));
    if (wait >= left) {
      budget_.put_back();
      return std::nullopt;
    }
  }
  return wait;
}

bool Attempts::may_repeat(const Error& error, bool is_sent) const {
  const bool is_hinted = error.retry_delay().has_value();
  if (error.code() == StatusCode::UNAVAILABLE) return is_idempotent_ || is_hinted || !is_sent;
  return error.code() == StatusCode::RESOURCE_EXHAUSTED && is_hinted && error.reason() != "MESSAGE_TOO_LARGE";
}

}  // namespace accelerd::detail
