// Parsed sources: the columns of trees, outlines and diagnostics.
#pragma once

#include <accelerd/v1/parse.pb.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "accelerd/error.h"
#include "accelerd/options.h"
#include "accelerd/span.h"

namespace accelerd {

// A source to parse: the bytes of a file, or decoded text.
struct Source {
  Source(std::string bytes, v1::SourceType type = v1::SOURCE_TYPE_FILE) : bytes(std::move(bytes)), type(type) {}
  Source(const char* bytes) : Source(std::string(bytes)) {}

  std::string bytes;
  v1::SourceType type;
};

struct ParseOptions : CallOptions {
  // PARSE_OUTPUT_TREE by default; outlines, tokens and comments are returned if they are here.
  std::vector<v1::ParseOutput> outputs;
  v1::ParseMode mode = v1::PARSE_MODE_EXEC;
  // Minor version of Python's grammar; 0 means the newest.
  std::uint32_t feature_version = 0;
};

// `parents` of a row without a parent, and `aux` without a value.
inline constexpr std::uint32_t no_row = 0xFFFFFFFF;

// The nodes of a tree, one column for each property, whose meaning parse.proto documents.
struct Nodes {
  // v1::NodeKind.
  span<const std::uint8_t> kinds;
  // v1::NodeField.
  span<const std::uint8_t> fields;
  span<const std::uint32_t> parents;
  // Bytes of the text.
  span<const std::uint32_t> starts;
  span<const std::uint32_t> ends;
  span<const std::uint32_t> aux;

  std::size_t size() const { return kinds.size(); }
};

// Parts of the text; those beyond its length are in `extra`.
struct Spans {
  span<const std::uint32_t> starts;
  span<const std::uint32_t> ends;

  std::size_t size() const { return starts.size(); }
};

// Parts of the text that have a tag: v1::ValueTag of constants, v1::TokenKind of tokens.
struct TaggedSpans : Spans {
  span<const std::uint8_t> tags;
};

namespace detail {
struct ParsedBatch;
}

// A parsed source. It shares the columns of its batch, which live as long as one of its sources.
class Parsed {
 public:
  // The first error; none if the source is valid.
  const v1::Diagnostic* diagnostic() const { return result_->has_diagnostic() ? &result_->diagnostic() : nullptr; }
  // Functions, classes and imports, if requested.
  const google::protobuf::RepeatedPtrField<v1::OutlineItem>& outline() const { return result_->outline(); }
  // Name of an item of the outline, after those of the classes and functions around it: `Parser.parse`.
  std::string qualified_name(int item) const;
  // The source as UTF-8, to which positions refer.
  const std::string& text() const { return *text_; }

  // The columns that were requested; the others are empty.
  const Nodes& nodes() const { return nodes_; }
  const Spans& names() const { return names_; }
  const TaggedSpans& values() const { return values_; }
  const TaggedSpans& tokens() const { return tokens_; }
  const Spans& comments() const { return comments_; }
  span<const std::uint32_t> line_starts() const { return line_starts_; }

  // The text of a name, and of the value of a constant.
  std::string_view name(std::size_t i) const { return slice(names_, i); }
  std::string_view value(std::size_t i) const { return slice(values_, i); }

 private:
  friend std::vector<Parsed> parsed_sources(std::vector<Source> sources, v1::ParseResponse response);

  std::string_view slice(const Spans& spans, std::size_t i) const;

  std::shared_ptr<const detail::ParsedBatch> batch_;
  const v1::SourceResult* result_ = nullptr;
  const std::string* text_ = nullptr;
  std::string_view extra_;
  Nodes nodes_;
  Spans names_;
  TaggedSpans values_;
  TaggedSpans tokens_;
  Spans comments_;
  span<const std::uint32_t> line_starts_;
};

// A batch of parse_stream: its sources, or why it failed.
struct ParseOutcome {
  std::uint64_t sequence = 0;
  std::vector<Parsed> parsed;
  std::optional<Error> error;
};

// The sources of a response. Throws accelerd::Error if its columns do not have the rows that it states.
std::vector<Parsed> parsed_sources(std::vector<Source> sources, v1::ParseResponse response);

}  // namespace accelerd
