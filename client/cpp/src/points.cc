#include "accelerd/points.h"

#include <stdexcept>

namespace accelerd {

Ids Ids::uuids(std::vector<std::string> uuids) {
  Ids ids;
  ids.ids_ = std::move(uuids);
  return ids;
}

std::size_t Ids::size() const {
  return std::visit([](const auto& ids) { return ids.size(); }, ids_);
}

v1::PointIds Ids::to_message(std::size_t start, std::size_t count) const {
  v1::PointIds message;
  if (const auto* uuids = std::get_if<std::vector<std::string>>(&ids_)) {
    for (std::size_t i = start; i < start + count; ++i) message.add_uuids((*uuids)[i]);
  } else if (count != 0) {
    const auto& numbers = std::get<std::vector<std::uint64_t>>(ids_);
    message.set_packed_numbers(numbers.data() + start, count * sizeof(std::uint64_t));
  }
  return message;
}

Value::Value(const v1::Value& message) {
  switch (message.kind_case()) {
    case v1::Value::kStringValue: value_ = message.string_value(); return;
    case v1::Value::kIntValue: value_ = static_cast<std::int64_t>(message.int_value()); return;
    case v1::Value::kDoubleValue: value_ = message.double_value(); return;
    case v1::Value::kBoolValue: value_ = message.bool_value(); return;
    case v1::Value::KIND_NOT_SET: break;
  }
  throw std::invalid_argument("value: expected a text, an integer, a number or a truth value");
}

v1::Value Value::to_message() const {
  v1::Value message;
  if (const auto* text = std::get_if<std::string>(&value_)) message.set_string_value(*text);
  if (const auto* integer = std::get_if<std::int64_t>(&value_)) message.set_int_value(*integer);
  if (const auto* number = std::get_if<double>(&value_)) message.set_double_value(*number);
  if (const auto* boolean = std::get_if<bool>(&value_)) message.set_bool_value(*boolean);
  return message;
}

Payload payload_of(const v1::Payload& message) {
  Payload payload;
  for (const auto& [field, value] : message.fields()) payload.emplace(field, Value(value));
  return payload;
}

v1::Payload to_message(const Payload& payload) {
  v1::Payload message;
  for (const auto& [field, value] : payload) (*message.mutable_fields())[field] = value.to_message();
  return message;
}

}  // namespace accelerd
