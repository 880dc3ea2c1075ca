// Kernels in Python, and verification.
#pragma once

#include <accelerd/v1/kernel.pb.h>
#include <accelerd/v1/verify.pb.h>

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "accelerd/graph.h"
#include "accelerd/options.h"
#include "accelerd/tensor.h"

namespace accelerd {

// Tensors by name.
using Tensors = std::map<std::string, TensorSource>;

// A kernel of a module in Python.
struct Kernel {
  Kernel(std::string source, std::string name = {}) : source(std::move(source)), name(std::move(name)) {}
  Kernel(const char* source) : Kernel(std::string(source)) {}

  v1::KernelProgram to_message() const;

  std::string source;
  // May be empty if the module has only one.
  std::string name;
  v1::KernelDialect dialect = v1::KERNEL_DIALECT_UNSPECIFIED;
  // Names that the module uses and does not define.
  std::map<std::string, std::variant<std::int64_t, double, bool>> constants;
};

struct TranslateOptions : CallOptions {
  // Empty means CUDA C++ and WebAssembly.
  std::vector<v1::KernelTarget> targets;
};

struct LaunchOptions : CallOptions {
  // Extents of the grid; may be empty for annotated functions, which are mapped over the elements of their arguments.
  std::vector<std::int64_t> grid;
  // Arrays to return; empty means all that the kernel writes. The shape is that of an array without an argument.
  std::map<std::string, Tensor::Shape> outputs;
  std::optional<std::uint64_t> loop_budget;
  v1::KernelDevice device = v1::KERNEL_DEVICE_UNSPECIFIED;
};

struct LaunchResult {
  std::map<std::string, Tensor> outputs;
  // Why the kernel ended early, such as an access outside of an array; there are no outputs then.
  std::optional<v1::KernelFault> fault;
  Duration execution_time{};
  v1::KernelDevice device = v1::KERNEL_DEVICE_UNSPECIFIED;
};

// What counts as equal. Without a tolerance those of torch.testing for the element type.
struct CompareOptions : CallOptions {
  std::optional<double> atol;
  std::optional<double> rtol;
  // Further rules and tolerances.
  v1::ComparisonPolicy policy;
  std::optional<std::uint32_t> max_mismatches;
  bool row_verdicts = false;
};

// Cases that the daemon generates to verify a function.
struct VerifyOptions : CompareOptions {
  std::uint64_t case_count = 1000;
  std::uint64_t seed = 0;
  // Values of inputs by name.
  std::map<std::string, v1::InputDomain> domains;
};

}  // namespace accelerd
