#include "server/api/anthropic/cache_control.h"

#include <fmt/format.h>

#include <string>

namespace kvkeep::server::api {
namespace {

constexpr int kMostMarks = 4;

bool is_type(const Json& block, std::string_view type) {
  const Json* value = field(block, "type");
  return value != nullptr && *value == type;
}

Result<CacheLifetime> lifetime_of(const Json& mark, const std::string& path) {
  if (!mark.is_object()) return wrong_type(path, "an object", mark);
  if (!is_type(mark, "ephemeral")) return invalid(fmt::format("'{}.type' must be 'ephemeral'", path));
  const Json* ttl = field(mark, "ttl");
  if (ttl == nullptr || *ttl == "5m") return CacheLifetime::kFiveMinutes;
  if (*ttl == "1h") return CacheLifetime::kOneHour;
  return invalid(fmt::format("'{}.ttl' must be '5m' or '1h'", path));
}

class Marks {
 public:
  // Checks the mark of a tool, a block or the body, if it has one.
  Status look_at(const Json& carrier, const std::string& path) {
    const Json* mark = carrier.is_object() ? field(carrier, "cache_control") : nullptr;
    if (mark == nullptr) return {};
    const std::string mark_path = path.empty() ? "cache_control" : path + ".cache_control";
    TRY_ASSIGN(const CacheLifetime lifetime, lifetime_of(*mark, mark_path));
    TRY(check_place(carrier, path));
    if (lifetime == CacheLifetime::kOneHour && last_ == CacheLifetime::kFiveMinutes) {
      return invalid(fmt::format(
          "'{}.ttl': a ttl='1h' cache_control block must not come after a ttl='5m' cache_control block. Note that "
          "blocks are processed in the following order: `tools`, `system`, `messages`.",
          mark_path));
    }
    ++count_;
    last_ = lifetime;
    return {};
  }

  Status look_at_each(const Json* list, const std::string& path) {
    if (list == nullptr || !list->is_array()) return {};
    for (std::size_t i = 0; i < list->size(); ++i) {
      const std::string place = fmt::format("{}.{}", path, i);
      TRY(look_at((*list)[i], place));
      if ((*list)[i].is_object() && is_type((*list)[i], "tool_result")) {
        TRY(look_at_each(field((*list)[i], "content"), place + ".content"));
      }
    }
    return {};
  }

  Result<CacheLifetime> result() const {
    if (count_ <= kMostMarks) return last_;
    return invalid(
        fmt::format("A maximum of {} blocks with cache_control may be provided. Found {}.", kMostMarks, count_));
  }

 private:
  static Status check_place(const Json& carrier, const std::string& path) {
    if (is_type(carrier, "thinking") || is_type(carrier, "redacted_thinking")) {
      return invalid(fmt::format("'{}': cache_control cannot be set on thinking blocks", path));
    }
    const Json* text = is_type(carrier, "text") ? field(carrier, "text") : nullptr;
    if (text != nullptr && *text == "") {
      return invalid(fmt::format("'{}.text': cache_control cannot be set for empty text blocks", path));
    }
    return {};
  }

  int count_ = 0;
  CacheLifetime last_ = CacheLifetime::kNone;
};

}  // namespace

Result<CacheLifetime> read_cache_control(const Json& body) {
  Marks marks;
  TRY(marks.look_at_each(field(body, "tools"), "tools"));
  TRY(marks.look_at_each(field(body, "system"), "system"));
  if (const Json* messages = field(body, "messages"); messages != nullptr && messages->is_array()) {
    for (std::size_t i = 0; i < messages->size(); ++i) {
      if (!(*messages)[i].is_object()) continue;
      TRY(marks.look_at_each(field((*messages)[i], "content"), fmt::format("messages.{}.content", i)));
    }
  }
  TRY(marks.look_at(body, ""));
  return marks.result();
}

}  // namespace kvkeep::server::api
