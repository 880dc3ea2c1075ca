// Embeddings and ranks of texts.
#pragma once

#include <accelerd/v1/embed.pb.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "accelerd/error.h"
#include "accelerd/options.h"
#include "accelerd/points.h"
#include "accelerd/tensor.h"

namespace accelerd {

struct EmbedOptions : CallOptions {
  // Empty means the model that is built in.
  std::string model;
  // Leading dimensions to keep; 0 keeps all.
  std::uint32_t dimensions = 0;
  // By default as the model does.
  std::optional<bool> normalize;
  v1::Pooling pooling = v1::POOLING_UNSPECIFIED;
  v1::OutputType output_type = v1::OUTPUT_TYPE_F32;
  v1::LongInput long_input = v1::LONG_INPUT_TRUNCATE;
  v1::TruncationSide truncation_side = v1::TRUNCATION_SIDE_UNSPECIFIED;
  // 0 means the model's default.
  std::uint32_t max_tokens = 0;
  // Name of a prompt of the model, or the prompt itself; an empty prompt means none.
  std::string prompt_name;
  std::optional<std::string> prompt;
};

struct Embeddings {
  // [n, dimensions] of the output type.
  Tensor vectors;
  // Tokens that the model read of each text.
  std::vector<std::uint32_t> token_counts;
  std::string model;
  // f32 [n], with OUTPUT_TYPE_INT8 only: a value is the integer times the scale of its vector.
  std::optional<Tensor> scales;
};

// A batch of embed_stream: its vectors, or why it failed.
struct EmbedOutcome {
  // Index of the batch.
  std::uint64_t sequence = 0;
  std::optional<Embeddings> embeddings;
  std::optional<Error> error;
};

struct RerankOptions : CallOptions {
  // Results to return; 0 means all.
  std::uint32_t top_n = 0;
  // Returns logits instead of values between 0 and 1.
  bool raw_scores = false;
  std::uint32_t max_tokens = 0;
};

struct RankedDocument {
  std::size_t index = 0;
  float score = 0;
};

struct TokenizeOptions : CallOptions {
  std::string model;
};

struct LoadModelOptions : CallOptions {
  std::vector<std::string> aliases;
  v1::Precision precision = v1::PRECISION_UNSPECIFIED;
};

}  // namespace accelerd
