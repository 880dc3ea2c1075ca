#include "accelerd/error.h"

#include <accelerd/client/error_details.pb.h>

#include <algorithm>
#include <array>

#include "accelerd/detail/conversions.h"

namespace accelerd {

namespace {

constexpr std::array names = {
    "OK",        "CANCELLED",       "UNKNOWN",           "INVALID_ARGUMENT",   "DEADLINE_EXCEEDED",
    "NOT_FOUND", "ALREADY_EXISTS",  "PERMISSION_DENIED", "RESOURCE_EXHAUSTED", "FAILED_PRECONDITION",
    "ABORTED",   "OUT_OF_RANGE",    "UNIMPLEMENTED",     "INTERNAL",           "UNAVAILABLE",
    "DATA_LOSS", "UNAUTHENTICATED",
};

// What gRPC says of a connection or a stream that broke, without a code for it.
constexpr std::array broken = {"Stream removed", "Socket closed", "Transport closed", "Internal error from Core"};

template <class Detail>
bool unpack(const google::protobuf::Any& packed, const char* name, Detail* detail) {
  // The names are those of google.rpc, so Any::UnpackTo would refuse the message.
  const std::string& url = packed.type_url();
  return url.substr(url.rfind('/') + 1) == name && detail->ParseFromString(packed.value());
}

Error::Details details_of(const std::string& encoded) {
  Error::Details details;
  client::Status status;
  if (!status.ParseFromString(encoded)) return details;
  client::ErrorInfo info;
  client::RetryInfo retry;
  client::BadRequest bad;
  client::ResourceInfo resource;
  for (const auto& packed : status.details()) {
    if (unpack(packed, "google.rpc.ErrorInfo", &info)) {
      details.reason = info.reason();
      details.metadata.insert(info.metadata().begin(), info.metadata().end());
    } else if (unpack(packed, "google.rpc.RetryInfo", &retry)) {
      details.retry_delay = detail::duration_of(retry.retry_delay());
    } else if (unpack(packed, "google.rpc.BadRequest", &bad)) {
      for (const auto& violation : bad.field_violations()) details.violations.push_back({violation.field(), violation.description()});
    } else if (unpack(packed, "google.rpc.ResourceInfo", &resource)) {
      details.resource_type = resource.resource_type();
      details.resource_name = resource.resource_name();
    }
  }
  return details;
}

bool is_broken(const grpc::Status& status) {
  const bool is_unclear = status.error_code() == StatusCode::UNKNOWN || status.error_code() == StatusCode::INTERNAL;
  return is_unclear && std::find(broken.begin(), broken.end(), status.error_message()) != broken.end();
}

}  // namespace

const char* name_of(StatusCode code) {
  const auto index = static_cast<std::size_t>(code);
  return index < names.size() ? names[index] : "UNKNOWN";
}

Error::Error(StatusCode code, std::string message, Details details)
    : Error(std::make_shared<const State>(State{code, std::move(message), std::move(details)})) {}

Error::Error(const grpc::Status& status)
    : Error(is_broken(status) ? StatusCode::UNAVAILABLE : status.error_code(),
            is_broken(status) ? "the connection broke: " + status.error_message() : status.error_message(),
            details_of(status.error_details())) {}

Error::Error(std::shared_ptr<const State> state)
    : std::runtime_error(std::string(name_of(state->code)) + ": " + state->message), state_(std::move(state)) {}

const std::string& Error::field() const noexcept {
  static const std::string none;
  return violations().empty() ? none : violations().front().field;
}

}  // namespace accelerd
