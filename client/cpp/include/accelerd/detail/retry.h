// Which failed calls are retried, and when: until their deadline and within a budget. The clock is an argument.
#pragma once

#include <chrono>
#include <mutex>
#include <optional>

#include "accelerd/error.h"

namespace accelerd::detail {

using TimePoint = std::chrono::steady_clock::time_point;

inline constexpr TimePoint no_deadline = TimePoint::max();

// Whether a call failed because there was no connection, and was not sent.
bool is_not_sent(const Error& error);

// The retries of a client, so that clients of a failing daemon do not multiply its load. Each call earns a fifth of a retry. A retry
// without a token waits for the tokens that are earned with time, so that a call survives as long as its deadline permits.
class RetryBudget {
 public:
  explicit RetryBudget(TimePoint now) : updated_(now) {}

  // Earns the retries of a call.
  void deposit();
  // Takes a retry. Returns the time until it may be made.
  Duration withdraw(TimePoint now);
  // Returns a retry that is not made.
  void put_back();

 private:
  std::mutex mutex_;
  // Retries of a new client. Negative if retries wait.
  double balance_ = 10;
  TimePoint updated_;
};

// The attempts of a call.
class Attempts {
 public:
  // Without a limit only the deadline bounds them.
  Attempts(RetryBudget& budget, TimePoint deadline, std::optional<int> limit, bool is_idempotent);

  // Counts anew, after a response of a stream.
  void progressed();
  // The time until the next attempt; none if the error is final. `random` is from 0 to 1.
  std::optional<Duration> wait(const Error& error, TimePoint now, double random);

 private:
  bool may_repeat(const Error& error, bool is_sent) const;

  RetryBudget& budget_;
  TimePoint deadline_;
  std::optional<int> limit_;
  bool is_idempotent_;
  int failed_ = 0;
  std::optional<TimePoint> failing_since_;
};

}  // namespace accelerd::detail
