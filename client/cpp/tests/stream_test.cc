#include <doctest/doctest.h>

#include <future>
#include <numeric>
#include <thread>

#include "fake_daemon.h"

using namespace std::chrono_literals;
using accelerd::Client;
using accelerd::Error;
using accelerd::Points;
using accelerd::StatusCode;
using accelerd::Tensor;
using accelerd::Texts;
namespace v1 = accelerd::v1;

namespace {

using UpsertServer = grpc::ServerReaderWriter<v1::UpsertStreamResponse, v1::UpsertStreamRequest>;

v1::UpsertStreamResponse answer(const v1::UpsertStreamRequest& request) {
  v1::UpsertStreamResponse response;
  response.set_sequence(request.sequence());
  response.mutable_upsert()->set_inserted_count(request.upsert().ids().packed_numbers().size() / sizeof(std::uint64_t));
  return response;
}

// Answers writes. The first call ends after some messages, of which it answers every second one.
class Writes final : public v1::SimilarityService::Service {
 public:
  explicit Writes(int lost_after) : lost_after_(lost_after) {}

  grpc::Status UpsertStream(grpc::ServerContext*, UpsertServer* stream) override {
    auto& sequences = calls.emplace_back();
    v1::UpsertStreamRequest request;
    while (stream->Read(&request)) {
      sequences.push_back(request.sequence());
      const bool is_lost = calls.size() == 1 && static_cast<int>(sequences.size()) == lost_after_;
      if (calls.size() > 1 || request.sequence() % 2 == 1) stream->Write(answer(request));
      if (is_lost) return status_of(StatusCode::UNAVAILABLE);
    }
    return grpc::Status::OK;
  }

  // The sequences of each call.
  std::vector<std::vector<std::uint64_t>> calls;

 private:
  int lost_after_;
};

// Answers each write at once, or all with an error.
class Answers final : public v1::SimilarityService::Service {
 public:
  grpc::Status UpsertStream(grpc::ServerContext*, UpsertServer* stream) override {
    v1::UpsertStreamRequest request;
    while (stream->Read(&request)) {
      largest = std::max(largest, request.ByteSizeLong());
      ++messages;
      auto response = answer(request);
      if (fails) response.mutable_error()->set_code(StatusCode::NOT_FOUND);
      stream->Write(response);
    }
    return grpc::Status::OK;
  }

  bool fails = false;
  int messages = 0;
  std::size_t largest = 0;
};

Points points(std::uint64_t first, std::size_t count) {
  std::vector<std::uint64_t> ids(count);
  std::iota(ids.begin(), ids.end(), first);
  return {std::move(ids), Tensor::of({static_cast<std::int64_t>(count), 2}, std::vector<float>(2 * count, 1.0F)), {}};
}

// Answers batches of texts in pairs, the second one first.
class Embedder final : public v1::EmbedService::Service {
 public:
  using Server = grpc::ServerReaderWriter<v1::EmbedStreamResponse, v1::EmbedStreamRequest>;

  grpc::Status EmbedStream(grpc::ServerContext* context, Server* stream) override {
    v1::EmbedStreamRequest first;
    v1::EmbedStreamRequest second;
    while (stream->Read(&first) && stream->Read(&second)) {
      most_pulled = std::max(most_pulled.load(), pulled.load());
      stream->Write(answer(second));
      stream->Write(answer(first));
    }
    was_cancelled = context->IsCancelled();
    return grpc::Status::OK;
  }

  std::atomic<int> pulled{0};
  std::atomic<int> most_pulled{0};
  std::atomic<bool> was_cancelled{false};

 private:
  static v1::EmbedStreamResponse answer(const v1::EmbedStreamRequest& request) {
    v1::EmbedStreamResponse response;
    response.set_sequence(request.sequence());
    const auto& texts = request.embed().texts();
    if (texts.values(0) == "wrong") {
      response.mutable_error()->set_code(StatusCode::INVALID_ARGUMENT);
      response.mutable_error()->set_message("texts: wrong");
    } else {
      const std::vector<float> values(static_cast<std::size_t>(texts.values_size()), static_cast<float>(request.sequence()));
      *response.mutable_embed()->mutable_embeddings() = Tensor::of({texts.values_size(), 1}, values).to_message();
    }
    return response;
  }
};

// Reads a batch, and never answers it.
class Unanswering final : public v1::EmbedService::Service {
 public:
  grpc::Status EmbedStream(grpc::ServerContext* context, Embedder::Server* stream) override {
    v1::EmbedStreamRequest request;
    stream->Read(&request);
    read.set_value();
    while (!context->IsCancelled()) std::this_thread::yield();
    return grpc::Status::OK;
  }

  std::promise<void> read;
};

StatusCode code_of(accelerd::Stream<accelerd::EmbedOutcome>& stream) {
  try {
    stream.next();
  } catch (const Error& error) {
    return error.code();
  }
  return StatusCode::OK;
}

// Sends statistics until the client goes.
class Watched final : public v1::DeviceService::Service {
 public:
  grpc::Status Watch(grpc::ServerContext* context, const v1::WatchRequest* request,
                     grpc::ServerWriter<v1::WatchResponse>* writer) override {
    if (calls++ == 0) return status_of(StatusCode::UNAVAILABLE);
    interval = request->interval().nanos();
    v1::WatchResponse response;
    response.mutable_stats()->set_version("1");
    for (int i = 0; i < 3; ++i) writer->Write(response);
    while (!context->IsCancelled()) std::this_thread::yield();
    was_cancelled = true;
    return grpc::Status::OK;
  }

  std::atomic<int> calls{0};
  std::atomic<int> interval{0};
  std::atomic<bool> was_cancelled{false};
};

}  // namespace

TEST_CASE("a bulk write goes on with what has no answer after a lost connection") {
  Writes service(3);
  {
    const FakeDaemon daemon({&service});
    const Client client(daemon.target());
    std::vector<std::uint64_t> inserted;
    const std::vector<Points> steps = {points(0, 1), points(10, 2), points(20, 3), points(30, 4)};
    for (const auto& result : client.collection("code").upsert_many(steps)) inserted.push_back(result.inserted_count);
    CHECK(inserted == std::vector<std::uint64_t>{1, 2, 3, 4});
  }
  REQUIRE(service.calls.size() == 2);
  CHECK(service.calls[0] == std::vector<std::uint64_t>{0, 1, 2});
  // Message 1 is answered, but might be replaced by message 0, which is sent again.
  CHECK(service.calls[1] == std::vector<std::uint64_t>{0, 1, 2, 3});
}

TEST_CASE("points that exceed a message are written in several") {
  Answers service;
  const FakeDaemon daemon({&service});
  accelerd::ClientOptions options;
  options.max_message_bytes = 2000;
  const Client client(daemon.target(), options);
  CHECK(client.collection("code").upsert(points(0, 100)).inserted_count == 100);
  CHECK(service.messages > 1);
  CHECK(service.largest <= 2000);
}

TEST_CASE("steps without points have results, too") {
  Answers service;
  const FakeDaemon daemon({&service});
  const Client client(daemon.target());
  std::vector<std::uint64_t> inserted;
  for (const auto& result : client.collection("code").upsert_many(std::vector<Points>{points(0, 0), points(0, 1), points(1, 0)})) {
    inserted.push_back(result.inserted_count);
  }
  CHECK(inserted == std::vector<std::uint64_t>{0, 1, 0});
  CHECK_FALSE(client.collection("code").upsert_many(std::vector<Points>{}).next());
}

TEST_CASE("a message that fails ends a bulk write") {
  Answers service;
  service.fails = true;
  const FakeDaemon daemon({&service});
  const Client client(daemon.target());
  auto results = client.collection("code").upsert_many(std::vector<Points>{points(0, 1)});
  CHECK_THROWS_AS(results.next(), Error);
}

TEST_CASE("an exception of the input reaches the reader") {
  Answers service;
  const FakeDaemon daemon({&service});
  const Client client(daemon.target());
  const auto input = []() -> std::optional<Points> { throw std::logic_error("the input"); };
  auto results = client.collection("code").upsert_many(accelerd::Input<Points>(input));
  CHECK_THROWS_AS(results.next(), std::logic_error);
}

TEST_CASE("batches are answered as they complete, and those that fail have an error") {
  Embedder service;
  const FakeDaemon daemon({&service});
  const Client client(daemon.target());
  std::vector<std::uint64_t> sequences;
  for (const auto& outcome : client.embed_stream(std::vector<Texts>{{"a"}, {"b", "c"}, {"wrong"}, {"d"}})) {
    sequences.push_back(outcome.sequence);
    CHECK(outcome.error.has_value() == (outcome.sequence == 2));
    if (outcome.error) CHECK(outcome.error->message() == "texts: wrong");
    if (outcome.embeddings) CHECK(outcome.embeddings->vectors.values<float>()[0] == static_cast<float>(outcome.sequence));
  }
  CHECK(sequences == std::vector<std::uint64_t>{1, 0, 3, 2});
}

TEST_CASE("the input of a stream is read only as far as it may be in flight") {
  Embedder service;
  const FakeDaemon daemon({&service});
  const Client client(daemon.target());
  const auto input = [&service]() -> std::optional<Texts> {
    if (service.pulled == 20) return std::nullopt;
    ++service.pulled;
    return Texts{"a"};
  };
  int outcomes = 0;
  for (const auto& outcome : client.embed_stream(accelerd::Input<Texts>(input), {}, 2)) {
    CHECK(outcome.embeddings);
    ++outcomes;
    CHECK(service.pulled <= outcomes + 2);
  }
  CHECK(outcomes == 20);
}

TEST_CASE("the end of a stream's reader cancels the call") {
  Embedder service;
  {
    const FakeDaemon daemon({&service});
    const Client client(daemon.target());
    auto stream = client.embed_stream(std::vector<Texts>(100, Texts{"a"}), {}, 2);
    CHECK(stream.next());
  }
  CHECK(service.was_cancelled);
}

TEST_CASE("a stream of responses is repeated until the first, and cancelled by the end of its reader") {
  Watched service;
  {
    const FakeDaemon daemon({&service});
    const Client client(daemon.target());
    auto stream = client.watch(250ms);
    int responses = 0;
    for (const auto& response : stream) {
      CHECK(response.stats().version() == "1");
      if (++responses == 3) break;
    }
  }
  CHECK(service.calls == 2);
  CHECK(service.interval == 250'000'000);
  CHECK(service.was_cancelled);
}

TEST_CASE("the deadline of a stream ends it") {
  Unanswering service;
  const FakeDaemon daemon({&service});
  accelerd::EmbedOptions options;
  options.timeout = 100ms;
  auto late = Client(daemon.target()).embed_stream(std::vector<Texts>(1, Texts{"a"}), options);
  CHECK(code_of(late) == StatusCode::DEADLINE_EXCEEDED);
  CHECK_FALSE(late.next());
}

TEST_CASE("cancellation ends a stream that waits") {
  Unanswering service;
  const FakeDaemon daemon({&service});
  const accelerd::CancellationSource source;
  accelerd::EmbedOptions options;
  options.cancellation = source.token();
  auto stream = Client(daemon.target()).embed_stream(std::vector<Texts>(1, Texts{"a"}), options);
  std::thread other([&] {
    service.read.get_future().wait();
    source.cancel();
  });
  CHECK(code_of(stream) == StatusCode::CANCELLED);
  other.join();
}

TEST_CASE("a stream that ends before its last answer is an error") {
  Embedder service;
  const FakeDaemon daemon({&service});
  auto stream = Client(daemon.target()).embed_stream(std::vector<Texts>(1, Texts{"a"}));
  CHECK(code_of(stream) == StatusCode::INTERNAL);
}
