#include "accelerd/detail/caller.h"

#include <google/protobuf/descriptor.pb.h>

#include <random>
#include <stdexcept>

namespace accelerd::detail {

namespace {

constexpr std::chrono::hours max_timeout{366 * 24};

double random_share() {
  thread_local std::minstd_rand generator(std::random_device{}());
  return std::uniform_real_distribution<double>()(generator);
}

void check_minimum(const char* name, long long value) {
  if (value < 1) throw std::invalid_argument(std::string(name) + ": expected at least 1, got " + std::to_string(value));
}

ClientOptions checked(ClientOptions options) {
  check_minimum("attempts", options.attempts.value_or(1));
  check_minimum("connections", options.connections);
  check_minimum("max_message_bytes", static_cast<long long>(options.max_message_bytes));
  if (options.timeout <= Duration::zero()) throw std::invalid_argument("timeout: expected a positive duration");
  return options;
}

}  // namespace

bool is_idempotent(const google::protobuf::Descriptor* request, const google::protobuf::Descriptor* response) {
  const auto* file = request->file();
  for (int i = 0; i < file->service_count(); ++i) {
    const auto* service = file->service(i);
    for (int j = 0; j < service->method_count(); ++j) {
      const auto* method = service->method(j);
      if (method->input_type() != request || method->output_type() != response) continue;
      return method->options().idempotency_level() != google::protobuf::MethodOptions::IDEMPOTENCY_UNKNOWN;
    }
  }
  return false;
}

Caller::Caller(const std::string& target, ClientOptions options)
    : options_(checked(std::move(options))),
      target_(parse_target(target, options_)),
      channels_(open_channels(target_, options_)),
      budget_(std::chrono::steady_clock::now()) {}

Channel& Caller::next_channel() {
  const TimePoint now = std::chrono::steady_clock::now();
  Channel* channel = nullptr;
  for (std::size_t i = 0; i < channels_.size(); ++i) {
    channel = channels_[turn_++ % channels_.size()].get();
    if (!channel->is_resting(now)) break;
  }
  return *channel;
}

TimePoint Caller::deadline(const CallOptions& options, Duration default_timeout) const {
  const Duration timeout = options.timeout.value_or(default_timeout);
  if (timeout < Duration::zero()) throw std::invalid_argument("timeout: expected at least 0");
  return timeout > max_timeout ? no_deadline : std::chrono::steady_clock::now() + timeout;
}

Attempts Caller::attempts(const CallOptions& options, TimePoint deadline, bool is_idempotent) {
  return {budget_, deadline, options_.attempts, options.is_idempotent.value_or(is_idempotent)};
}

void Caller::wait(Attempts& attempts, const Error& error, Channel& channel, const CancellationToken& cancellation) {
  const TimePoint now = std::chrono::steady_clock::now();
  if (is_not_sent(error)) channel.rest(now);
  const std::optional<Duration> wait = attempts.wait(error, now, random_share());
  if (!wait) throw error;
  if (!cancellation.sleep_for(*wait))
    throw Error(StatusCode::CANCELLED, "the caller cancelled the call; the last error was " + error.message());
}

void Caller::run(const CallOptions& options, bool is_idempotent, const Attempt& attempt) {
  const TimePoint end = deadline(options, options_.timeout);
  Attempts attempts = this->attempts(options, end, is_idempotent);
  for (;;) {
    Channel& channel = next_channel();
    grpc::Status status;
    {
      CallContext context(*this, options, end);
      status = attempt(channel, context.grpc());
    }
    if (status.ok()) return;
    wait(attempts, Error(status), channel, options.cancellation);
  }
}

}  // namespace accelerd::detail
