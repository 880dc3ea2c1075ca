// Streams of results over one call after another.
#pragma once

#include <grpcpp/support/sync_stream.h>

#include <memory>
#include <optional>
#include <utility>

#include "accelerd/detail/bidi_call.h"
#include "accelerd/detail/sent_messages.h"
#include "accelerd/stream.h"

namespace accelerd::detail {

// Options of the streams: without a deadline by default.
struct StreamSettings {
  CallOptions options;
  bool is_idempotent = true;
  bool is_ordered = false;
  std::size_t max_in_flight = 8;
};

// The responses of a stream whose requests are numbered. After a lost connection, or the drain of a daemon, requests without a response are
// sent to the next daemon.
template <class Request, class Response>
class ResumedStream final : public Stream<Response>::Source {
 public:
  ResumedStream(std::shared_ptr<Caller> caller, StartBidi<Request, Response> start, Input<Request> input, StreamSettings settings)
      : caller_(std::move(caller)),
        start_(std::move(start)),
        input_(std::move(input)),
        settings_(std::move(settings)),
        deadline_(caller_->deadline(settings_.options, no_timeout)),
        attempts_(caller_->attempts(settings_.options, deadline_, settings_.is_idempotent)),
        sent_(settings_.is_ordered) {}

  std::optional<Response> next() override {
    while (!is_complete_) {
      if (!call_) open();
      fill();
      if (auto response = call_->receive()) {
        attempts_.progressed();
        if (sent_.answered(response->sequence())) return response;
      } else {
        end_call();
      }
    }
    return std::nullopt;
  }

 private:
  void open() {
    channel_ = &caller_->next_channel();
    call_.emplace(std::make_unique<CallContext>(*caller_, settings_.options, deadline_), *channel_, start_);
    for (const auto& [sequence, message] : sent_.kept()) call_->send(message);
    if (has_input_ended_) call_->close();
  }

  void fill() {
    while (!has_input_ended_ && sent_.unanswered_count() < settings_.max_in_flight) {
      if (auto request = input_.next()) {
        call_->send(sent_.keep(std::move(*request)));
      } else {
        has_input_ended_ = true;
        call_->close();
      }
    }
  }

  void end_call() {
    const grpc::Status status = call_->status();
    call_.reset();
    // Also if an error is thrown.
    is_complete_ = true;
    if (has_input_ended_ && sent_.unanswered_count() == 0) return;
    if (status.ok()) throw Error(StatusCode::INTERNAL, "malformed response: the stream ended before its last request was answered");
    caller_->wait(attempts_, Error(status), *channel_, settings_.options.cancellation);
    is_complete_ = false;
  }

  std::shared_ptr<Caller> caller_;
  StartBidi<Request, Response> start_;
  Input<Request> input_;
  StreamSettings settings_;
  TimePoint deadline_;
  Attempts attempts_;
  SentMessages<Request> sent_;
  Channel* channel_ = nullptr;
  std::optional<BidiCall<Request, Response>> call_;
  bool has_input_ended_ = false;
  bool is_complete_ = false;
};

// The responses to one request, which is retried until the first of them.
template <class Stub, class Request, class Response>
class ResponseStream final : public Stream<Response>::Source {
 public:
  using Method = std::unique_ptr<grpc::ClientReader<Response>> (Stub::*)(grpc::ClientContext*, const Request&);

  ResponseStream(std::shared_ptr<Caller> caller, Method method, Request request, CallOptions options)
      : caller_(std::move(caller)),
        method_(method),
        request_(std::move(request)),
        options_(std::move(options)),
        deadline_(caller_->deadline(options_, no_timeout)),
        attempts_(caller_->attempts(options_, deadline_, is_idempotent<Request, Response>())) {}

  ~ResponseStream() override {
    if (!reader_) return;
    context_->grpc().TryCancel();
    end_call();
  }

  std::optional<Response> next() override {
    while (!is_complete_) {
      if (!reader_) open();
      Response response;
      if (reader_->Read(&response)) {
        has_response_ = true;
        return response;
      }
      const grpc::Status status = end_call();
      // Also if an error is thrown.
      is_complete_ = true;
      if (status.ok()) break;
      if (has_response_) throw Error(status);
      caller_->wait(attempts_, Error(status), *channel_, options_.cancellation);
      is_complete_ = false;
    }
    return std::nullopt;
  }

 private:
  void open() {
    channel_ = &caller_->next_channel();
    context_ = std::make_unique<CallContext>(*caller_, options_, deadline_);
    reader_ = (channel_->stub<Stub>().*method_)(&context_->grpc(), request_);
  }

  // gRPC ends a call only after it was finished.
  grpc::Status end_call() {
    const grpc::Status status = reader_->Finish();
    reader_.reset();
    context_.reset();
    return status;
  }

  std::shared_ptr<Caller> caller_;
  Method method_;
  Request request_;
  CallOptions options_;
  TimePoint deadline_;
  Attempts attempts_;
  Channel* channel_ = nullptr;
  std::unique_ptr<CallContext> context_;
  std::unique_ptr<grpc::ClientReader<Response>> reader_;
  bool has_response_ = false;
  bool is_complete_ = false;
};

// The items of a stream, from those of another.
template <class From, class T>
class MappedStream final : public Stream<T>::Source {
 public:
  MappedStream(std::unique_ptr<typename Stream<From>::Source> source, std::function<T(From)> map)
      : source_(std::move(source)), map_(std::move(map)) {}

  std::optional<T> next() override {
    auto item = source_->next();
    if (!item) return std::nullopt;
    return map_(std::move(*item));
  }

 private:
  std::unique_ptr<typename Stream<From>::Source> source_;
  std::function<T(From)> map_;
};

}  // namespace accelerd::detail
