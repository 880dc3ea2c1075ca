#include "accelerd/tree.h"

#include <cstring>

#include "accelerd/error.h"

namespace accelerd {

namespace {

Error malformed(const std::string& what) { return {StatusCode::INTERNAL, "malformed response: " + what}; }

}  // namespace

namespace detail {

// A column of all sources, of which each source takes its rows.
template <class T>
class Column {
 public:
  Column(const char* name, const std::string& bytes) : name_(name), rows_(bytes.size() / sizeof(T)) {
    if (bytes.size() % sizeof(T) != 0) throw malformed(std::string(name) + " has a part of a row");
    if (!bytes.empty()) std::memcpy(rows_.data(), bytes.data(), bytes.size());
  }

  // The next rows; none if the column was not requested.
  span<const T> take(std::size_t count) {
    if (rows_.empty()) return {};
    if (count > rows_.size() - taken_) throw malformed(std::string(name_) + " has too few rows");
    taken_ += count;
    return {rows_.data() + taken_ - count, count};
  }

 private:
  const char* name_;
  std::vector<T> rows_;
  std::size_t taken_ = 0;
};

struct ParsedBatch {
  ParsedBatch(std::vector<Source> given, v1::ParseResponse message) : sources(std::move(given)), response(std::move(message)) {}

  std::vector<Source> sources;
  v1::ParseResponse response;
  Column<std::uint8_t> kinds{"nodes.kinds", response.nodes().kinds()};
  Column<std::uint8_t> fields{"nodes.fields", response.nodes().fields()};
  Column<std::uint32_t> parents{"nodes.parents", response.nodes().parents()};
  Column<std::uint32_t> starts{"nodes.starts", response.nodes().starts()};
  Column<std::uint32_t> ends{"nodes.ends", response.nodes().ends()};
  Column<std::uint32_t> aux{"nodes.aux", response.nodes().aux()};
  Column<std::uint32_t> name_starts{"names.starts", response.names().starts()};
  Column<std::uint32_t> name_ends{"names.ends", response.names().ends()};
  Column<std::uint8_t> value_tags{"values.tags", response.values().tags()};
  Column<std::uint32_t> value_starts{"values.starts", response.values().starts()};
  Column<std::uint32_t> value_ends{"values.ends", response.values().ends()};
  Column<std::uint8_t> token_kinds{"tokens.kinds", response.tokens().kinds()};
  Column<std::uint32_t> token_starts{"tokens.starts", response.tokens().starts()};
  Column<std::uint32_t> token_ends{"tokens.ends", response.tokens().ends()};
  Column<std::uint32_t> comment_starts{"comments.starts", response.comments().starts()};
  Column<std::uint32_t> comment_ends{"comments.ends", response.comments().ends()};
  Column<std::uint32_t> lines{"line_starts", response.line_starts()};
  Column<char> extra{"extra", response.extra()};
};

namespace {

// Columns of one message have the same rows.
template <class T>
const T& checked(const T& columns) {
  if (columns.starts.size() != columns.ends.size()) throw malformed("columns of different lengths");
  return columns;
}

TaggedSpans tagged(span<const std::uint8_t> tags, span<const std::uint32_t> starts, span<const std::uint32_t> ends) {
  TaggedSpans spans;
  spans.starts = starts;
  spans.ends = ends;
  spans.tags = tags;
  if (tags.size() != starts.size()) throw malformed("columns of different lengths");
  return checked(spans);
}

Nodes take_nodes(ParsedBatch& batch, std::size_t count) {
  Nodes nodes{batch.kinds.take(count),  batch.fields.take(count), batch.parents.take(count),
              batch.starts.take(count), batch.ends.take(count),   batch.aux.take(count)};
  const std::size_t rows = nodes.size();
  if (nodes.fields.size() != rows || nodes.parents.size() != rows || nodes.starts.size() != rows || nodes.aux.size() != rows) {
    throw malformed("columns of different lengths");
  }
  return checked(nodes);
}

}  // namespace

}  // namespace detail

std::vector<Parsed> parsed_sources(std::vector<Source> sources, v1::ParseResponse response) {
  auto batch = std::make_shared<detail::ParsedBatch>(std::move(sources), std::move(response));
  if (batch->response.results_size() != static_cast<int>(batch->sources.size())) throw malformed("not one result for each source");
  std::vector<Parsed> all(batch->sources.size());
  for (std::size_t i = 0; i < all.size(); ++i) {
    Parsed& parsed = all[i];
    const v1::SourceResult& result = batch->response.results(static_cast<int>(i));
    parsed.batch_ = batch;
    parsed.result_ = &result;
    parsed.text_ = result.has_text() ? &result.text() : &batch->sources[i].bytes;
    const auto extra = batch->extra.take(result.extra_size());
    parsed.extra_ = {extra.data(), extra.size()};
    parsed.nodes_ = detail::take_nodes(*batch, result.node_count());
    const std::size_t names = result.name_count();
    parsed.names_ = detail::checked(Spans{batch->name_starts.take(names), batch->name_ends.take(names)});
    const std::size_t values = result.value_count();
    parsed.values_ = detail::tagged(batch->value_tags.take(values), batch->value_starts.take(values), batch->value_ends.take(values));
    const std::size_t tokens = result.token_count();
    parsed.tokens_ = detail::tagged(batch->token_kinds.take(tokens), batch->token_starts.take(tokens), batch->token_ends.take(tokens));
    const std::size_t comments = result.comment_count();
    parsed.comments_ = detail::checked(Spans{batch->comment_starts.take(comments), batch->comment_ends.take(comments)});
    parsed.line_starts_ = batch->lines.take(result.line_count());
  }
  return all;
}

std::string Parsed::qualified_name(int item) const {
  const v1::OutlineItem& found = outline().Get(item);
  if (!found.has_parent()) return found.name();
  // An item follows those around it.
  if (found.parent() >= static_cast<std::uint32_t>(item)) throw malformed("an item of an outline precedes its parent");
  return qualified_name(static_cast<int>(found.parent())) + "." + found.name();
}

std::string_view Parsed::slice(const Spans& spans, std::size_t i) const {
  const std::size_t length = text_->size();
  const std::size_t start = spans.starts[i];
  const bool is_extra = start >= length && spans.ends[i] > length;
  const std::string_view text = is_extra ? extra_ : std::string_view(*text_);
  const std::size_t offset = is_extra ? start - length : start;
  return text.substr(offset, spans.ends[i] - start);
}

}  // namespace accelerd
