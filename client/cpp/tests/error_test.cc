#include <accelerd/client.h>
#include <accelerd/client/error_details.pb.h>
#include <doctest/doctest.h>

#include <type_traits>

using namespace std::chrono_literals;
using accelerd::Error;
using accelerd::StatusCode;

namespace {

template <class Detail>
void pack(accelerd::client::Status& status, const char* name, const Detail& detail) {
  auto& packed = *status.add_details();
  packed.set_type_url(std::string("type.googleapis.com/google.rpc.") + name);
  packed.set_value(detail.SerializeAsString());
}

}  // namespace

TEST_CASE("an error has the details of its status") {
  accelerd::client::Status status;
  accelerd::client::ErrorInfo info;
  info.set_reason("QUEUE_FULL");
  (*info.mutable_metadata())["limit"] = "8";
  pack(status, "ErrorInfo", info);
  accelerd::client::RetryInfo retry;
  retry.mutable_retry_delay()->set_seconds(1);
  retry.mutable_retry_delay()->set_nanos(500'000'000);
  pack(status, "RetryInfo", retry);
  accelerd::client::BadRequest bad;
  auto& violation = *bad.add_field_violations();
  violation.set_field("limit");
  violation.set_description("too small");
  pack(status, "BadRequest", bad);
  accelerd::client::ResourceInfo resource;
  resource.set_resource_type("collection");
  resource.set_resource_name("code");
  pack(status, "ResourceInfo", resource);
  pack(status, "Help", info);

  const Error error(grpc::Status(StatusCode::RESOURCE_EXHAUSTED, "full", status.SerializeAsString()));
  CHECK(error.code() == StatusCode::RESOURCE_EXHAUSTED);
  CHECK(error.message() == "full");
  CHECK(std::string(error.what()) == "RESOURCE_EXHAUSTED: full");
  CHECK(error.reason() == "QUEUE_FULL");
  CHECK(error.metadata().at("limit") == "8");
  CHECK(error.retry_delay() == 1500ms);
  CHECK(error.field() == "limit");
  CHECK(error.violations().front().description == "too small");
  CHECK(error.resource_type() == "collection");
  CHECK(error.resource_name() == "code");
}

TEST_CASE("an error without details has empty ones") {
  const Error error(grpc::Status(StatusCode::NOT_FOUND, "gone"));
  CHECK(error.reason().empty());
  CHECK(error.field().empty());
  CHECK_FALSE(error.retry_delay());
}

TEST_CASE("details that are malformed are ignored") { CHECK(Error(grpc::Status(StatusCode::INTERNAL, "x", "\xff\xff")).reason().empty()); }

TEST_CASE("a connection that broke is unavailable") {
  CHECK(Error(grpc::Status(StatusCode::UNKNOWN, "Stream removed")).code() == StatusCode::UNAVAILABLE);
  CHECK(Error(grpc::Status(StatusCode::INTERNAL, "a kernel failed")).code() == StatusCode::INTERNAL);
}

TEST_CASE("an error is a runtime_error whose copies do not throw") {
  CHECK(std::is_base_of_v<std::runtime_error, Error>);
  CHECK(std::is_nothrow_copy_constructible_v<Error>);
}
