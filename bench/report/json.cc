// A report as JSON, JSON as a report, and the page around the JSON.

#include <fmt/format.h>

#include <algorithm>
#include <concepts>
#include <limits>
#include <nlohmann/json.hpp>
#include <string_view>
#include <type_traits>

#include "bench/report/report.h"
#include "bench/report/summary.h"
#include "text/terminal.h"

namespace kvkeep::bench {
namespace {

using Json = nlohmann::ordered_json;

// The keys and the fields that they stand for: one list for writing and reading, so that both always agree. A key never
// changes its meaning; a change that old readers would misread needs a new kReportVersion.

constexpr const char* kReportFormat = "kvkeep-bench-report";
constexpr std::uint64_t kReportVersion = 1;

// Figures to read from, or to fill.
template <typename Value, typename Figures>
concept PerhapsConst = std::same_as<std::remove_const_t<Value>, Figures>;

// Keys that later programs added to version 1: a report without them is complete.
constexpr bool may_be_missing(std::string_view key) {
  return key == "sum_was_counted" || key == "server_cpu_seconds" || key == "unmeasurable" || key == "other_work" ||
         key == "known_before" || key == "is_count" || key == "refused";
}

void each_field(PerhapsConst<RequestFigures> auto& request, auto&& field) {
  field("label", request.label);
  field("status", request.status);
  field("error", request.error);
  field("prompt_tokens", request.prompt_tokens);
  field("cached_tokens", request.cached_tokens);
  field("prefilled_tokens", request.prefilled_tokens);
  field("ideal_tokens", request.ideal_tokens);
  field("reply_tokens", request.reply_tokens);
  field("claimed_prefill", request.claimed_prefill);
  field("cache_source", request.cache_source);
  field("ttft_ms", request.ttft_ms);
  field("total_ms", request.total_ms);
  field("decode_tokens_per_second", request.decode_tokens_per_second);
}

void each_field(PerhapsConst<RunFigures> auto& run, auto&& field) {
  field("workload", run.workload);
  field("title", run.title);
  field("server", run.server);
  field("variant", run.variant);
  field("counted_by", run.counted_by);
  field("bound", run.bound);
  field("kills", run.kills);
  field("sum_was_counted", run.sum_was_counted);
  field("server_cpu_seconds", run.server_cpu_s);
  field("known_before", run.known_before);
  field("refused", run.refused);
  field("problems", run.problems);
  field("requests", run.requests);
}

void each_field(PerhapsConst<PartFigures> auto& part, auto&& field) {
  field("name", part.name);
  field("unit", part.unit);
  field("median", part.median);
  field("low_quartile", part.low_quartile);
  field("high_quartile", part.high_quartile);
  field("samples", part.samples);
  field("goal", part.goal);
  field("holds", part.holds);
  field("unmeasurable", part.unmeasurable);
  field("is_count", part.is_count);
}

void each_field(PerhapsConst<ServerInfo> auto& server, auto&& field) {
  field("name", server.name);
  field("version", server.version);
  field("flags", server.flags);
}

void each_field(PerhapsConst<Machine> auto& machine, auto&& field) {
  field("processor", machine.processor);
  field("logical_cpus", machine.logical_cpus);
  field("memory_bytes", machine.memory_bytes);
  field("system", machine.system);
}

void each_field(PerhapsConst<Report> auto& report, auto&& field) {
  field("title", report.title);
  field("started", report.started);
  field("kvkeep_version", report.kvkeep_version);
  field("libllama_version", report.libllama_version);
  field("model", report.model);
  field("machine", report.machine);
  field("servers", report.servers);
  field("runs", report.runs);
  field("parts", report.parts);
  field("problems", report.problems);
  field("other_work", report.other_work);
}

struct Writer {
  static Json of(const std::string& text) { return text; }
  static Json of(double value) { return value; }  // written as null if it is not finite
  static Json of(std::integral auto value) { return value; }
  static Json of(CountedBy counted_by) { return counted_by == CountedBy::kEngine ? "engine" : "reply"; }

  template <typename Value>
  static Json of(const std::optional<Value>& value) {
    return value ? of(*value) : Json(nullptr);
  }

  template <typename Value>
  static Json of(const std::vector<Value>& values) {
    Json array = Json::array();
    for (const Value& value : values) array.push_back(of(value));
    return array;
  }

  template <typename Figures>
    requires std::is_class_v<Figures>
  static Json of(const Figures& figures) {
    Json object = Json::object();
    each_field(figures, [&](const char* key, const auto& value) { object[key] = of(value); });
    if constexpr (std::same_as<Figures, RunFigures>) object["totals"] = totals(figures);
    return object;
  }

  // For programs that do not compute sums themselves; the reader computes them again.
  static Json totals(const RunFigures& run) {
    const std::optional<Quartiles> ttft_ms = summary_of(run).ttft_ms;
    return {
        {"requests", run.requests.size()},
        {"prompt_tokens", run.prompt_tokens()},
        {"prefilled_tokens", run.prefilled_tokens()},
        {"ideal_tokens", run.ideal_tokens()},
        {"ratio", of(run.ratio())},
        {"ttft_ms",
         ttft_ms ? Json{{"low_quartile", ttft_ms->low}, {"median", ttft_ms->median}, {"high_quartile", ttft_ms->high}}
                 : Json(nullptr)}};
  }
};

constexpr std::size_t kMostQuotedCharacters = 60;

// Fills figures from JSON, up to the first error; the rest is not read.
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

  // A null stands for a number that is not finite.
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
    fail(fmt::format("must be {}, is {}", expected, text::printable(given, kMostQuotedCharacters)));
  }

  std::string path_;   // the path of the value being read
  std::string error_;  // empty: no error so far
};

// `byte`: the number of bytes read, including the wrong one.
std::string where_json_ends(std::string_view text, std::size_t byte) {
  if (text.find_first_not_of(" \t\r\n") == std::string_view::npos) return "the file is empty";
  if (byte > text.size()) return "not JSON: it ends too early";
  const std::string_view read = text.substr(0, byte == 0 ? 0 : byte - 1);
  return fmt::format("not JSON from line {} on", std::ranges::count(read, '\n') + 1);
}

// Returns "" if this is a report of this version.
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

std::string to_json(const Report& report) {
  Json json = {{"format", kReportFormat}, {"version", kReportVersion}, {"finding", finding_of(report)}};
  json.update(Writer::of(report));
  return json.dump(1, ' ', false, Json::error_handler_t::replace) + "\n";
}

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

// The page: a fixed text (page.html, which cmake/BuiltinTexts.cmake puts into the program) that draws the report from
// the JSON inside it.
std::string_view page_text();

std::string to_html(const Report& report) {
  constexpr std::string_view kPlace = "@report@";
  const std::string_view page = page_text();
  const std::size_t place = page.find(kPlace);
  std::string out(page.substr(0, place));
  for (const char byte : to_json(report)) {
    // "</script>" in a name would end the element with the JSON; only its strings contain this byte.
    if (byte == '<')
      out += "\\u003c";
    else
      out += byte;
  }
  return out.append(page.substr(place + kPlace.size()));
}

}  // namespace kvkeep::bench
