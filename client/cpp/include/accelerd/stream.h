// Streams: results as input ranges, and the inputs of streams.
#pragma once

#include <cstddef>
#include <functional>
#include <iterator>
#include <memory>
#include <optional>
#include <type_traits>
#include <utility>
#include <vector>

namespace accelerd {

// The results of a stream, each of which can be read once: `for (auto& item : stream)`. Reading waits, and throws accelerd::Error. The
// destructor cancels a call that runs.
template <class T>
class Stream {
 public:
  class Source {
   public:
    Source() = default;
    Source(const Source&) = delete;
    Source& operator=(const Source&) = delete;
    virtual ~Source() = default;
    // The next item; none at the end.
    virtual std::optional<T> next() = 0;
  };

  class iterator {
   public:
    using iterator_category = std::input_iterator_tag;
    using value_type = T;
    using difference_type = std::ptrdiff_t;
    using pointer = T*;
    using reference = T&;

    iterator() = default;
    T& operator*() const { return *stream_->item_; }
    T* operator->() const { return &*stream_->item_; }
    iterator& operator++() {
      if (!stream_->advance()) stream_ = nullptr;
      return *this;
    }
    void operator++(int) { ++*this; }
    friend bool operator==(const iterator& left, const iterator& right) { return left.stream_ == right.stream_; }
    friend bool operator!=(const iterator& left, const iterator& right) { return !(left == right); }

   private:
    friend class Stream;
    explicit iterator(Stream* stream) : stream_(stream) {}

    Stream* stream_ = nullptr;
  };

  explicit Stream(std::unique_ptr<Source> source) : source_(std::move(source)) {}

  std::optional<T> next() { return source_->next(); }
  // Reads the first item, so it is called once.
  iterator begin() { return advance() ? iterator(this) : iterator(); }
  iterator end() { return {}; }

 private:
  bool advance() { return (item_ = next()).has_value(); }

  std::unique_ptr<Source> source_;
  std::optional<T> item_;
};

// What a stream sends: a vector, or a function that returns the next item, and none at the end. The function is called by the thread that
// reads the results, and may throw.
template <class T>
class Input {
 public:
  Input(std::vector<T> items)
      : next_([items = std::move(items), at = std::size_t{0}]() mutable -> std::optional<T> {
          if (at == items.size()) return std::nullopt;
          return std::move(items[at++]);
        }) {}

  template <class Function,
            class = std::enable_if_t<std::is_invocable_r_v<std::optional<T>, Function&> && !std::is_same_v<std::decay_t<Function>, Input>>>
  Input(Function next) : next_(std::move(next)) {}

  std::optional<T> next() { return next_(); }

 private:
  std::function<std::optional<T>()> next_;
};

}  // namespace accelerd
