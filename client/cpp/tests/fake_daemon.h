// A daemon in the process of a test, which answers as the test says.
#pragma once

#include <accelerd/client.h>
#include <accelerd/client/error_details.pb.h>
#include <grpcpp/server_builder.h>

#include <atomic>
#include <functional>
#include <initializer_list>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

// A status of the daemon, with RetryInfo if there is a delay.
inline grpc::Status status_of(grpc::StatusCode code, std::optional<std::chrono::milliseconds> retry_delay = {}) {
  if (!retry_delay) return {code, "as the test says"};
  accelerd::client::RetryInfo retry;
  const auto nanos = std::chrono::duration_cast<std::chrono::nanoseconds>(*retry_delay).count();
  retry.mutable_retry_delay()->set_seconds(nanos / 1'000'000'000);
  retry.mutable_retry_delay()->set_nanos(static_cast<std::int32_t>(nanos % 1'000'000'000));
  accelerd::client::Status details;
  auto& packed = *details.add_details();
  packed.set_type_url("type.googleapis.com/google.rpc.RetryInfo");
  packed.set_value(retry.SerializeAsString());
  return {code, "as the test says", details.SerializeAsString()};
}

class FakeDaemon {
 public:
  explicit FakeDaemon(std::initializer_list<grpc::Service*> services) {
    grpc::ServerBuilder builder;
    builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port_);
    for (auto* service : services) builder.RegisterService(service);
    server_ = builder.BuildAndStart();
  }
  FakeDaemon(const FakeDaemon&) = delete;
  FakeDaemon& operator=(const FakeDaemon&) = delete;
  // Ends calls that still run.
  ~FakeDaemon() { server_->Shutdown(std::chrono::system_clock::now()); }

  std::string target() const { return "127.0.0.1:" + std::to_string(port_); }

 private:
  int port_ = 0;
  std::unique_ptr<grpc::Server> server_;
};
