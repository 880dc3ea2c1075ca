#include "accelerd/detail/caller.h"

namespace accelerd::detail {

CallContext::CallContext(const Caller& caller, const CallOptions& options, TimePoint deadline)
    : registration_(options.cancellation, [this] { context_.TryCancel(); }) {
  if (options.cancellation.is_cancelled()) throw Error(StatusCode::CANCELLED, "the caller cancelled the call");
  caller.prepare(context_, options, deadline);
}

void Caller::prepare(grpc::ClientContext& context, const CallOptions& options, TimePoint deadline) const {
  if (deadline != no_deadline) {
    const Duration left = deadline - std::chrono::steady_clock::now();
    if (left <= Duration::zero()) throw Error(StatusCode::DEADLINE_EXCEEDED, "the timeout was over before the call was sent");
    context.set_deadline(std::chrono::system_clock::now() + left);
  }
  if (!target_.token.empty()) context.AddMetadata("authorization", "Bearer " + target_.token);
  for (const auto& [name, value] : options.metadata) context.AddMetadata(name, value);
}

}  // namespace accelerd::detail
