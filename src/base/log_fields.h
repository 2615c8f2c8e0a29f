#pragma once

// Named values of a line of the log, for logs that have fields (--log-format json).
//
// A line's text is for people, and may contain words of clients: an error that quotes a request can look like any value
// of the server's own. So a line whose values programs want brings them beside its text. spdlog has no place for them:
// they lie in a variable of the thread while it logs, where a formatter on the same thread finds them. All sinks of the
// server are synchronous.

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace kvkeep {

struct LogField {
  std::string_view name;  // of a constant
  std::variant<std::int64_t, double, std::string> value;
  bool operator==(const LogField&) const = default;
};
using LogFields = std::vector<LogField>;

// The lines that this thread logs while this lives have these fields.
class WithLogFields {
 public:
  explicit WithLogFields(LogFields fields) : fields_(std::move(fields)) { current_ = &fields_; }
  ~WithLogFields() { current_ = nullptr; }
  WithLogFields(const WithLogFields&) = delete;
  WithLogFields& operator=(const WithLogFields&) = delete;

  // Null: the line has no fields but those in its text.
  static const LogFields* current() { return current_; }

 private:
  static inline thread_local const LogFields* current_ = nullptr;
  const LogFields fields_;
};

}  // namespace kvkeep
