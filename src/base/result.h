#pragma once

// Result<T>: a value or an Error that says what the caller should do next.
//
// Three kinds of trouble exist. An operating error (disk full, port in use, model missing) is a Result. Damaged bytes
// are an ErrorKind::kDamaged, which callers turn into a miss, a counter and quarantine. A bug is KVKEEP_ASSERT
// (assert.h), which stays on in release builds.
//
// std::expected may be dropped silently; Result is [[nodiscard]], so ignoring one does not compile.

#include <expected>
#include <string>
#include <utility>

namespace kvkeep {

// Named by what the caller does next.
enum class ErrorKind {
  kInvalid,      // the caller's input is wrong: report it, do not retry
  kNotFound,     // nothing there: a miss
  kDamaged,      // bytes are not what was written: quarantine, count, treat as a miss
  kNoSpace,      // a limit was reached (disk, budget, cells): make room or refuse
  kIo,           // the device or the system refused: count, treat as a miss, go on
  kUnsupported,  // this build, model or system cannot do it: say so
  kAborted,      // stopped on request (shutdown, client gone)
  kBusy,         // somebody else holds it (lock, port)
};

struct Error {
  ErrorKind kind;
  std::string message;  // one line, no trailing full stop, says what to do where that is not obvious
};

template <typename T>
class [[nodiscard]] Result {
 public:
  using value_type = T;
  Result(T value) : state_(std::move(value)) {}                       // NOLINT(google-explicit-constructor)
  Result(Error error) : state_(std::unexpected(std::move(error))) {}  // NOLINT(google-explicit-constructor)

  bool ok() const { return state_.has_value(); }
  explicit operator bool() const { return ok(); }
  // Precondition: ok(). A violation ends the process (std::bad_expected_access is never caught in kvkeep).
  T& value() & { return state_.value(); }
  const T& value() const& { return state_.value(); }
  T&& value() && { return std::move(state_).value(); }
  T& operator*() & { return state_.value(); }
  const T& operator*() const& { return state_.value(); }
  T&& operator*() && { return std::move(state_).value(); }
  T* operator->() { return &state_.value(); }
  const T* operator->() const { return &state_.value(); }
  // Precondition: !ok().
  const Error& error() const& { return state_.error(); }
  Error&& error() && { return std::move(state_).error(); }

 private:
  std::expected<T, Error> state_;
};

template <>
class [[nodiscard]] Result<void> {
 public:
  using value_type = void;
  Result() = default;
  Result(Error error) : state_(std::unexpected(std::move(error))) {}  // NOLINT(google-explicit-constructor)

  bool ok() const { return state_.has_value(); }
  explicit operator bool() const { return ok(); }
  const Error& error() const& { return state_.error(); }
  Error&& error() && { return std::move(state_).error(); }

 private:
  std::expected<void, Error> state_;
};

using Status = Result<void>;

inline Error invalid(std::string message) { return {ErrorKind::kInvalid, std::move(message)}; }
inline Error not_found(std::string message) { return {ErrorKind::kNotFound, std::move(message)}; }
inline Error damaged(std::string message) { return {ErrorKind::kDamaged, std::move(message)}; }
inline Error no_space(std::string message) { return {ErrorKind::kNoSpace, std::move(message)}; }
inline Error io_error(std::string message) { return {ErrorKind::kIo, std::move(message)}; }
inline Error unsupported(std::string message) { return {ErrorKind::kUnsupported, std::move(message)}; }
inline Error aborted(std::string message) { return {ErrorKind::kAborted, std::move(message)}; }
inline Error busy(std::string message) { return {ErrorKind::kBusy, std::move(message)}; }

}  // namespace kvkeep

#define KVKEEP_CONCAT_(a, b) a##b
#define KVKEEP_CONCAT(a, b) KVKEEP_CONCAT_(a, b)
// TRY(expr): returns the error of a Result<void> to the caller.
#define TRY(expr)                                \
  do {                                           \
    if (auto try_result = (expr); !try_result) { \
      return std::move(try_result).error();      \
    }                                            \
  } while (false)
// TRY_ASSIGN(auto x, expr): binds the value or returns the error to the caller.
#define TRY_ASSIGN(decl, expr) TRY_ASSIGN_(KVKEEP_CONCAT(try_value_, __LINE__), decl, expr)
#define TRY_ASSIGN_(name, decl, expr)        \
  auto name = (expr);                        \
  if (!name) return std::move(name).error(); \
  decl = std::move(name).value()
