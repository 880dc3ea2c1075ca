// A view of contiguous elements, as std::span of C++20.
#pragma once

#include <cstddef>
#include <type_traits>
#include <utility>

namespace accelerd {

// Refers to elements that something else owns.
template <class T>
class span {
 public:
  using element_type = T;
  using value_type = std::remove_cv_t<T>;
  using iterator = T*;

  constexpr span() = default;
  constexpr span(T* data, std::size_t size) : data_(data), size_(size) {}

  // Any container with data() and size(): a vector, a string, an array, a std::span.
  template <class Container, class Element = std::remove_pointer_t<decltype(std::declval<Container&>().data())>,
            class = std::enable_if_t<std::is_convertible_v<Element (*)[], T (*)[]> && !std::is_same_v<std::decay_t<Container>, span>>>
  constexpr span(Container&& container) : data_(container.data()), size_(container.size()) {}

  template <std::size_t N>
  constexpr span(T (&array)[N]) : data_(array), size_(N) {}

  constexpr T* data() const { return data_; }
  constexpr std::size_t size() const { return size_; }
  constexpr bool empty() const { return size_ == 0; }
  constexpr T& operator[](std::size_t index) const { return data_[index]; }
  constexpr T* begin() const { return data_; }
  constexpr T* end() const { return data_ + size_; }
  constexpr span subspan(std::size_t offset, std::size_t count) const { return {data_ + offset, count}; }

 private:
  T* data_ = nullptr;
  std::size_t size_ = 0;
};

}  // namespace accelerd
