// Filters of points by their ids and payloads.
#pragma once

#include <accelerd/v1/similarity.pb.h>

#include <optional>
#include <string>
#include <vector>

#include "accelerd/points.h"

namespace accelerd {

// A condition on a field of the payload, which a point without the field does not meet.
class Condition {
 public:
  // The field equals the value; integers and doubles compare by value.
  static Condition equals(std::string field, const Value& value);
  static Condition any_of(std::string field, const std::vector<Value>& values);

  struct Bounds {
    std::optional<Value> greater_than;
    std::optional<Value> at_least;
    std::optional<Value> less_than;
    std::optional<Value> at_most;
  };
  // The field is a number within the bounds.
  static Condition within(std::string field, const Bounds& bounds);
  // at_least <= field < less_than.
  static Condition range(std::string field, Value at_least, Value less_than);

  const v1::Condition& message() const { return message_; }

 private:
  explicit Condition(std::string field) { message_.set_field(std::move(field)); }

  v1::Condition message_;
};

// Selects points that meet all parts: `Filter().must(Condition::equals("path", "net.py"))`.
class Filter {
 public:
  Filter& ids(const Ids& ids);
  Filter& must(const Condition& condition);
  Filter& must_not(const Condition& condition);

  const v1::Filter& message() const { return message_; }

 private:
  v1::Filter message_;
};

}  // namespace accelerd
