#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <string_view>

#include "text/terminal.h"
#include "top/frame.h"
#include "top/pen.h"

namespace kvkeep::top {
namespace {

constexpr std::size_t kAgo = 6;
constexpr std::size_t kMostClient = 14;
constexpr std::size_t kCount = 7;
constexpr std::size_t kBytes = 9;
constexpr std::size_t kTimes = 11;

// ---- requests that ended ----

// The column has no room for two units: "58 min", not "58 min 20 s".
std::string short_duration(double seconds) {
  const std::string whole = duration(seconds);
  const std::size_t unit = whole.find(' ');
  return whole.substr(0, unit == std::string::npos ? unit : whole.find(' ', unit + 1));
}

std::string figures_of(const RequestView& request) {
  std::string text = fmt::format("{:>6} {:>6}", compact(request.tokens.cached()), compact(request.tokens.prefilled));
  if (request.ttft_ms) text += fmt::format(" {:>7}", short_duration(*request.ttft_ms / 1e3));
  return text;
}

std::string reason_of(const Cause& cause) { return cause.kind == "none" ? "all known" : spoken(cause.kind); }

Line request_line(const RequestView& request, std::uint64_t longest, double now_s, std::size_t columns) {
  constexpr std::size_t kKind = 16;
  const bool has_kind = columns >= 72;
  Pen pen(columns);
  pen.right(ago(now_s - request.ended_s), kAgo, Style::kSoft);
  if (columns >= kWideColumns) {
    const std::size_t others = kAgo + kMostClient + 3 + kFigureColumns + (has_kind ? kKind + 1 : 0);
    pen.cell(request.client, kMostClient).add(bar(request.tokens, longest, bar_columns(columns, others))).put(" ");
  } else if (columns > kAgo + kFigureColumns + 4) {
    pen.cell(request.client, std::min(kMostClient, columns - kAgo - kFigureColumns - 2));
  }
  pen.cell(figures_of(request), kFigureColumns - 1);
  const bool failed = request.end == "error";
  if (has_kind)
    pen.put(failed ? "failed" : request.cause ? reason_of(*request.cause) : "", failed ? Style::kFault : Style::kSoft);
  return pen.take();
}

std::vector<Line> about_request(const RequestView& request, std::size_t columns) {
  const bool was_known = request.cause && request.cause->kind == "none";
  std::vector<Line> lines;
  add_wrapped(lines, was_known ? request.id + " reused all that it could" : "Why " + request.id + " did not reuse more",
              Style::kStrong, columns);
  if (!request.cause) {
    add_wrapped(lines, "The server keeps no explanation of this request.", Style::kSoft, columns);
    return lines;
  }
  const Cause& cause = *request.cause;
  std::string text = was_known ? "Its whole prompt was known; only the end was computed." : spoken(cause.kind);
  if (!cause.place.empty()) text += fmt::format(", in {}", cause.place);
  if (cause.at_token) text += fmt::format(", from token {} on", text::grouped(*cause.at_token));
  add_wrapped(lines, text, Style::kPlain, columns);
  if (cause.lost_tokens > 0) {
    add_wrapped(lines,
                fmt::format("It cost {} tokens{}.", text::grouped(cause.lost_tokens),
                            cause.lost_s > 0 ? ", " + duration(cause.lost_s) : ""),
                Style::kPlain, columns);
  }
  add_wrapped(lines, cause.advice, Style::kStrong, columns);
  return lines;
}

// ---- causes that keep prompts from being reused ----

std::string title_of(const Offender& one) {
  std::string text = spoken(one.kind);
  if (!one.what.empty()) text += ": " + spoken(one.what);
  if (!one.place.empty()) text += ", in " + one.place;
  return text;
}

// Of requests that went past the cache nobody knows what was computed before.
std::string_view how_prefilled(const Offender& one) {
  const bool past_the_cache = one.kind == "cache-off" || one.kind == "prompt-scored" || one.kind == "not-cacheable";
  return past_the_cache ? "prefilled without the cache" : "prefilled again";
}

std::string client_of(const Offender& one) { return one.client.empty() ? "clients without a name" : one.client; }

std::string times_of(const Offender& one) {
  return fmt::format("{} of {}", compact(one.times), compact(std::max(one.times, one.requests)));
}

Line cause_line(const Offender& one, std::size_t columns) {
  Pen pen(columns);
  pen.right(compact(one.lost_tokens), kCount, Style::kStrong);
  if (columns < kWideColumns) return pen.right(times_of(one), kTimes, Style::kSoft).put(title_of(one)).take();
  pen.right(duration(one.lost_s), 12);
  return pen.right(times_of(one), 14, Style::kSoft).cell(one.client, kMostClient).put(title_of(one)).take();
}

std::vector<Line> about_cause(const Offender& one, double now_s, std::size_t columns) {
  std::vector<Line> lines = {
      title(fmt::format("Why prompts of {} are {}", client_of(one), how_prefilled(one)), columns)};
  add_wrapped(lines,
              fmt::format("{}: {} tokens were {} in {} requests; last seen: {}.", title_of(one),
                          text::grouped(one.lost_tokens), how_prefilled(one), times_of(one), ago(now_s - one.last_s)),
              Style::kPlain, columns);
  if (!one.line.empty()) add_wrapped(lines, "The line begins: " + one.line, Style::kSoft, columns);
  add_wrapped(lines, one.advice, Style::kStrong, columns);
  return lines;
}

// ---- prefixes ----

Line prefix_line(const Prefix& one, double now_s, std::size_t columns) {
  Pen pen(columns);
  const bool is_wide = columns >= kWideColumns;
  pen.right(compact(one.tokens), kCount, Style::kStrong).right(compact(one.uses), is_wide ? kCount : kCount - 1);
  if (is_wide) {
    pen.right(bytes(one.ram_bytes), kBytes, Style::kRam).right(bytes(one.disk_bytes), kBytes, Style::kDisk);
  }
  return pen.right(ago(now_s - one.last_use_s), kAgo + 2, Style::kSoft)
      .cell(one.id, 16)
      .put(one.pinned ? "pinned" : "", Style::kSoft)
      .take();
}

std::vector<Line> about_prefix(const Prefix& one, std::size_t columns) {
  std::vector<Line> lines = {title("Prefix " + one.id, columns)};
  add_wrapped(
      lines,
      fmt::format("It has {} tokens and was used {} times since the server's start{}.", text::grouped(one.tokens),
                  text::grouped(one.uses), one.pinned ? "; a pin keeps it from eviction" : ""),
      Style::kPlain, columns);
  // A line for each command, so that it can be copied.
  add_wrapped(lines, "kvkeep cache show " + one.id + " tells what lies on disk.", Style::kSoft, columns);
  add_wrapped(lines,
              one.pinned ? "kvkeep cache unpin " + one.id + " lets it leave."
                         : "kvkeep cache pin " + one.id + " keeps it from eviction.",
              Style::kSoft, columns);
  return lines;
}

// ---- tenants ----

std::string marks_of(const TenantView& one) {
  std::string marks = one.own ? "you" : "";
  if (!one.salted) marks += marks.empty() ? "no salt" : ", no salt";
  return marks;
}

Line tenant_line(const TenantView& one, double now_s, std::size_t columns) {
  Pen pen(columns);
  pen.right(fmt::format("{}", one.number), 6, Style::kStrong).right(compact(one.requests), kCount + 1);
  pen.right(percent(one.cached_tokens, one.prompt_tokens), kCount).right(compact(one.prefilled_tokens), kCount + 2);
  if (columns >= kWideColumns) {
    pen.right(bytes(one.ram_bytes), kBytes, Style::kRam).right(bytes(one.disk_bytes), kBytes, Style::kDisk);
  }
  return pen.right(ago(now_s - one.last_s), kAgo, Style::kSoft).put(marks_of(one), Style::kSoft).take();
}

std::vector<Line> about_tenant(const TenantView& one, std::size_t columns) {
  std::vector<Line> lines = {title(fmt::format("Tenant {}", one.number), columns)};
  add_wrapped(
      lines,
      fmt::format(
          "{} requests had {} tokens of prompts, of which {} were prefilled. {}", text::grouped(one.requests),
          text::grouped(one.prompt_tokens), text::grouped(one.prefilled_tokens),
          one.salted ? "Its requests have a salt, and share no state with others." : "Its requests have no salt."),
      Style::kPlain, columns);
  return lines;
}

}  // namespace

std::string_view name_of(List list) {
  switch (list) {
    case List::kRequests: return "requests";
    case List::kCauses: return "causes";
    case List::kPrefixes: return "prefixes";
    case List::kTenants: return "tenants";
  }
  return "requests";
}

std::size_t entries_of(const View& view, List list) {
  switch (list) {
    case List::kRequests: return view.past.size();
    case List::kCauses: return view.offenders.size();
    case List::kPrefixes: return view.hottest.size();
    case List::kTenants: return view.tenants.size();
  }
  return 0;
}

std::string entry_name(const View& view, List list, std::size_t at) {
  switch (list) {
    case List::kRequests: break;
    case List::kCauses:
      return view.offenders[at].client + '\n' + title_of(view.offenders[at]) + view.offenders[at].line;
    case List::kPrefixes: return view.hottest[at].id;
    case List::kTenants: return fmt::to_string(view.tenants[at].number);
  }
  return view.past[at].id;
}

std::string heading_of(const View& view, List list, std::size_t columns) {
  const bool is_empty = entries_of(view, list) == 0;
  const bool is_wide = columns >= kWideColumns;
  switch (list) {
    case List::kRequests: break;
    case List::kCauses:
      if (is_empty) return "No known text was prefilled again";
      if (!is_wide) return fmt::format("{:>7} {:>11} {}", "Tokens", "in requests", "prefilled again for");
      return fmt::format("{:>7} {:>12} {:>14} {:<14} {}", "Tokens", "prefilled", "in requests", "of client",
                         "because of");
    case List::kPrefixes: {
      if (is_empty) return "No stored prefix was used yet";
      const std::string sizes = is_wide ? fmt::format("{:>9} {:>9} ", "RAM", "disk") : "";
      return fmt::format("{:>7} {:>{}} {}{:>8} {}", "Tokens", "uses", is_wide ? 7 : 6, sizes, "last use", "prefix");
    }
    case List::kTenants: {
      if (is_empty) return "No request has ended yet";
      const std::string sizes = is_wide ? fmt::format("{:>9} {:>9} ", "RAM", "disk") : "";
      return fmt::format("{:>6} {:>8} {:>7} {:>9} {}{:>6}", "Tenant", "requests", "reused", "prefilled", sizes, "last");
    }
  }
  return is_wide ? "Last requests: tokens cached and prefilled, time to the first token"
                 : "Last: cached, prefilled, first token";
}

Line entry_line(const View& view, const Look& look, std::size_t at, std::size_t columns) {
  switch (look.list) {
    case List::kRequests: break;
    case List::kCauses: return cause_line(view.offenders[at], columns);
    case List::kPrefixes: return prefix_line(view.hottest[at], look.now_s, columns);
    case List::kTenants: return tenant_line(view.tenants[at], look.now_s, columns);
  }
  std::uint64_t longest = 1;
  for (const RequestView& request : view.past) longest = std::max(longest, request.tokens.sum());
  return request_line(view.past[at], longest, look.now_s, columns);
}

std::vector<Line> details(const View& view, const Look& look, std::size_t columns) {
  switch (look.list) {
    case List::kRequests: break;
    case List::kCauses: return about_cause(view.offenders[look.chosen], look.now_s, columns);
    case List::kPrefixes: return about_prefix(view.hottest[look.chosen], columns);
    case List::kTenants: return about_tenant(view.tenants[look.chosen], columns);
  }
  return about_request(view.past[look.chosen], columns);
}

}  // namespace kvkeep::top
