#include <doctest/doctest.h>

#include <future>
#include <thread>

#include "fake_daemon.h"

using namespace std::chrono_literals;
using accelerd::CallOptions;
using accelerd::Client;
using accelerd::ClientOptions;
using accelerd::Error;
using accelerd::StatusCode;
namespace v1 = accelerd::v1;

namespace {

// Counts the calls of two methods, and answers each with the next of some statuses, then with OK.
class Statuses final : public v1::SimilarityService::Service {
 public:
  explicit Statuses(std::vector<grpc::Status> statuses) : statuses_(std::move(statuses)) {}

  grpc::Status CountPoints(grpc::ServerContext* context, const v1::CountPointsRequest*, v1::CountPointsResponse* response) override {
    for (const auto& [name, value] : context->client_metadata()) {
      if (name == "authorization" || name == "accelerd-priority") metadata[{name.data(), name.size()}] = {value.data(), value.size()};
    }
    response->set_point_count(7);
    return next();
  }

  grpc::Status CreateCollection(grpc::ServerContext*, const v1::CreateCollectionRequest*, v1::CreateCollectionResponse*) override {
    return next();
  }

  std::atomic<std::size_t> calls{0};
  std::map<std::string, std::string> metadata;

 private:
  grpc::Status next() {
    const std::size_t call = calls++;
    return call < statuses_.size() ? statuses_[call] : grpc::Status::OK;
  }

  std::vector<grpc::Status> statuses_;
};

// Answers no call until the client ends it.
class Silent final : public v1::SimilarityService::Service {
 public:
  grpc::Status CountPoints(grpc::ServerContext* context, const v1::CountPointsRequest*, v1::CountPointsResponse*) override {
    called.set_value();
    while (!context->IsCancelled()) std::this_thread::yield();
    return grpc::Status::CANCELLED;
  }

  std::promise<void> called;
};

template <class Function>
Error error_of(Function function) {
  try {
    function();
  } catch (const Error& error) {
    return error;
  }
  FAIL("the call succeeded");
  return {StatusCode::OK, ""};
}

}  // namespace

TEST_CASE("an idempotent call is repeated until it succeeds") {
  Statuses service({status_of(StatusCode::UNAVAILABLE), status_of(StatusCode::UNAVAILABLE)});
  const FakeDaemon daemon({&service});
  CHECK(Client(daemon.target()).collection("code").count() == 7);
  CHECK(service.calls == 3);
}

TEST_CASE("a call that is not idempotent is repeated only if the daemon says when") {
  Statuses service(
      {status_of(StatusCode::UNAVAILABLE, 1ms), status_of(StatusCode::RESOURCE_EXHAUSTED, 1ms), status_of(StatusCode::UNAVAILABLE)});
  const FakeDaemon daemon({&service});
  const Client client(daemon.target());
  CHECK(error_of([&] { client.create_collection("code"); }).code() == StatusCode::UNAVAILABLE);
  CHECK(service.calls == 3);
  SUBCASE("unless the caller says that it is") {
    Statuses other({status_of(StatusCode::UNAVAILABLE)});
    const FakeDaemon second({&other});
    accelerd::CreateCollectionOptions options;
    options.is_idempotent = true;
    Client(second.target()).create_collection("code", options);
    CHECK(other.calls == 2);
  }
}

TEST_CASE("attempts bound a call") {
  Statuses service({status_of(StatusCode::UNAVAILABLE), status_of(StatusCode::UNAVAILABLE)});
  const FakeDaemon daemon({&service});
  ClientOptions options;
  options.attempts = 2;
  CHECK(error_of([&] { Client(daemon.target(), options).collection("code").count(); }).code() == StatusCode::UNAVAILABLE);
  CHECK(service.calls == 2);
}

TEST_CASE("a generated stub is called with the token and metadata") {
  Statuses service({status_of(StatusCode::UNAVAILABLE)});
  const FakeDaemon daemon({&service});
  ClientOptions options;
  options.token = "secret";
  CallOptions call;
  call.metadata.emplace("accelerd-priority", "high");
  const Client client(daemon.target(), options);
  CHECK(client.call(&v1::SimilarityService::Stub::CountPoints, {}, call).point_count() == 7);
  CHECK(service.calls == 2);
  CHECK(service.metadata == std::map<std::string, std::string>{{"authorization", "Bearer secret"}, {"accelerd-priority", "high"}});
  SUBCASE("or by a context of the caller") {
    service.metadata.clear();
    v1::SimilarityService::Stub stub(client.channel());
    grpc::ClientContext context;
    v1::CountPointsResponse response;
    client.prepare(context);
    CHECK(stub.CountPoints(&context, {}, &response).ok());
    CHECK(service.metadata.at("authorization") == "Bearer secret");
    CHECK(context.deadline() < std::chrono::system_clock::now() + 61s);
  }
}

TEST_CASE("a deadline ends a call, and one that is over already sends none") {
  Silent service;
  const FakeDaemon daemon({&service});
  const auto collection = Client(daemon.target()).collection("code");
  accelerd::FilterOptions options;
  options.timeout = 0s;
  CHECK(error_of([&] { collection.count(options); }).code() == StatusCode::DEADLINE_EXCEEDED);
  options.timeout = -1s;
  CHECK_THROWS_AS(collection.count(options), std::invalid_argument);
  options.timeout = 200ms;
  CHECK(error_of([&] { collection.count(options); }).code() == StatusCode::DEADLINE_EXCEEDED);
}

TEST_CASE("cancellation ends a call that runs, and prevents later ones") {
  Silent service;
  const FakeDaemon daemon({&service});
  const auto collection = Client(daemon.target()).collection("code");
  const accelerd::CancellationSource source;
  accelerd::FilterOptions options;
  options.cancellation = source.token();
  std::thread other([&] {
    service.called.get_future().wait();
    source.cancel();
  });
  CHECK(error_of([&] { collection.count(options); }).code() == StatusCode::CANCELLED);
  other.join();
  CHECK(error_of([&] { collection.count(options); }).message() == "the caller cancelled the call");
}

TEST_CASE("cancellation ends the wait for a retry") {
  Statuses service({status_of(StatusCode::UNAVAILABLE, 30s)});
  const FakeDaemon daemon({&service});
  const accelerd::CancellationSource source;
  accelerd::FilterOptions options;
  options.cancellation = source.token();
  std::thread other([&] {
    while (service.calls == 0) std::this_thread::yield();
    source.cancel();
  });
  const Error error = error_of([&] { Client(daemon.target()).collection("code").count(options); });
  CHECK(error.code() == StatusCode::CANCELLED);
  other.join();
}

TEST_CASE("calls go to the daemons that can be reached") {
  Statuses service({});
  const FakeDaemon daemon({&service});
  const Client client("127.0.0.1:1," + daemon.target());
  for (int i = 0; i < 4; ++i) CHECK(client.collection("code").count() == 7);
  CHECK(service.calls == 4);
}

TEST_CASE("a daemon that cannot be reached is unavailable") {
  ClientOptions options;
  options.attempts = 1;
  CHECK(error_of([&] { Client("127.0.0.1:1", options).devices(); }).code() == StatusCode::UNAVAILABLE);
}

TEST_CASE("a request above the limit is not sent") {
  Statuses service({});
  const FakeDaemon daemon({&service});
  ClientOptions options;
  options.max_message_bytes = 1000;
  const Client client(daemon.target(), options);
  const Error error = error_of([&] { client.create_collection(std::string(2000, 'a')); });
  CHECK(error.code() == StatusCode::RESOURCE_EXHAUSTED);
  CHECK(service.calls == 0);
}

TEST_CASE("a client is used by several threads, and its collections outlive it") {
  Statuses service({});
  const FakeDaemon daemon({&service});
  auto client = std::make_unique<Client>(daemon.target());
  Client moved = std::move(*client);
  const auto collection = moved.collection("code");
  std::vector<std::thread> threads;
  std::atomic<int> answers{0};
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      for (int call = 0; call < 50; ++call) answers += collection.count() == 7 ? 1 : 0;
    });
  }
  for (auto& thread : threads) thread.join();
  CHECK(answers == 200);
}
