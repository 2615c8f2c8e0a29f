#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>

#include "bench/report.h"
#include "bench/report_fields.h"
#include "bench/report_text.h"

namespace kvkeep::bench {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t kMostQuotedCharacters = 60;

// Fills figures from JSON, up to the first thing that is wrong; what stands behind it is left alone.
class Reader {
 public:
  const std::string& error() const { return error_; }

  template <typename Figures>
    requires std::is_class_v<Figures>
  void read(const Json& value, Figures& out) {
    if (!value.is_object()) return wrong("an object", value);
    each_field(out, [&](const char* key, auto& field) { member(value, key, field); });
  }

  void member(const Json& object, const char* key, auto& out) {
    const std::size_t outside = path_.size();
    path_ += path_.empty() ? key : fmt::format(".{}", key);
    const auto found = object.find(key);
    if (found == object.end()) {
      if (!may_be_missing(key)) fail("is missing");
    } else if (error_.empty()) {
      read(*found, out);
    }
    path_.resize(outside);
  }

  template <typename Value>
  void read(const Json& value, std::vector<Value>& out) {
    if (!value.is_array()) return wrong("an array", value);
    for (const Json& element : value) {
      const std::size_t outside = path_.size();
      path_ += fmt::format("[{}]", out.size());
      read(element, out.emplace_back());
      path_.resize(outside);
      if (!error_.empty()) return;
    }
  }

  template <typename Value>
  void read(const Json& value, std::optional<Value>& out) {
    if (!value.is_null()) read(value, out.emplace());
  }

  void read(const Json& value, std::string& out) {
    if (!value.is_string()) return wrong("a string", value);
    out = value.get_ref<const std::string&>();
  }

  void read(const Json& value, bool& out) {
    if (!value.is_boolean()) return wrong("true or false", value);
    out = value.get<bool>();
  }

  // A null stands for a number that was not finite.
  void read(const Json& value, double& out) {
    if (!value.is_number() && !value.is_null()) return wrong("a number", value);
    out = value.is_null() ? std::numeric_limits<double>::quiet_NaN() : value.get<double>();
  }

  template <std::integral Number>
  void read(const Json& value, Number& out) {
    const auto expected = fmt::format("a whole number from {} to {}", std::numeric_limits<Number>::min(),
                                      std::numeric_limits<Number>::max());
    if (value.is_number_unsigned() && std::in_range<Number>(value.get<std::uint64_t>())) {
      out = static_cast<Number>(value.get<std::uint64_t>());
    } else if (value.is_number_integer() && !value.is_number_unsigned() &&
               std::in_range<Number>(value.get<std::int64_t>())) {
      out = static_cast<Number>(value.get<std::int64_t>());
    } else {
      wrong(expected, value);
    }
  }

  void read(const Json& value, CountedBy& out) {
    if (value != "engine" && value != "reply") return wrong("\"engine\" or \"reply\"", value);
    out = value == "engine" ? CountedBy::kEngine : CountedBy::kReply;
  }

 private:
  void fail(const std::string& what) {
    if (error_.empty()) error_ = path_ + (path_.empty() ? "" : ": ") + what;
  }

  void wrong(std::string_view expected, const Json& value) {
    const std::string given = value.is_structured() ? fmt::format("an {}", value.type_name())
                                                    : value.dump(-1, ' ', true, Json::error_handler_t::replace);
    fail(fmt::format("must be {}, is {}", expected, printable(given, kMostQuotedCharacters)));
  }

  std::string path_;   // of the value being read
  std::string error_;  // empty: all is well so far
};

// `byte`: how many were read, the wrong one included.
std::string where_json_ends(std::string_view text, std::size_t byte) {
  if (text.find_first_not_of(" \t\r\n") == std::string_view::npos) return "the file is empty";
  if (byte > text.size()) return "not JSON: it ends too early";
  const std::string_view read = text.substr(0, byte == 0 ? 0 : byte - 1);
  return fmt::format("not JSON from line {} on", std::ranges::count(read, '\n') + 1);
}

// A report of this version at all?
std::string wrong_format(const Json& json) {
  if (!json.is_object()) return "a report is an object";
  Reader reader;
  std::string format;
  std::uint64_t version = 0;
  reader.member(json, "format", format);
  reader.member(json, "version", version);
  if (!reader.error().empty()) return reader.error();
  if (format != kReportFormat) return fmt::format("format: must be \"{}\"", kReportFormat);
  if (version != kReportVersion) {
    return fmt::format("version: this program reads version {}, the report is of version {}", kReportVersion, version);
  }
  return {};
}

}  // namespace

Result<Report> read_json(std::string_view text) {
  Json json;
  try {
    json = Json::parse(text);
  } catch (const Json::parse_error& error) {
    return invalid(where_json_ends(text, error.byte));
  } catch (const Json::out_of_range&) {
    return invalid("not JSON: a number in it is too large");
  }
  if (std::string wrong = wrong_format(json); !wrong.empty()) return invalid(std::move(wrong));
  Reader reader;
  Report report;
  reader.read(json, report);
  if (!reader.error().empty()) return invalid(reader.error());
  return report;
}

}  // namespace kvkeep::bench
