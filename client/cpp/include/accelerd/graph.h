// Graphs of tensor operations, and the tensors that operations and kernels read.
#pragma once

#include <accelerd/v1/tensor.pb.h>

#include <cstdint>
#include <initializer_list>
#include <map>
#include <string>
#include <type_traits>
#include <variant>
#include <vector>

#include "accelerd/options.h"
#include "accelerd/tensor.h"

namespace accelerd {

// A tensor that the daemon keeps.
using ResidentTensor = v1::ResidentTensor;

// What an operation reads: a tensor of the client, or one that the daemon keeps.
using TensorSource = std::variant<Tensor, ResidentTensor>;

v1::TensorInput to_message(const std::string& name, TensorSource source);

// The value of an attribute: a truth value, an integer, a number, a text such as the name of an element type, or a list of integers.
class Attribute {
 public:
  template <class Number, class = std::enable_if_t<std::is_arithmetic_v<Number>>>
  Attribute(Number value) {
    if constexpr (std::is_same_v<Number, bool>) {
      message_.set_boolean(value);
    } else if constexpr (std::is_floating_point_v<Number>) {
      message_.set_number(value);
    } else {
      message_.set_integer(static_cast<std::int64_t>(value));
    }
  }
  Attribute(std::string text) { message_.set_text(std::move(text)); }
  Attribute(const char* text) { message_.set_text(text); }
  Attribute(const std::vector<std::int64_t>& integers) {
    message_.mutable_integers()->mutable_values()->Add(integers.begin(), integers.end());
  }

  const v1::TensorAttribute& message() const { return message_; }

 private:
  v1::TensorAttribute message_;
};

// Operations that one call computes; the values between them stay on the device.
class Graph {
 public:
  // An input, or a result of an operation.
  class Value {
   public:
    // A further result of an operation that has several.
    Value result(int index) const { return Value(index == 0 ? name_ : name_ + ":" + std::to_string(index)); }
    const std::string& name() const { return name_; }

   private:
    friend class Graph;
    explicit Value(std::string name) : name_(std::move(name)) {}

    std::string name_;
  };

  // Gives an input.
  Value input(TensorSource source);
  // Applies an operation, by PyTorch's name: `graph.op("sum", {x}, {{"dim", 1}})`. docs/tensor.md lists them.
  Value op(const std::string& name, const std::vector<Value>& operands, const std::map<std::string, Attribute>& attributes = {});

  // The request that computes values, whose `keep` is as given.
  v1::ExecuteRequest to_message(const std::vector<Value>& outputs, bool keep) const&;
  v1::ExecuteRequest to_message(const std::vector<Value>& outputs, bool keep) &&;

 private:
  v1::ExecuteRequest request_;
};

struct ExecuteOptions : CallOptions {
  // `cpu` or `cuda:0`; empty means the one that holds the most bytes of the inputs, or any.
  std::string device;
  // How long the daemon keeps an unused tensor of `keep`; by default as long as it is configured.
  std::optional<Duration> ttl;
};

}  // namespace accelerd
