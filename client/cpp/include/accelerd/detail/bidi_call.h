// One call of a method that streams in both directions.
#pragma once

#include <grpcpp/support/client_callback.h>

#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>

#include "accelerd/detail/caller.h"

namespace accelerd::detail {

// Starts a call on the stub of a channel.
template <class Request, class Response>
using StartBidi = std::function<void(Channel&, grpc::ClientContext*, grpc::ClientBidiReactor<Request, Response>*)>;

// Sends queued messages and collects responses on threads of gRPC, so that the thread of the caller only waits for responses. The caller
// bounds both queues by what it sends.
template <class Request, class Response>
class BidiCall final : private grpc::ClientBidiReactor<Request, Response> {
 public:
  BidiCall(std::unique_ptr<CallContext> context, Channel& channel, const StartBidi<Request, Response>& start)
      : context_(std::move(context)) {
    start(channel, &context_->grpc(), this);
    // Writes start outside of reactions: the call must not be freed before this object knows that it ended.
    this->AddHold();
    this->StartRead(&buffer_);
    this->StartCall();
  }

  BidiCall(const BidiCall&) = delete;
  BidiCall& operator=(const BidiCall&) = delete;

  // Cancels the call, unless it ended.
  ~BidiCall() override {
    context_->grpc().TryCancel();
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return is_done_; });
  }

  void send(std::shared_ptr<const Request> request) {
    std::lock_guard lock(mutex_);
    outgoing_.push_back(std::move(request));
    write_next();
  }

  // Half-closes the call after what is queued.
  void close() {
    std::lock_guard lock(mutex_);
    is_closing_ = true;
    write_next();
  }

  // Waits for the next response; none at the end of the call.
  std::optional<Response> receive() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return !incoming_.empty() || is_done_; });
    if (incoming_.empty()) return std::nullopt;
    std::optional<Response> response = std::move(incoming_.front());
    incoming_.pop_front();
    return response;
  }

  // After the end.
  const grpc::Status& status() const { return status_; }

 private:
  // Expects the lock. Reactions never run within the function that starts an operation.
  void write_next() {
    if (current_ || has_ended_) return;
    if (!outgoing_.empty()) {
      current_ = std::move(outgoing_.front());
      outgoing_.pop_front();
      this->StartWrite(current_.get());
    } else if (is_closing_ && !is_closed_) {
      is_closed_ = true;
      this->StartWritesDone();
    }
  }

  void OnWriteDone(bool ok) override {
    std::lock_guard lock(mutex_);
    current_.reset();
    if (ok) write_next();
  }

  void OnReadDone(bool ok) override {
    {
      std::lock_guard lock(mutex_);
      if (ok) {
        incoming_.push_back(std::move(buffer_));
        buffer_ = Response();
        this->StartRead(&buffer_);
        changed_.notify_all();
        return;
      }
      has_ended_ = true;
    }
    this->RemoveHold();
  }

  void OnDone(const grpc::Status& status) override {
    std::lock_guard lock(mutex_);
    status_ = status;
    is_done_ = true;
    changed_.notify_all();
  }

  std::unique_ptr<CallContext> context_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::shared_ptr<const Request>> outgoing_;
  // The message that is being written.
  std::shared_ptr<const Request> current_;
  bool is_closing_ = false;
  bool is_closed_ = false;
  Response buffer_;
  std::deque<Response> incoming_;
  // No more responses come, and nothing is written any more.
  bool has_ended_ = false;
  bool is_done_ = false;
  grpc::Status status_;
};

}  // namespace accelerd::detail
