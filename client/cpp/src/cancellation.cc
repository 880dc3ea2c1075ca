#include "accelerd/cancellation.h"

#include <condition_variable>
#include <map>
#include <mutex>
#include <thread>

namespace accelerd {

namespace detail {

class CancellationState {
 public:
  bool is_cancelled() {
    std::lock_guard lock(mutex_);
    return is_cancelled_;
  }

  void cancel() {
    std::lock_guard lock(mutex_);
    if (is_cancelled_) return;
    is_cancelled_ = true;
    cancelled_.notify_all();
    // Under the lock, so that a registration that ends waits for its function.
    for (const auto& [id, function] : functions_) function();
  }

  bool sleep_for(std::chrono::nanoseconds duration) {
    std::unique_lock lock(mutex_);
    return !cancelled_.wait_for(lock, duration, [this] { return is_cancelled_; });
  }

  std::size_t add(std::function<void()> function) {
    std::lock_guard lock(mutex_);
    if (is_cancelled_) function();
    functions_.emplace(next_, std::move(function));
    return next_++;
  }

  void remove(std::size_t id) {
    std::lock_guard lock(mutex_);
    functions_.erase(id);
  }

 private:
  std::mutex mutex_;
  std::condition_variable cancelled_;
  bool is_cancelled_ = false;
  std::map<std::size_t, std::function<void()>> functions_;
  std::size_t next_ = 0;
};

}  // namespace detail

CancellationToken::Registration::Registration(const CancellationToken& token, std::function<void()> function) : state_(token.state_) {
  if (state_) id_ = state_->add(std::move(function));
}

CancellationToken::Registration::~Registration() {
  if (state_) state_->remove(id_);
}

bool CancellationToken::is_cancelled() const { return state_ && state_->is_cancelled(); }

bool CancellationToken::sleep_for(std::chrono::nanoseconds duration) const {
  if (state_) return state_->sleep_for(duration);
  std::this_thread::sleep_for(duration);
  return true;
}

CancellationSource::CancellationSource() : state_(std::make_shared<detail::CancellationState>()) {}

void CancellationSource::cancel() const { state_->cancel(); }

}  // namespace accelerd
