// Tensors: shape, element type and little-endian bytes.
#pragma once

#include <accelerd/v1/tensor.pb.h>

#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "accelerd/span.h"

namespace accelerd {

// Element types, with the numbers of the protocol.
enum class Dtype {
  f16 = v1::DTYPE_F16,
  bf16 = v1::DTYPE_BF16,
  f32 = v1::DTYPE_F32,
  f64 = v1::DTYPE_F64,
  i8 = v1::DTYPE_I8,
  i16 = v1::DTYPE_I16,
  i32 = v1::DTYPE_I32,
  i64 = v1::DTYPE_I64,
  u8 = v1::DTYPE_U8,
  u16 = v1::DTYPE_U16,
  u32 = v1::DTYPE_U32,
  u64 = v1::DTYPE_U64,
  boolean = v1::DTYPE_BOOL,
};

// Name of a type in attributes of operations and in messages, such as "f32".
const char* name_of(Dtype dtype);
// Bytes of an element.
std::size_t size_of(Dtype dtype);

// An element of f16 or bf16, which C++17 cannot compute with.
struct Float16 {
  std::uint16_t bits;
  explicit operator float() const;
};
struct BFloat16 {
  std::uint16_t bits;
  explicit operator float() const;
};

// The element type of a type of C++.
template <class T>
struct DtypeOf;
template <>
struct DtypeOf<Float16> : std::integral_constant<Dtype, Dtype::f16> {};
template <>
struct DtypeOf<BFloat16> : std::integral_constant<Dtype, Dtype::bf16> {};
template <>
struct DtypeOf<float> : std::integral_constant<Dtype, Dtype::f32> {};
template <>
struct DtypeOf<double> : std::integral_constant<Dtype, Dtype::f64> {};
template <>
struct DtypeOf<std::int8_t> : std::integral_constant<Dtype, Dtype::i8> {};
template <>
struct DtypeOf<std::int16_t> : std::integral_constant<Dtype, Dtype::i16> {};
template <>
struct DtypeOf<std::int32_t> : std::integral_constant<Dtype, Dtype::i32> {};
template <>
struct DtypeOf<std::int64_t> : std::integral_constant<Dtype, Dtype::i64> {};
template <>
struct DtypeOf<std::uint8_t> : std::integral_constant<Dtype, Dtype::u8> {};
template <>
struct DtypeOf<std::uint16_t> : std::integral_constant<Dtype, Dtype::u16> {};
template <>
struct DtypeOf<std::uint32_t> : std::integral_constant<Dtype, Dtype::u32> {};
template <>
struct DtypeOf<std::uint64_t> : std::integral_constant<Dtype, Dtype::u64> {};
template <>
struct DtypeOf<bool> : std::integral_constant<Dtype, Dtype::boolean> {};

// A dense array, row-major. Its bytes move between it and a message without a copy.
class Tensor {
 public:
  using Shape = std::vector<std::int64_t>;

  // An f32 tensor without elements.
  Tensor() : Tensor(Dtype::f32, {0}, {}) {}
  // Throws std::invalid_argument if the bytes do not fit the shape.
  Tensor(Dtype dtype, Shape shape, std::string bytes);
  explicit Tensor(v1::Tensor message);

  // Copies elements.
  template <class T>
  static Tensor of(Shape shape, span<const T> values) {
    std::string bytes(values.size() * sizeof(T), '\0');
    if (!values.empty()) std::memcpy(bytes.data(), values.data(), bytes.size());
    return Tensor(DtypeOf<T>::value, std::move(shape), std::move(bytes));
  }
  template <class T>
  static Tensor of(Shape shape, const std::vector<T>& values) {
    return of(std::move(shape), span<const T>(values));
  }
  template <class T>
  static Tensor of(Shape shape, std::initializer_list<T> values) {
    return of(std::move(shape), span<const T>(values.begin(), values.size()));
  }
  // A matrix of rows of equal length.
  static Tensor of_rows(const std::vector<std::vector<float>>& rows);

  Tensor(const Tensor& other);
  Tensor(Tensor&& other) noexcept = default;
  Tensor& operator=(const Tensor& other);
  Tensor& operator=(Tensor&& other) noexcept = default;
  ~Tensor() = default;

  Dtype dtype() const { return dtype_; }
  const Shape& shape() const { return shape_; }
  const std::string& bytes() const { return bytes_; }
  // Number of elements.
  std::size_t size() const { return bytes_.size() / size_of(dtype_); }

  // The elements, without a copy. Throws std::invalid_argument if their type is another one.
  template <class T>
  span<const T> values() const {
    check_dtype(DtypeOf<T>::value);
    return {reinterpret_cast<const T*>(bytes_.data()), size()};
  }
  template <class T>
  span<T> values() {
    check_dtype(DtypeOf<T>::value);
    return {reinterpret_cast<T*>(bytes_.data()), size()};
  }
  // Row i along the first dimension.
  template <class T>
  span<const T> row(std::size_t i) const {
    const std::size_t extent = row_size(i);
    return values<T>().subspan(i * extent, extent);
  }
  // The elements of f16, bf16 or f32 as float.
  std::vector<float> to_floats() const;
  // A copy of rows along the first dimension.
  Tensor rows(std::size_t start, std::size_t count) const;

  v1::Tensor to_message() const&;
  v1::Tensor to_message() &&;

 private:
  void check_dtype(Dtype expected) const;
  std::size_t row_size(std::size_t i) const;
  void align();

  Dtype dtype_;
  Shape shape_;
  // A string, as in messages. Its elements are aligned.
  std::string bytes_;
};

}  // namespace accelerd
