// Points of collections: ids, texts, vectors and payloads.
#pragma once

#include <accelerd/v1/similarity.pb.h>

#include <cstdint>
#include <initializer_list>
#include <map>
#include <string>
#include <string_view>
#include <type_traits>
#include <variant>
#include <vector>

#include "accelerd/tensor.h"

namespace accelerd {

// Texts, in the form of the protocol.
class Texts {
 public:
  Texts(std::initializer_list<std::string_view> values) { append(values); }
  // Any range of strings.
  template <class Range, class = std::enable_if_t<std::is_convertible_v<decltype(*std::declval<const Range&>().begin()), std::string_view>>>
  Texts(const Range& values) {
    append(values);
  }

  std::size_t size() const { return static_cast<std::size_t>(message_.values_size()); }
  const v1::TextInput& message() const& { return message_; }
  v1::TextInput message() && { return std::move(message_); }

 private:
  template <class Range>
  void append(const Range& values) {
    for (const auto& value : values) {
      const std::string_view text = value;
      message_.add_values(text.data(), text.size());
    }
  }

  v1::TextInput message_;
};

// An id of a point: a number or a UUID.
using PointId = std::variant<std::uint64_t, std::string>;

// Distinct ids of points, all numbers or all UUIDs.
class Ids {
 public:
  Ids() = default;
  Ids(std::vector<std::uint64_t> numbers) : ids_(std::move(numbers)) {}
  Ids(std::initializer_list<std::uint64_t> numbers) : ids_(std::vector<std::uint64_t>(numbers)) {}
  // UUIDs in any form of RFC 9562.
  static Ids uuids(std::vector<std::string> uuids);

  std::size_t size() const;
  v1::PointIds to_message() const { return to_message(0, size()); }
  v1::PointIds to_message(std::size_t start, std::size_t count) const;

 private:
  std::variant<std::vector<std::uint64_t>, std::vector<std::string>> ids_;
};

// A value of a payload.
class Value {
 public:
  Value(std::string text) : value_(std::move(text)) {}
  Value(std::string_view text) : value_(std::string(text)) {}
  Value(const char* text) : value_(std::string(text)) {}
  template <class Number, class = std::enable_if_t<std::is_arithmetic_v<Number>>>
  Value(Number number) {
    if constexpr (std::is_same_v<Number, bool>) {
      value_ = number;
    } else if constexpr (std::is_floating_point_v<Number>) {
      value_ = static_cast<double>(number);
    } else {
      static_assert(std::is_signed_v<Number> || sizeof(Number) < sizeof(std::int64_t), "convert it to std::int64_t");
      value_ = static_cast<std::int64_t>(number);
    }
  }
  explicit Value(const v1::Value& message);

  // The text, integer, number or truth value; throws std::bad_variant_access if it is another one.
  const std::string& text() const { return std::get<std::string>(value_); }
  std::int64_t integer() const { return std::get<std::int64_t>(value_); }
  double number() const { return std::get<double>(value_); }
  bool boolean() const { return std::get<bool>(value_); }

  v1::Value to_message() const;
  friend bool operator==(const Value& left, const Value& right) { return left.value_ == right.value_; }
  friend bool operator!=(const Value& left, const Value& right) { return !(left == right); }

 private:
  std::variant<std::string, std::int64_t, double, bool> value_;
};

// Metadata of a point, by field.
using Payload = std::map<std::string, Value>;

Payload payload_of(const v1::Payload& message);
v1::Payload to_message(const Payload& payload);

// Points to write.
struct Points {
  Ids ids;
  // Vectors f32 [n, dimensions], or texts that the collection's model embeds.
  std::variant<Tensor, Texts> content;
  // None, or one for each point.
  std::vector<Payload> payloads;
};

// A stored point.
struct Point {
  PointId id;
  Payload payload;
  // If requested.
  std::vector<float> vector;
};

// A point that a search found.
struct Hit {
  PointId id;
  float score = 0;
  Payload payload;
};

}  // namespace accelerd
