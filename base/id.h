// Integers with a meaning of their own, so that one cannot be passed where another is wanted.
#pragma once

#include <compare>
#include <concepts>
#include <utility>

namespace millrace {

template <typename T>
concept Integer = std::integral<T> && !std::same_as<T, bool>;
// The same; more constrained, so that `Id(n)` of a variable prefers the explicit constructor.
template <typename T>
concept RuntimeInteger = Integer<T> && !std::same_as<T, void>;

// A constant becomes an id of the kind that is wanted there (`ShardId shard = 0`); a variable has
// to be named as one (`ShardId(message.shard())`); an id of another kind is an error. An id reads
// as its integer: as an index, in a message, in a log line. An id plus or minus an integer is an id
// of the same kind, and the difference of two is an integer.
template <typename Tag, Integer T>
class Id {
 public:
  using Value = T;

  constexpr Id() = default;
  template <Integer N>
  // NOLINTNEXTLINE(google-explicit-constructor): of constants only
  consteval Id(N constant) : value_(static_cast<T>(constant)) {}
  template <RuntimeInteger N>
  constexpr explicit Id(N value) : value_(static_cast<T>(value)) {}
  template <typename OtherTag, typename U>
  explicit Id(Id<OtherTag, U> other) = delete;

  // NOLINTNEXTLINE(google-explicit-constructor): reading it is always right
  constexpr operator T() const { return value_; }

  constexpr Id& operator++() { return *this += 1; }
  constexpr Id operator++(int) {
    const Id before = *this;
    ++value_;
    return before;
  }
  constexpr Id& operator--() { return *this -= 1; }
  template <Integer N>
  constexpr Id& operator+=(N n) {
    value_ += static_cast<T>(n);
    return *this;
  }
  template <Integer N>
  constexpr Id& operator-=(N n) {
    value_ -= static_cast<T>(n);
    return *this;
  }
  template <Integer N>
  friend constexpr Id operator+(Id id, N n) {
    return id += n;
  }
  template <Integer N>
  friend constexpr Id operator-(Id id, N n) {
    return id -= n;
  }
  friend constexpr T operator-(Id a, Id b) { return a.value_ - b.value_; }

  friend constexpr bool operator==(Id a, Id b) = default;
  friend constexpr auto operator<=>(Id a, Id b) = default;
  // Compares the numbers, whatever the integer's sign and width.
  template <Integer N>
  friend constexpr bool operator==(Id id, N n) {
    return std::cmp_equal(id.value_, n);
  }
  template <Integer N>
  friend constexpr std::strong_ordering operator<=>(Id id, N n) {
    if (std::cmp_less(id.value_, n)) return std::strong_ordering::less;
    if (std::cmp_equal(id.value_, n)) return std::strong_ordering::equal;
    return std::strong_ordering::greater;
  }
  template <typename OtherTag, typename U>
    requires(!std::same_as<OtherTag, Tag>)
  friend constexpr bool operator==(Id, Id<OtherTag, U>) = delete;
  template <typename OtherTag, typename U>
    requires(!std::same_as<OtherTag, Tag>)
  friend constexpr std::strong_ordering operator<=>(Id, Id<OtherTag, U>) = delete;
  template <typename OtherTag, typename U>
    requires(!std::same_as<OtherTag, Tag>)
  friend constexpr T operator-(Id, Id<OtherTag, U>) = delete;
  template <typename OtherTag, typename U>
  friend constexpr Id operator+(Id, Id<OtherTag, U>) = delete;

 private:
  T value_ = 0;
};

}  // namespace millrace
