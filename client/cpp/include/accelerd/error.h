// Errors of calls.
#pragma once

#include <grpcpp/support/status.h>

#include <map>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "accelerd/options.h"

namespace accelerd {

using StatusCode = grpc::StatusCode;

// Name of a code, such as "NOT_FOUND".
const char* name_of(StatusCode code);

// An invalid field of a request.
struct FieldViolation {
  // Its path in the request of the protocol, such as "limit" or "texts.values[3]".
  std::string field;
  std::string description;
};

// A call that failed. Arguments that cannot be sent are std::invalid_argument instead.
class Error : public std::runtime_error {
 public:
  struct Details {
    // From ErrorInfo: a name of docs/errors.md, such as "QUEUE_FULL", and figures.
    std::string reason;
    std::map<std::string, std::string> metadata;
    // From BadRequest.
    std::vector<FieldViolation> violations;
    // From ResourceInfo.
    std::string resource_type;
    std::string resource_name;
    // From RetryInfo.
    std::optional<Duration> retry_delay;
  };

  Error(StatusCode code, std::string message, Details details = {});
  // The error of a status that is not OK.
  explicit Error(const grpc::Status& status);

  StatusCode code() const noexcept { return state_->code; }
  // What the daemon says; what() has the name of the code too.
  const std::string& message() const noexcept { return state_->message; }
  const std::string& reason() const noexcept { return state_->details.reason; }
  const std::map<std::string, std::string>& metadata() const noexcept { return state_->details.metadata; }
  // The first invalid field of the request; empty if the daemon names none.
  const std::string& field() const noexcept;
  const std::vector<FieldViolation>& violations() const noexcept { return state_->details.violations; }
  // Type and name of what does not exist, or exists already, such as "collection" and "code".
  const std::string& resource_type() const noexcept { return state_->details.resource_type; }
  const std::string& resource_name() const noexcept { return state_->details.resource_name; }
  // How long to wait before a retry. Calls are retried until their deadline, so the time was too short for it.
  std::optional<Duration> retry_delay() const noexcept { return state_->details.retry_delay; }

 private:
  struct State {
    StatusCode code;
    std::string message;
    Details details;
  };

  explicit Error(std::shared_ptr<const State> state);

  // Shared, so that copies of the exception cannot throw.
  std::shared_ptr<const State> state_;
};

}  // namespace accelerd
