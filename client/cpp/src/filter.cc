#include "accelerd/filter.h"

namespace accelerd {

Condition Condition::equals(std::string field, const Value& value) {
  Condition condition(std::move(field));
  *condition.message_.mutable_equals() = value.to_message();
  return condition;
}

Condition Condition::any_of(std::string field, const std::vector<Value>& values) {
  Condition condition(std::move(field));
  auto& set = *condition.message_.mutable_any_of();
  for (const auto& value : values) *set.add_values() = value.to_message();
  return condition;
}

Condition Condition::within(std::string field, const Bounds& bounds) {
  Condition condition(std::move(field));
  auto& range = *condition.message_.mutable_number_range();
  if (bounds.greater_than) *range.mutable_gt() = bounds.greater_than->to_message();
  if (bounds.at_least) *range.mutable_gte() = bounds.at_least->to_message();
  if (bounds.less_than) *range.mutable_lt() = bounds.less_than->to_message();
  if (bounds.at_most) *range.mutable_lte() = bounds.at_most->to_message();
  return condition;
}

Condition Condition::range(std::string field, Value at_least, Value less_than) {
  return within(std::move(field), {std::nullopt, std::move(at_least), std::move(less_than), std::nullopt});
}

Filter& Filter::ids(const Ids& ids) {
  *message_.mutable_ids() = ids.to_message();
  return *this;
}

Filter& Filter::must(const Condition& condition) {
  *message_.add_must() = condition.message();
  return *this;
}

Filter& Filter::must_not(const Condition& condition) {
  *message_.add_must_not() = condition.message();
  return *this;
}

}  // namespace accelerd
