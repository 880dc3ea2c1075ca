#include "accelerd/client.h"

namespace accelerd {

namespace {

v1::ParseRequest parse_request(const std::vector<Source>& sources, const ParseOptions& options) {
  v1::ParseRequest request;
  for (const auto& source : sources) {
    request.add_sources(source.bytes);
    request.add_source_types(source.type);
  }
  for (const auto output : options.outputs) request.add_outputs(output);
  request.set_mode(options.mode);
  request.set_feature_version(options.feature_version);
  return request;
}

// The sources of batches without a response, which their positions refer to.
using PendingSources = std::map<std::uint64_t, std::vector<Source>>;

ParseOutcome outcome_of(PendingSources& pending, v1::ParseStreamResponse response) {
  ParseOutcome outcome;
  outcome.sequence = response.sequence();
  auto sources = pending.extract(response.sequence());
  if (response.has_error()) {
    outcome.error.emplace(static_cast<StatusCode>(response.error().code()), response.error().message());
  } else {
    outcome.parsed = parsed_sources(std::move(sources.mapped()), std::move(*response.mutable_parse()));
  }
  return outcome;
}

}  // namespace

std::vector<Parsed> Client::parse(std::vector<Source> sources, const ParseOptions& options) const {
  auto response = call(&v1::ParseService::Stub::Parse, parse_request(sources, options), options);
  return parsed_sources(std::move(sources), std::move(response));
}

Stream<ParseOutcome> Client::parse_stream(Input<std::vector<Source>> batches, const ParseOptions& options,
                                          std::size_t max_in_flight) const {
  using Resumed = detail::ResumedStream<v1::ParseStreamRequest, v1::ParseStreamResponse>;
  const auto start = [](detail::Channel& channel, grpc::ClientContext* context, auto* reactor) {
    channel.stub<v1::ParseService::Stub>().async()->ParseStream(context, reactor);
  };
  auto pending = std::make_shared<PendingSources>();
  auto next = [batches = std::move(batches), options, pending,
               sequence = std::uint64_t{0}]() mutable -> std::optional<v1::ParseStreamRequest> {
    auto sources = batches.next();
    if (!sources) return std::nullopt;
    v1::ParseStreamRequest request;
    *request.mutable_parse() = parse_request(*sources, options);
    pending->emplace(sequence++, std::move(*sources));
    return request;
  };
  auto resumed = std::make_unique<Resumed>(caller_, start, std::move(next), detail::StreamSettings{options, true, false, max_in_flight});
  auto map = [pending](v1::ParseStreamResponse response) { return outcome_of(*pending, std::move(response)); };
  return Stream<ParseOutcome>(
      std::make_unique<detail::MappedStream<v1::ParseStreamResponse, ParseOutcome>>(std::move(resumed), std::move(map)));
}

}  // namespace accelerd
