#include "accelerd/client.h"
#include "accelerd/detail/conversions.h"

namespace accelerd {

namespace {

v1::EmbedRequest embed_request(Texts texts, const EmbedOptions& options) {
  v1::EmbedRequest request;
  request.set_model(options.model);
  *request.mutable_texts() = std::move(texts).message();
  request.set_dimensions(options.dimensions);
  if (options.normalize) request.set_normalize(*options.normalize);
  request.set_pooling(options.pooling);
  request.set_output_type(options.output_type);
  request.set_long_input(options.long_input);
  request.set_truncation_side(options.truncation_side);
  request.set_max_tokens(options.max_tokens);
  request.set_prompt_name(options.prompt_name);
  if (options.prompt) request.set_prompt(*options.prompt);
  return request;
}

Embeddings embeddings_of(v1::EmbedResponse response) {
  Embeddings embeddings;
  embeddings.vectors = Tensor(std::move(*response.mutable_embeddings()));
  embeddings.token_counts.assign(response.token_counts().begin(), response.token_counts().end());
  embeddings.model = response.model();
  if (response.has_scales()) embeddings.scales.emplace(std::move(*response.mutable_scales()));
  return embeddings;
}

EmbedOutcome outcome_of(v1::EmbedStreamResponse response) {
  EmbedOutcome outcome;
  outcome.sequence = response.sequence();
  if (response.has_error()) {
    outcome.error.emplace(static_cast<StatusCode>(response.error().code()), response.error().message());
  } else {
    outcome.embeddings = embeddings_of(std::move(*response.mutable_embed()));
  }
  return outcome;
}

}  // namespace

Embeddings Client::embed(Texts texts, const EmbedOptions& options) const {
  return embeddings_of(call(&v1::EmbedService::Stub::Embed, embed_request(std::move(texts), options), options));
}

Stream<EmbedOutcome> Client::embed_stream(Input<Texts> batches, const EmbedOptions& options, std::size_t max_in_flight) const {
  using Resumed = detail::ResumedStream<v1::EmbedStreamRequest, v1::EmbedStreamResponse>;
  const auto start = [](detail::Channel& channel, grpc::ClientContext* context, auto* reactor) {
    channel.stub<v1::EmbedService::Stub>().async()->EmbedStream(context, reactor);
  };
  auto next = [batches = std::move(batches), options]() mutable -> std::optional<v1::EmbedStreamRequest> {
    auto texts = batches.next();
    if (!texts) return std::nullopt;
    v1::EmbedStreamRequest request;
    *request.mutable_embed() = embed_request(std::move(*texts), options);
    return request;
  };
  auto resumed = std::make_unique<Resumed>(caller_, start, std::move(next), detail::StreamSettings{options, true, false, max_in_flight});
  return Stream<EmbedOutcome>(
      std::make_unique<detail::MappedStream<v1::EmbedStreamResponse, EmbedOutcome>>(std::move(resumed), outcome_of));
}

std::vector<RankedDocument> Client::rerank(const std::string& model, const std::string& query, Texts documents,
                                           const RerankOptions& options) const {
  v1::RerankRequest request;
  request.set_model(model);
  request.set_query(query);
  *request.mutable_documents() = std::move(documents).message();
  request.set_top_n(options.top_n);
  request.set_raw_scores(options.raw_scores);
  request.set_max_tokens(options.max_tokens);
  const auto response = call(&v1::EmbedService::Stub::Rerank, request, options);
  std::vector<RankedDocument> ranked;
  for (const auto& result : response.results()) ranked.push_back({result.index(), result.score()});
  return ranked;
}

std::vector<std::vector<std::uint32_t>> Client::tokenize(Texts texts, const TokenizeOptions& options) const {
  v1::TokenizeRequest request;
  request.set_model(options.model);
  *request.mutable_texts() = std::move(texts).message();
  const auto tokens = call(&v1::EmbedService::Stub::Tokenize, request, options).tokens();
  std::vector<std::vector<std::uint32_t>> ids;
  for (int i = 0; i + 1 < tokens.offsets_size(); ++i) {
    if (tokens.offsets(i) > tokens.offsets(i + 1) || tokens.offsets(i + 1) > static_cast<std::uint32_t>(tokens.ids_size())) {
      throw Error(StatusCode::INTERNAL, "malformed response: offsets of tokens");
    }
    ids.emplace_back(tokens.ids().begin() + tokens.offsets(i), tokens.ids().begin() + tokens.offsets(i + 1));
  }
  return ids;
}

std::vector<v1::Model> Client::models(const CallOptions& options) const {
  return detail::vector_of(call(&v1::EmbedService::Stub::ListModels, {}, options).models());
}

v1::Model Client::load_model(const std::string& name, const std::string& path, const LoadModelOptions& options) const {
  v1::LoadModelRequest request;
  request.set_name(name);
  request.set_path(path);
  for (const auto& alias : options.aliases) request.add_aliases(alias);
  request.set_precision(options.precision);
  return call(&v1::EmbedService::Stub::LoadModel, request, options).model();
}

void Client::unload_model(const std::string& name, const CallOptions& options) const {
  v1::UnloadModelRequest request;
  request.set_name(name);
  call(&v1::EmbedService::Stub::UnloadModel, request, options);
}

}  // namespace accelerd
