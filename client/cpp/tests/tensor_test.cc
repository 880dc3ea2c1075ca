#include <accelerd/client.h>
#include <doctest/doctest.h>

#include <cmath>
#include <limits>

using accelerd::BFloat16;
using accelerd::Dtype;
using accelerd::Float16;
using accelerd::Tensor;

TEST_CASE("a tensor has the elements that it was made of") {
  const auto tensor = Tensor::of<float>({2, 3}, {1, 2, 3, 4, 5, 6});
  CHECK(tensor.dtype() == Dtype::f32);
  CHECK(tensor.size() == 6);
  CHECK(tensor.values<float>()[4] == 5);
  CHECK(tensor.row<float>(1)[0] == 4);
  CHECK_THROWS_AS(tensor.row<float>(2), std::out_of_range);
  CHECK_THROWS_WITH(tensor.values<double>(), "values: expected elements of f64, the tensor has f32");
}

TEST_CASE("every type of elements makes a round trip through a message") {
  const auto check = [](auto value) {
    using T = decltype(value);
    const auto tensor = Tensor::of<T>({3}, {value, T{}, value});
    const auto message = tensor.to_message();
    CHECK(message.data().size() == 3 * sizeof(T));
    const Tensor back{message};
    CHECK(back.dtype() == accelerd::DtypeOf<T>::value);
    CHECK(back.values<T>()[2] == value);
    CHECK(reinterpret_cast<std::uintptr_t>(back.values<T>().data()) % alignof(T) == 0);
  };
  check(1.5F);
  check(-2.5);
  check(std::int8_t{-1});
  check(std::int16_t{-300});
  check(std::int32_t{-70'000});
  check(std::int64_t{1} << 40);
  check(std::uint8_t{255});
  check(std::uint16_t{65'535});
  check(std::uint32_t{1} << 31);
  check(~std::uint64_t{});
  check(true);
}

TEST_CASE("bytes move between a tensor and a message without a copy") {
  auto tensor = Tensor::of<float>({64}, std::vector<float>(64, 1.0F));
  const char* data = tensor.bytes().data();
  auto message = std::move(tensor).to_message();
  CHECK(message.data().data() == data);
  CHECK(Tensor(std::move(message)).bytes().data() == data);
}

TEST_CASE("bytes that do not fit the shape are refused") {
  CHECK_THROWS_WITH(Tensor(Dtype::f32, {2, 3}, "1234"), "bytes: expected 24 for f32 [2, 3], got 4");
  CHECK_THROWS_AS(Tensor(Dtype::f32, {-1}, ""), std::invalid_argument);
  CHECK_THROWS_AS(Tensor(Dtype::f64, {std::int64_t{1} << 62, 8}, ""), std::invalid_argument);
  CHECK_THROWS_AS(Tensor(static_cast<Dtype>(99), {1}, "1"), std::invalid_argument);
  CHECK(Tensor(Dtype::f32, {std::int64_t{1} << 62, 0}, "").size() == 0);
}

TEST_CASE("a tensor without dimensions has one element") { CHECK(Tensor::of<double>({}, {2.5}).values<double>()[0] == 2.5); }

TEST_CASE("rows are copied from the middle of a tensor") {
  const auto tensor = Tensor::of_rows({{1, 2}, {3, 4}, {5, 6}});
  const Tensor middle = tensor.rows(1, 2);
  CHECK(middle.shape() == Tensor::Shape{2, 2});
  CHECK(middle.values<float>()[0] == 3);
  CHECK_THROWS_AS(tensor.rows(2, 2), std::out_of_range);
  CHECK_THROWS_AS(Tensor::of_rows({{1}, {1, 2}}), std::invalid_argument);
}

TEST_CASE("half floats have the values of their bits") {
  CHECK(static_cast<float>(Float16{0x3C00}) == 1.0F);
  CHECK(static_cast<float>(Float16{0xC000}) == -2.0F);
  CHECK(static_cast<float>(Float16{0x7BFF}) == 65504.0F);
  CHECK(static_cast<float>(Float16{0x0001}) == std::ldexp(1.0F, -24));
  CHECK(std::signbit(static_cast<float>(Float16{0x8000})));
  CHECK(std::isinf(static_cast<float>(Float16{0x7C00})));
  CHECK(std::isnan(static_cast<float>(Float16{0x7E00})));
  CHECK(static_cast<float>(BFloat16{0x3F80}) == 1.0F);
  CHECK(Tensor::of<BFloat16>({1}, {BFloat16{0xBF80}}).to_floats() == std::vector<float>{-1.0F});
}
