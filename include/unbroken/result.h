#pragma once
// A value or an Error. Ignoring one does not compile (-Werror=unused-result).
#include <optional>
#include <utility>
#include <variant>

#include "unbroken/error.h"

namespace unbroken {

struct Done {};

template <class T = Done>
class [[nodiscard]] Result {
 public:
  Result(T value) : v_(std::in_place_index<0>, std::move(value)) {}
  Result(Error error) : v_(std::in_place_index<1>, std::move(error)) {}
  bool ok() const noexcept { return v_.index() == 0; }
  explicit operator bool() const noexcept { return ok(); }
  T& value() & { return std::get<0>(v_); }
  const T& value() const& { return std::get<0>(v_); }
  T&& value() && { return std::get<0>(std::move(v_)); }
  const Error& error() const& { return std::get<1>(v_); }
  Error&& error() && { return std::get<1>(std::move(v_)); }
  /// True for an error of exactly this code.
  bool is(Code code) const noexcept { return !ok() && std::get<1>(v_).code() == code; }

 private:
  std::variant<T, Error> v_;
};

#define UNBROKEN_CAT2(a, b) a##b
#define UNBROKEN_CAT(a, b) UNBROKEN_CAT2(a, b)
#define UNBROKEN_TRY_IMPL(tmp, decl, expr)      \
  auto tmp = (expr);                            \
  if (!tmp.ok()) return std::move(tmp).error(); \
  decl = std::move(tmp).value()
/// UNBROKEN_TRY(auto manifest, read_manifest(store, name));
#define UNBROKEN_TRY(decl, expr) UNBROKEN_TRY_IMPL(UNBROKEN_CAT(unbroken_try_, __COUNTER__), decl, expr)
#define UNBROKEN_DO_IMPL(tmp, expr)                                  \
  do {                                                               \
    if (auto tmp = (expr); !tmp.ok()) return std::move(tmp).error(); \
  } while (0)
/// UNBROKEN_DO(store.remove(key, by));
#define UNBROKEN_DO(expr) UNBROKEN_DO_IMPL(UNBROKEN_CAT(unbroken_do_, __COUNTER__), expr)

}  // namespace unbroken
