#include <accelerd/client.h>
#include <doctest/doctest.h>

using namespace std::chrono_literals;
using accelerd::Duration;
using accelerd::Error;
using accelerd::StatusCode;
using accelerd::detail::Attempts;
using accelerd::detail::no_deadline;
using accelerd::detail::RetryBudget;
using accelerd::detail::TimePoint;

namespace {

constexpr TimePoint start{1000s};

Error unavailable(std::optional<Duration> retry_delay = {}) {
  return {StatusCode::UNAVAILABLE, "draining", {"DRAINING", {}, {}, {}, {}, retry_delay}};
}

Error not_sent() { return {StatusCode::UNAVAILABLE, "failed to connect to all addresses; last error: refused"}; }

Error busy(std::string reason, std::optional<Duration> retry_delay) {
  return {StatusCode::RESOURCE_EXHAUSTED, "full", {std::move(reason), {}, {}, {}, {}, retry_delay}};
}

bool is_retried(const Error& error, bool is_idempotent) {
  RetryBudget budget(start);
  return Attempts(budget, no_deadline, {}, is_idempotent).wait(error, start, 0).has_value();
}

}  // namespace

TEST_CASE("a call is retried if it is idempotent, was not sent, or the daemon says when") {
  CHECK(is_retried(unavailable(), true));
  CHECK_FALSE(is_retried(unavailable(), false));
  CHECK(is_retried(unavailable(10ms), false));
  CHECK(is_retried(not_sent(), false));
  CHECK(is_retried(busy("QUEUE_FULL", 10ms), false));
  CHECK_FALSE(is_retried(busy("QUEUE_FULL", {}), true));
  CHECK_FALSE(is_retried(busy("MESSAGE_TOO_LARGE", 10ms), true));
  for (const auto code : {StatusCode::INTERNAL, StatusCode::DEADLINE_EXCEEDED, StatusCode::CANCELLED, StatusCode::NOT_FOUND}) {
    CHECK_FALSE(is_retried(Error(code, "", {"", {}, {}, {}, {}, 10ms}), true));
  }
}

TEST_CASE("the backoff has full jitter, doubles from 50 ms to 2 s, and follows the daemon's delay") {
  RetryBudget budget(start);
  Attempts attempts(budget, no_deadline, {}, true);
  const std::vector<Duration> bounds = {50ms, 100ms, 200ms, 400ms, 800ms, 1600ms, 2s, 2s};
  for (const Duration bound : bounds) CHECK(attempts.wait(not_sent(), start, 1) == bound);
  CHECK(attempts.wait(not_sent(), start, 0) == Duration::zero());
  attempts.progressed();
  CHECK(attempts.wait(not_sent(), start, 0.5) == 25ms);
  Attempts hinted(budget, no_deadline, {}, true);
  CHECK(hinted.wait(unavailable(300ms), start, 1) == 350ms);
  CHECK(hinted.wait(unavailable(300ms), start, 0) == 300ms);
}

TEST_CASE("a call is retried until its deadline, or for a minute without one") {
  RetryBudget budget(start);
  Attempts attempts(budget, start + 1s, {}, true);
  CHECK(attempts.wait(not_sent(), start + 900ms, 1) == 50ms);
  CHECK_FALSE(attempts.wait(not_sent(), start + 900ms, 1));
  CHECK_FALSE(attempts.wait(not_sent(), start + 2s, 0));
  Attempts endless(budget, no_deadline, {}, true);
  CHECK(endless.wait(not_sent(), start, 0));
  CHECK(endless.wait(not_sent(), start + 59s, 0));
  CHECK_FALSE(endless.wait(not_sent(), start + 60s, 0));
  endless.progressed();
  CHECK(endless.wait(not_sent(), start + 60s, 0));
}

TEST_CASE("a delay beyond any time is final") {
  RetryBudget budget(start);
  CHECK_FALSE(Attempts(budget, no_deadline, {}, true).wait(unavailable(Duration::max()), start, 1));
}

TEST_CASE("a limit bounds the attempts") {
  RetryBudget budget(start);
  Attempts attempts(budget, no_deadline, 2, true);
  CHECK(attempts.wait(not_sent(), start, 0));
  CHECK_FALSE(attempts.wait(not_sent(), start, 0));
}

TEST_CASE("retries beyond the budget wait for those that are earned with time") {
  RetryBudget budget(start);
  for (int i = 0; i < 10; ++i) CHECK(budget.withdraw(start) == Duration::zero());
  CHECK(budget.withdraw(start) == 1s);
  CHECK(budget.withdraw(start) == 2s);
  budget.put_back();
  CHECK(budget.withdraw(start + 1s) == 1s);
  CHECK(budget.withdraw(start + 100s) == Duration::zero());
}

TEST_CASE("five calls earn a retry") {
  RetryBudget budget(start);
  for (int i = 0; i < 10; ++i) budget.withdraw(start);
  for (int i = 0; i < 5; ++i) budget.deposit();
  CHECK(budget.withdraw(start) <= 1us);
  CHECK(budget.withdraw(start) >= 999ms);
}

TEST_CASE("attempts that reach no daemon are free, and retries that come too late are returned") {
  RetryBudget budget(start);
  Attempts attempts(budget, start + 3s, {}, true);
  for (int i = 0; i < 100; ++i) CHECK(attempts.wait(not_sent(), start, 0));
  for (int i = 0; i < 10; ++i) CHECK(attempts.wait(unavailable(), start, 0) == Duration::zero());
  CHECK(attempts.wait(unavailable(), start, 0) >= 799ms);
  CHECK(attempts.wait(unavailable(), start, 0) >= 1799ms);
  CHECK(attempts.wait(unavailable(), start, 0) >= 2799ms);
  CHECK_FALSE(attempts.wait(unavailable(), start, 0));
  CHECK(attempts.wait(unavailable(), start + 2s, 0).has_value() == false);
}

TEST_CASE("descriptors say which methods are idempotent") {
  using namespace accelerd::v1;
  CHECK(accelerd::detail::is_idempotent<SearchRequest, SearchResponse>());
  CHECK(accelerd::detail::is_idempotent<UpsertStreamRequest, UpsertStreamResponse>());
  CHECK_FALSE(accelerd::detail::is_idempotent<CreateCollectionRequest, CreateCollectionResponse>());
  CHECK_FALSE(accelerd::detail::is_idempotent<SearchRequest, UpsertResponse>());
}
