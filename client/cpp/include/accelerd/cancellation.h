// Cancellation of calls from another thread, as std::stop_token of C++20.
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <utility>

namespace accelerd {

namespace detail {
class CancellationState;
}

// Is passed in the options of calls. A default token is never cancelled. Tokens are cheap to copy.
class CancellationToken {
 public:
  // Calls a function on cancellation, or at once if that was before. Its destructor waits for a running function.
  class Registration {
   public:
    Registration() = default;
    Registration(const CancellationToken& token, std::function<void()> function);
    Registration(const Registration&) = delete;
    Registration& operator=(const Registration&) = delete;
    ~Registration();

   private:
    std::shared_ptr<detail::CancellationState> state_;
    std::size_t id_ = 0;
  };

  CancellationToken() = default;

  bool is_cancelled() const;
  // Sleeps. Returns false if the token is cancelled before or meanwhile.
  bool sleep_for(std::chrono::nanoseconds duration) const;

 private:
  friend class CancellationSource;
  explicit CancellationToken(std::shared_ptr<detail::CancellationState> state) : state_(std::move(state)) {}

  std::shared_ptr<detail::CancellationState> state_;
};

// Cancels all calls that have its token. Thread-safe.
class CancellationSource {
 public:
  CancellationSource();

  CancellationToken token() const { return CancellationToken(state_); }
  // Ends running calls with CANCELLED, and later ones before they are sent.
  void cancel() const;

 private:
  std::shared_ptr<detail::CancellationState> state_;
};

}  // namespace accelerd
