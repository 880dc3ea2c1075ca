#include <accelerd/client.h>
#include <doctest/doctest.h>

using accelerd::Parsed;
using accelerd::Source;
namespace v1 = accelerd::v1;

namespace {

template <class T>
std::string packed(std::initializer_list<T> values) {
  return {reinterpret_cast<const char*>(values.begin()), values.size() * sizeof(T)};
}

// The columns of `x` and `é` in Latin-1, two expressions with a name each.
v1::ParseResponse response() {
  v1::ParseResponse response;
  for (int i = 0; i < 2; ++i) {
    auto& result = *response.add_results();
    result.set_node_count(1);
    result.set_name_count(1);
  }
  response.mutable_results(1)->set_text("\xc3\xa9");
  response.mutable_results(1)->set_extra_size(1);
  auto& nodes = *response.mutable_nodes();
  nodes.set_kinds(packed<std::uint8_t>({v1::NODE_KIND_NAME, v1::NODE_KIND_NAME}));
  nodes.set_fields(packed<std::uint8_t>({v1::NODE_FIELD_BODY, v1::NODE_FIELD_BODY}));
  nodes.set_parents(packed<std::uint32_t>({accelerd::no_row, accelerd::no_row}));
  nodes.set_starts(packed<std::uint32_t>({0, 0}));
  nodes.set_ends(packed<std::uint32_t>({1, 2}));
  nodes.set_aux(packed<std::uint32_t>({0, 0}));
  response.mutable_names()->set_starts(packed<std::uint32_t>({0, 2}));
  response.mutable_names()->set_ends(packed<std::uint32_t>({1, 3}));
  response.set_extra("e");
  return response;
}

std::vector<Source> sources() { return {Source("x"), Source("\xe9")}; }

}  // namespace

TEST_CASE("each source has its rows of the columns") {
  const auto parsed = accelerd::parsed_sources(sources(), response());
  REQUIRE(parsed.size() == 2);
  CHECK(parsed[0].nodes().size() == 1);
  CHECK(parsed[1].nodes().ends[0] == 2);
  CHECK(parsed[1].nodes().parents[0] == accelerd::no_row);
  CHECK(parsed[0].text() == "x");
  CHECK(parsed[1].text() == "\xc3\xa9");
  CHECK(parsed[0].name(0) == "x");
  CHECK(parsed[0].tokens().size() == 0);
}

TEST_CASE("names that differ from the source are in its extra text") {
  CHECK(accelerd::parsed_sources(sources(), response())[1].name(0) == "e");
}

TEST_CASE("a source keeps the columns of its batch") {
  const Parsed last = accelerd::parsed_sources(sources(), response()).back();
  CHECK(last.nodes().kinds[0] == v1::NODE_KIND_NAME);
}

TEST_CASE("columns that do not have the rows of the results are refused") {
  auto few = response();
  few.mutable_results(1)->set_node_count(2);
  CHECK_THROWS_AS(accelerd::parsed_sources(sources(), few), accelerd::Error);
  auto uneven = response();
  uneven.mutable_nodes()->set_aux(packed<std::uint32_t>({0}));
  CHECK_THROWS_AS(accelerd::parsed_sources(sources(), uneven), accelerd::Error);
  auto partial = response();
  partial.mutable_names()->mutable_ends()->pop_back();
  CHECK_THROWS_AS(accelerd::parsed_sources(sources(), partial), accelerd::Error);
  CHECK_THROWS_AS(accelerd::parsed_sources({Source("x")}, response()), accelerd::Error);
}

TEST_CASE("an item of an outline has a qualified name") {
  auto nested = response();
  auto& outline = *nested.mutable_results(0)->mutable_outline();
  outline.Add()->set_name("A");
  outline.Add()->set_name("B");
  outline.Mutable(1)->set_parent(0);
  outline.Add()->set_name("f");
  outline.Mutable(2)->set_parent(1);
  CHECK(accelerd::parsed_sources(sources(), nested)[0].qualified_name(2) == "A.B.f");
}
