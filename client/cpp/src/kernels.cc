#include "accelerd/client.h"
#include "accelerd/detail/conversions.h"

namespace accelerd {

namespace {

v1::KernelConstant constant_of(const std::variant<std::int64_t, double, bool>& value) {
  v1::KernelConstant constant;
  if (const auto* integer = std::get_if<std::int64_t>(&value)) constant.set_integer(*integer);
  if (const auto* number = std::get_if<double>(&value)) constant.set_number(*number);
  if (const auto* boolean = std::get_if<bool>(&value)) constant.set_boolean(*boolean);
  return constant;
}

void add_inputs(google::protobuf::RepeatedPtrField<v1::TensorInput>& inputs, Tensors tensors) {
  for (auto& [name, source] : tensors) *inputs.Add() = to_message(name, std::move(source));
}

v1::ComparisonPolicy policy_of(const CompareOptions& options) {
  v1::ComparisonPolicy policy = options.policy;
  if (!options.atol && !options.rtol) return policy;
  auto& close = *policy.add_tolerances()->mutable_close();
  if (options.atol) close.set_atol(*options.atol);
  if (options.rtol) close.set_rtol(*options.rtol);
  return policy;
}

std::vector<std::shared_ptr<const v1::VerifyRequest>> verify_messages(v1::VerifyHeader header, std::vector<v1::VerifyCases> chunks) {
  std::vector<std::shared_ptr<const v1::VerifyRequest>> messages;
  v1::VerifyRequest first;
  *first.mutable_header() = std::move(header);
  messages.push_back(std::make_shared<const v1::VerifyRequest>(std::move(first)));
  for (auto& chunk : chunks) {
    v1::VerifyRequest message;
    *message.mutable_cases() = std::move(chunk);
    messages.push_back(std::make_shared<const v1::VerifyRequest>(std::move(message)));
  }
  return messages;
}

}  // namespace

v1::KernelProgram Kernel::to_message() const {
  v1::KernelProgram program;
  program.set_source(source);
  program.set_name(name);
  program.set_dialect(dialect);
  for (const auto& [key, value] : constants) (*program.mutable_constants())[key] = constant_of(value);
  return program;
}

v1::TranslateResponse Client::translate(const Kernel& kernel, const TranslateOptions& options) const {
  const v1::KernelProgram program = kernel.to_message();
  v1::TranslateRequest request;
  request.set_source(program.source());
  request.set_dialect(program.dialect());
  *request.mutable_constants() = program.constants();
  if (!program.name().empty()) request.add_names(program.name());
  for (const auto target : options.targets) request.add_targets(target);
  return call(&v1::KernelService::Stub::Translate, request, options);
}

LaunchResult Client::launch(const Kernel& kernel, Tensors arguments, const LaunchOptions& options) const {
  v1::LaunchRequest request;
  *request.mutable_program() = kernel.to_message();
  request.mutable_grid()->Add(options.grid.begin(), options.grid.end());
  add_inputs(*request.mutable_arguments(), std::move(arguments));
  for (const auto& [name, shape] : options.outputs) {
    auto& output = *request.add_outputs();
    output.set_name(name);
    output.mutable_shape()->Add(shape.begin(), shape.end());
  }
  if (options.loop_budget) request.set_loop_budget(*options.loop_budget);
  request.set_device(options.device);
  auto response = call(&v1::KernelService::Stub::Launch, request, options);
  LaunchResult result;
  for (auto& output : *response.mutable_outputs()) result.outputs.emplace(output.name(), std::move(*output.mutable_value()));
  if (response.has_fault()) result.fault = response.fault();
  result.execution_time = detail::duration_of(response.execution_time());
  result.device = response.device();
  return result;
}

v1::CompareOutputsResponse Client::compare(Tensors actual, Tensors expected, const CompareOptions& options) const {
  v1::CompareOutputsRequest request;
  add_inputs(*request.mutable_actual(), std::move(actual));
  add_inputs(*request.mutable_expected(), std::move(expected));
  *request.mutable_policy() = policy_of(options);
  if (options.max_mismatches) request.set_max_mismatches(*options.max_mismatches);
  request.set_row_verdicts(options.row_verdicts);
  return call(&v1::VerifyService::Stub::CompareOutputs, request, options);
}

v1::VerifySummary Client::verify(const Kernel& subject, const Kernel& reference, const VerifyOptions& options) const {
  v1::VerifyHeader header;
  *header.mutable_kernel() = subject.to_message();
  *header.mutable_reference_kernel() = reference.to_message();
  *header.mutable_policy() = policy_of(options);
  if (options.max_mismatches) header.set_max_mismatches(*options.max_mismatches);
  header.set_case_verdicts(options.row_verdicts);
  auto& generator = *header.mutable_generator();
  generator.set_case_count(options.case_count);
  generator.set_seed(options.seed);
  for (const auto& [name, domain] : options.domains) (*generator.mutable_domains())[name] = domain;
  return verify(std::move(header), {}, options);
}

v1::VerifySummary Client::verify(v1::VerifyHeader header, std::vector<v1::VerifyCases> chunks, const CallOptions& options) const {
  using Call = detail::BidiCall<v1::VerifyRequest, v1::VerifyResponse>;
  const auto messages = verify_messages(std::move(header), std::move(chunks));
  const detail::StartBidi<v1::VerifyRequest, v1::VerifyResponse> start = [](detail::Channel& channel, auto* context, auto* reactor) {
    channel.stub<v1::VerifyService::Stub>().async()->Verify(context, reactor);
  };
  const detail::TimePoint deadline = caller_->deadline(options, caller_->options().timeout);
  detail::Attempts attempts = caller_->attempts(options, deadline, detail::is_idempotent<v1::VerifyRequest, v1::VerifyResponse>());
  for (;;) {
    detail::Channel& channel = caller_->next_channel();
    Call call(std::make_unique<detail::CallContext>(*caller_, options, deadline), channel, start);
    for (const auto& message : messages) call.send(message);
    call.close();
    bool has_response = false;
    std::optional<v1::VerifySummary> summary;
    while (auto response = call.receive()) {
      has_response = true;
      if (response->has_summary()) summary = std::move(*response->mutable_summary());
    }
    if (call.status().ok() && summary) return std::move(*summary);
    if (call.status().ok()) throw Error(StatusCode::INTERNAL, "malformed response: the stream ended without a summary");
    if (has_response) throw Error(call.status());
    caller_->wait(attempts, Error(call.status()), channel, options.cancellation);
  }
}

}  // namespace accelerd
