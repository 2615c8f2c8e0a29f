#include "doctor_report.h"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <algorithm>
#include <ctime>
#include <nlohmann/json.hpp>

#include "server/trace/explanations.h"
#include "text/terminal.h"

namespace kvkeep::cli {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t kMostOffendersShown = 10;
constexpr std::size_t kMostRequestsShown = 200;
constexpr std::size_t kColumns = 100;

std::string paragraph(const std::string& text) { return text::wrapped(text::printable(text, 1'000), kColumns, 6); }

std::string date_text(std::int64_t wall_ns) {
  return fmt::format("{:%Y-%m-%d}", fmt::gmtime(static_cast<std::time_t>(wall_ns / 1'000'000'000)));
}

std::string request_text(std::size_t number, const bench::DiagnosedRequest& request) {
  std::string line = fmt::format("{:>4}  {}: {} of about {} tokens known", number, request.label,
                                 text::grouped(request.known), text::grouped(request.words));
  const explain::CacheBreak& found = request.found;
  if (found.kind != explain::BreakKind::kNone) {
    line += fmt::format("; {}", explain::to_string(found.kind));
    if (found.kind == explain::BreakKind::kVolatileText) line += fmt::format(" ({})", explain::to_string(found.what));
    line += fmt::format(" in {}", explain::place_name(found));
  }
  if (found.lost_tokens >= explain::kLeastLost) {
    line += fmt::format(", {} tokens again: here \"{}\", before \"{}\"", text::grouped(found.lost_tokens),
                        text::printable(request.here, 40), text::printable(request.there, 40));
  }
  return paragraph(line);
}

std::string offenders_text(const explain::Offenders& offenders) {
  std::string text;
  std::size_t shown = 0;
  for (const explain::Offender& offender : offenders.worst()) {
    if (++shown > kMostOffendersShown) break;
    std::string line = explain::offence_text(offender, offenders.requests_of(offender.client));
    if (offender.last_ns > 0) line += "; last seen " + date_text(offender.last_ns);
    text += paragraph(fmt::format("{}. {}", shown, line));
    if (const std::string_view advice = explain::offence_advice(offender); !advice.empty()) {
      text += "      " + text::wrapped(advice, kColumns - 6, 6);
    }
  }
  return shown > 0 ? text : paragraph(finding_line(judge_no_offender(!offenders.clients().empty())));
}

std::string_view severity_name(Severity severity) {
  switch (severity) {
    case Severity::kFine: return "ok";
    case Severity::kNote: return "note";
    case Severity::kProblem: return "wrong";
  }
  return "wrong";
}

Json findings_json(const std::vector<Finding>& findings) {
  Json list = Json::array();
  for (const Finding& finding : findings) {
    list.push_back({{"severity", severity_name(finding.severity)}, {"text", finding.text}});
  }
  return list;
}

Json request_json(const bench::DiagnosedRequest& request) {
  const explain::CacheBreak& found = request.found;
  Json json = {{"label", request.label}, {"tokens", request.words}, {"known_tokens", request.known}};
  if (found.kind == explain::BreakKind::kNone) return json;
  json["kind"] = explain::to_string(found.kind);
  if (found.kind == explain::BreakKind::kVolatileText) json["what"] = explain::to_string(found.what);
  json["place"] = explain::place_name(found);
  json["lost_tokens"] = found.lost_tokens;
  if (!found.differs) return json;
  json["text"] = {{"before", request.before}, {"here", request.here}, {"there", request.there}};
  return json;
}

Json misses_json(const explain::Misses& misses) {
  Json kinds = Json::array();
  for (const explain::Misses::Kind& kind : misses.by_kind()) {
    kinds.push_back({{"kind", kind.kind},
                     {"what", kind.what},
                     {"requests", kind.requests},
                     {"tokens", kind.tokens},
                     {"lost_tokens", kind.lost_tokens}});
  }
  return {{"beyond", explain::Misses::kBeyond},
          {"of_requests", misses.requests()},
          {"requests", misses.misses()},
          {"tokens", misses.tokens()},
          {"kinds", std::move(kinds)}};
}

Json section_json(const DoctorSection& section) {
  Json json = {{"title", section.title}, {"findings", findings_json(section.findings)}};
  if (!section.requests.empty()) {
    json["requests"] = Json::array();
    for (const bench::DiagnosedRequest& request : section.requests) json["requests"].push_back(request_json(request));
  }
  if (section.misses) json["misses"] = misses_json(*section.misses);
  if (section.offenders) json.update(server::offenders_json(*section.offenders, true));
  return json;
}

}  // namespace

bool is_wrong(const std::vector<DoctorSection>& sections) {
  return std::ranges::any_of(sections, [](const DoctorSection& section) {
    return std::ranges::count(section.findings, Severity::kProblem, &Finding::severity) > 0;
  });
}

std::string section_text(const DoctorSection& section) {
  std::string text = section.title + "\n";
  std::size_t number = 0;
  for (const bench::DiagnosedRequest& request : section.requests) {
    if (++number <= kMostRequestsShown) text += request_text(number, request);
  }
  if (number > kMostRequestsShown) text += fmt::format("      {} more requests\n", number - kMostRequestsShown);
  if (section.misses) text += explain::misses_text(*section.misses, kColumns);
  if (section.offenders) text += offenders_text(*section.offenders);
  for (const Finding& finding : section.findings) text += paragraph(finding_line(finding));
  return text;
}

std::string sections_json(const std::vector<DoctorSection>& sections) {
  Json json = {{"wrong", is_wrong(sections)}, {"sections", Json::array()}};
  for (const DoctorSection& section : sections) json["sections"].push_back(section_json(section));
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace kvkeep::cli
