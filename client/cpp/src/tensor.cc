#include "accelerd/tensor.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <stdexcept>

namespace accelerd {

#if defined(__BYTE_ORDER__)
static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "tensors are little-endian");
#endif

namespace {

std::string text_of(const Tensor::Shape& shape) {
  std::string text = "[";
  for (std::size_t i = 0; i < shape.size(); ++i) text += (i == 0 ? "" : ", ") + std::to_string(shape[i]);
  return text + "]";
}

// Number of bytes of a shape. Throws std::invalid_argument for a negative extent, or a number that overflows.
std::size_t bytes_of(Dtype dtype, const Tensor::Shape& shape) {
  const bool is_empty = std::find(shape.begin(), shape.end(), 0) != shape.end();
  std::size_t bytes = is_empty ? 0 : size_of(dtype);
  for (const std::int64_t extent : shape) {
    const auto factor = static_cast<std::size_t>(extent);
    if (extent < 0 || (bytes != 0 && factor > std::numeric_limits<std::size_t>::max() / bytes)) {
      throw std::invalid_argument("shape: expected extents of at least 0 whose product fits into memory, got " + text_of(shape));
    }
    bytes *= factor;
  }
  return bytes;
}

Tensor::Shape shape_of(const v1::Tensor& message) { return {message.shape().begin(), message.shape().end()}; }

float from_bits(std::uint32_t bits) {
  float value = 0;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

template <class T>
std::vector<float> floats_of(span<const T> values) {
  std::vector<float> floats(values.size());
  for (std::size_t i = 0; i < values.size(); ++i) floats[i] = static_cast<float>(values[i]);
  return floats;
}

}  // namespace

const char* name_of(Dtype dtype) {
  switch (dtype) {
    case Dtype::f16: return "f16";
    case Dtype::bf16: return "bf16";
    case Dtype::f32: return "f32";
    case Dtype::f64: return "f64";
    case Dtype::i8: return "i8";
    case Dtype::i16: return "i16";
    case Dtype::i32: return "i32";
    case Dtype::i64: return "i64";
    case Dtype::u8: return "u8";
    case Dtype::u16: return "u16";
    case Dtype::u32: return "u32";
    case Dtype::u64: return "u64";
    case Dtype::boolean: return "bool";
  }
  throw std::invalid_argument("dtype: unknown number " + std::to_string(static_cast<int>(dtype)));
}

std::size_t size_of(Dtype dtype) {
  switch (dtype) {
    case Dtype::i8:
    case Dtype::u8:
    case Dtype::boolean: return 1;
    case Dtype::f16:
    case Dtype::bf16:
    case Dtype::i16:
    case Dtype::u16: return 2;
    case Dtype::f32:
    case Dtype::i32:
    case Dtype::u32: return 4;
    case Dtype::f64:
    case Dtype::i64:
    case Dtype::u64: return 8;
  }
  throw std::invalid_argument("dtype: unknown number " + std::to_string(static_cast<int>(dtype)));
}

Float16::operator float() const {
  const std::uint32_t sign = (bits & 0x8000U) << 16;
  const std::uint32_t exponent = (bits >> 10) & 0x1FU;
  const std::uint32_t fraction = bits & 0x3FFU;
  if (exponent == 0x1F) return from_bits(sign | 0x7F800000U | fraction << 13);
  if (exponent != 0) return from_bits(sign | (exponent + 112) << 23 | fraction << 13);
  const float subnormal = std::ldexp(static_cast<float>(fraction), -24);
  return sign == 0 ? subnormal : -subnormal;
}

BFloat16::operator float() const { return from_bits(static_cast<std::uint32_t>(bits) << 16); }

Tensor::Tensor(Dtype dtype, Shape shape, std::string bytes) : dtype_(dtype), shape_(std::move(shape)), bytes_(std::move(bytes)) {
  const std::size_t expected = bytes_of(dtype_, shape_);
  if (bytes_.size() != expected) {
    throw std::invalid_argument("bytes: expected " + std::to_string(expected) + " for " + name_of(dtype_) + " " + text_of(shape_) +
                                ", got " + std::to_string(bytes_.size()));
  }
  align();
}

Tensor::Tensor(v1::Tensor message) : Tensor(static_cast<Dtype>(message.dtype()), shape_of(message), std::move(*message.mutable_data())) {}

Tensor::Tensor(const Tensor& other) : dtype_(other.dtype_), shape_(other.shape_), bytes_(other.bytes_) { align(); }

Tensor& Tensor::operator=(const Tensor& other) { return *this = Tensor(other); }

Tensor Tensor::of_rows(const std::vector<std::vector<float>>& rows) {
  const std::size_t columns = rows.empty() ? 0 : rows.front().size();
  std::vector<float> values;
  values.reserve(rows.size() * columns);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    if (rows[i].size() != columns) {
      throw std::invalid_argument("rows: expected " + std::to_string(columns) + " values in each row, got " +
                                  std::to_string(rows[i].size()) + " in row " + std::to_string(i));
    }
    values.insert(values.end(), rows[i].begin(), rows[i].end());
  }
  return of({static_cast<std::int64_t>(rows.size()), static_cast<std::int64_t>(columns)}, values);
}

std::vector<float> Tensor::to_floats() const {
  if (dtype_ == Dtype::f16) return floats_of(values<Float16>());
  if (dtype_ == Dtype::bf16) return floats_of(values<BFloat16>());
  return floats_of(values<float>());
}

Tensor Tensor::rows(std::size_t start, std::size_t count) const {
  const std::size_t row_bytes = row_size(start + count - std::min<std::size_t>(count, 1)) * size_of(dtype_);
  Shape shape = shape_;
  shape.front() = static_cast<std::int64_t>(count);
  return {dtype_, std::move(shape), bytes_.substr(start * row_bytes, count * row_bytes)};
}

v1::Tensor Tensor::to_message() const& { return Tensor(*this).to_message(); }

v1::Tensor Tensor::to_message() && {
  v1::Tensor message;
  message.set_dtype(static_cast<v1::Dtype>(dtype_));
  message.mutable_shape()->Add(shape_.begin(), shape_.end());
  message.set_data(std::move(bytes_));
  *this = Tensor();
  return message;
}

void Tensor::check_dtype(Dtype expected) const {
  if (dtype_ != expected) {
    throw std::invalid_argument(std::string("values: expected elements of ") + name_of(expected) + ", the tensor has " + name_of(dtype_));
  }
}

std::size_t Tensor::row_size(std::size_t i) const {
  if (shape_.empty() || i >= static_cast<std::size_t>(shape_.front())) {
    throw std::out_of_range("row: expected an index of a row of " + text_of(shape_) + ", got " + std::to_string(i));
  }
  return size() / static_cast<std::size_t>(shape_.front());
}

// A short string can be inside of its object, where some libraries put it at an odd address.
void Tensor::align() {
  if (reinterpret_cast<std::uintptr_t>(bytes_.data()) % alignof(std::uint64_t) != 0) bytes_.reserve(sizeof(std::string) * 2);
}

}  // namespace accelerd
