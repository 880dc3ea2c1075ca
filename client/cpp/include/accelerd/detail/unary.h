// Calls of generated stubs with the deadline, the token and the retries of a client.
#pragma once

#include <grpcpp/client_context.h>

#include "accelerd/detail/caller.h"

namespace accelerd::detail {

// Keeps an argument out of the deduction of a template's types.
template <class T>
struct Identity {
  using type = T;
};
template <class T>
using identity = typename Identity<T>::type;

template <class Stub, class Request, class Response>
Response call(Caller& caller, grpc::Status (Stub::*method)(grpc::ClientContext*, const Request&, Response*),
              const identity<Request>& request, const CallOptions& options) {
  Response response;
  caller.run(options, is_idempotent<Request, Response>(), [&](Channel& channel, grpc::ClientContext& context) {
    response.Clear();
    return (channel.stub<Stub>().*method)(&context, request, &response);
  });
  return response;
}

}  // namespace accelerd::detail
