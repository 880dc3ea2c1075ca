#include <accelerd/client.h>
#include <accelerd/detail/conversions.h>
#include <accelerd/detail/upsert.h>
#include <doctest/doctest.h>

using accelerd::Condition;
using accelerd::Filter;
using accelerd::Ids;
using accelerd::Payload;
using accelerd::Points;
using accelerd::Tensor;
using accelerd::Texts;
using accelerd::Value;
using accelerd::detail::PointsEncoder;

namespace {

PointsEncoder encoder(Points points) { return {"code", {}, std::move(points)}; }

}  // namespace

TEST_CASE("a payload makes a round trip with the types of its values") {
  const Payload payload = {{"path", "net.py"}, {"line", 3}, {"score", 0.5}, {"is_test", true}};
  CHECK(accelerd::payload_of(accelerd::to_message(payload)) == payload);
  CHECK(payload.at("path").text() == "net.py");
  CHECK(payload.at("line").integer() == 3);
  CHECK(payload.at("score").number() == 0.5);
  CHECK(payload.at("is_test").boolean());
  CHECK_THROWS_AS(payload.at("path").integer(), std::bad_variant_access);
}

TEST_CASE("packed ids are read as numbers and as UUIDs") {
  const auto numbers = accelerd::detail::ids_of(Ids{7, 8}.to_message());
  CHECK(std::get<std::uint64_t>(numbers.at(1)) == 8);
  accelerd::v1::PointIds packed;
  packed.set_packed_uuids(std::string("\x01\x23\x45\x67\x89\xab\xcd\xef\x01\x23\x45\x67\x89\xab\xcd\xef"));
  CHECK(std::get<std::string>(accelerd::detail::ids_of(packed).at(0)) == "01234567-89ab-cdef-0123-456789abcdef");
  CHECK(Ids::uuids({"a", "b", "c"}).to_message(1, 2).uuids(1) == "c");
}

TEST_CASE("a filter has its conditions") {
  Filter filter;
  filter.ids({1})
      .must(Condition::equals("language", "rust"))
      .must(Condition::range("line", 0, 100))
      .must_not(Condition::any_of("path", {"a", "b"}));
  const auto& message = filter.message();
  CHECK(message.must(0).equals().string_value() == "rust");
  CHECK(message.must(1).number_range().gte().int_value() == 0);
  CHECK(message.must(1).number_range().lt().int_value() == 100);
  CHECK_FALSE(message.must(1).number_range().has_gt());
  CHECK(message.must_not(0).any_of().values_size() == 2);
  CHECK(message.ids().packed_numbers().size() == 8);
}

TEST_CASE("points need one vector or text for each id") {
  CHECK_THROWS_WITH(encoder({{1, 2}, Texts{"a"}, {}}), "texts: expected 2, one for each id, got 1");
  CHECK_THROWS_WITH(encoder({{1}, Tensor::of_rows({{1}, {2}}), {}}), "vectors: expected 1, one for each id, got 2");
  CHECK_THROWS_WITH(encoder({{1}, Texts{"a"}, {{}, {}}}), "payloads: expected 1, one for each id, got 2");
  CHECK_THROWS_AS(encoder({{1}, Tensor::of<double>({1, 1}, {1}), {}}), std::invalid_argument);
}

TEST_CASE("points are split into parts of a size, with at least one point each") {
  const auto points = encoder({{1, 2, 3}, Texts{std::string(100, 'a'), "b", "c"}, {{{"line", 1}}, {{"line", 2}}, {{"line", 3}}}});
  CHECK(points.end_of_part(0, 10) == 1);
  CHECK(points.end_of_part(1, 1000) == 3);
  const auto request = points.request(1, 2);
  CHECK(request.collection() == "code");
  CHECK(request.texts().values(1) == "c");
  CHECK(request.payloads(1).fields().at("line").int_value() == 3);
  CHECK(request.ids().packed_numbers().size() == 16);
}

TEST_CASE("duplicate ids are refused where parts would hide them") {
  CHECK_THROWS_AS(encoder({{1, 2, 1}, Texts{"a", "b", "c"}, {}}).check_ids(), std::invalid_argument);
  CHECK_NOTHROW(encoder({{1, 2, 3}, Texts{"a", "b", "c"}, {}}).check_ids());
}
