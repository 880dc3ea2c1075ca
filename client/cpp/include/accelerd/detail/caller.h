// How calls are made: connections, the token, deadlines, cancellation and retries.
#pragma once

#include <google/protobuf/descriptor.h>
#include <grpcpp/channel.h>
#include <grpcpp/client_context.h>

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <typeindex>
#include <utility>
#include <vector>

#include "accelerd/detail/retry.h"
#include "accelerd/detail/target.h"
#include "accelerd/options.h"

namespace accelerd::detail {

// A connection to one address, and the stubs on it.
class Channel {
 public:
  explicit Channel(std::shared_ptr<grpc::Channel> channel) : channel_(std::move(channel)) {}

  const std::shared_ptr<grpc::Channel>& grpc() const { return channel_; }

  template <class Stub>
  Stub& stub() {
    std::lock_guard lock(mutex_);
    auto& found = stubs_[typeid(Stub)];
    if (!found) found = std::make_shared<Stub>(channel_);
    return *static_cast<Stub*>(found.get());
  }

  // Gets no calls for two seconds, if there are other addresses, as no connection could be made.
  void rest(TimePoint now) { rests_until_ = (now + std::chrono::seconds(2)).time_since_epoch(); }
  bool is_resting(TimePoint now) const { return now.time_since_epoch() < rests_until_.load(); }

 private:
  std::shared_ptr<grpc::Channel> channel_;
  std::mutex mutex_;
  std::map<std::type_index, std::shared_ptr<void>> stubs_;
  std::atomic<TimePoint::duration> rests_until_{TimePoint::duration::min()};
};

std::vector<std::unique_ptr<Channel>> open_channels(const Target& target, const ClientOptions& options);

// Whether a method is idempotent, by its option in the descriptor. Each method of the protocol has request and response of its own.
bool is_idempotent(const google::protobuf::Descriptor* request, const google::protobuf::Descriptor* response);

template <class Request, class Response>
bool is_idempotent() {
  static const bool found = is_idempotent(Request::descriptor(), Response::descriptor());
  return found;
}

class Caller;

// The context of one attempt: deadline, metadata, cancellation.
class CallContext {
 public:
  // Throws if the call is cancelled already, or no time is left.
  CallContext(const Caller& caller, const CallOptions& options, TimePoint deadline);

  grpc::ClientContext& grpc() { return context_; }

 private:
  grpc::ClientContext context_;
  CancellationToken::Registration registration_;
};

// Makes the calls of a client. Thread-safe.
class Caller {
 public:
  Caller(const std::string& target, ClientOptions options);

  const ClientOptions& options() const { return options_; }
  // Sets deadline and metadata of a call.
  void prepare(grpc::ClientContext& context, const CallOptions& options, TimePoint deadline) const;
  // The channel of the next call.
  Channel& next_channel();
  // The deadline of a call that begins now. Throws std::invalid_argument for a negative timeout.
  TimePoint deadline(const CallOptions& options, Duration default_timeout) const;
  Attempts attempts(const CallOptions& options, TimePoint deadline, bool is_idempotent);
  // Notes a failed attempt, and sleeps until the next one. Throws the error if it is final, or the call is cancelled.
  void wait(Attempts& attempts, const Error& error, Channel& channel, const CancellationToken& cancellation);

  using Attempt = std::function<grpc::Status(Channel&, grpc::ClientContext&)>;
  // Makes a call, with retries until its deadline.
  void run(const CallOptions& options, bool is_idempotent, const Attempt& attempt);

 private:
  ClientOptions options_;
  Target target_;
  std::vector<std::unique_ptr<Channel>> channels_;
  std::atomic<std::size_t> turn_{0};
  RetryBudget budget_;
};

}  // namespace accelerd::detail
