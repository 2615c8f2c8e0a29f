#include "explain/offenders.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "text/terminal.h"

namespace kvkeep::explain {
namespace {

// Lines of one place that begin alike are one offender, whatever follows.
std::string cut(std::string_view text) {
  text = text.substr(0, Offenders::kMostTextBytes);
  while (!text.empty() && (text.back() == ' ' || text.back() == '\t')) text.remove_suffix(1);
  return std::string(text);
}

std::string time_text(double ms) {
  if (ms >= 120e3) return fmt::format("{:.1f} min", ms / 60e3);
  return ms >= 1e3 ? fmt::format("{:.1f} s", ms / 1e3) : fmt::format("{:.0f} ms", ms);
}

std::optional<BreakKind> kind_named(std::string_view name) {
  for (std::size_t i = 0; i < kBreakKinds; ++i) {
    if (const auto kind = static_cast<BreakKind>(i); to_string(kind) == name) return kind;
  }
  return std::nullopt;
}

// Numbers of messages grow with a conversation: only the first ones name a place of their own.
std::string place_of_offence(CacheBreak found) {
  constexpr std::uint32_t kEarly = 2;
  const bool is_message = found.place.role != PromptRole::kNone;
  if (!found.has_place || !is_message || found.place.index < kEarly) return place_name(found);
  switch (found.place.field) {
    case PromptField::kThinking: return "thinking of later messages";
    case PromptField::kCalls: return "calls of later messages";
    default: break;
  }
  switch (found.place.role) {
    case PromptRole::kAssistant: return "later messages of the assistant";
    case PromptRole::kTool: return "later tool results";
    case PromptRole::kSystem: return "later system messages";
    default: return "later messages of the user";
  }
}

// The place, by a name that place_of_offence() made, is an answer of a tool or of the model.
bool is_in_answer(std::string_view place) {
  return place.contains("tool result") || place.contains("assistant") || place.starts_with("calls of ") ||
         place.starts_with("thinking of ");
}

}  // namespace

void Offenders::count(const std::string& client, std::int64_t now_ns) { merge_client(client, {1, now_ns}); }

void Offenders::add(const std::string& client, const CacheBreak& found, const std::string& line, double lost_ms,
                    std::int64_t now_ns) {
  if (found.lost_tokens < kLeastLost) return;
  const bool is_volatile = found.kind == BreakKind::kVolatileText;
  merge({.client = client,
         .place = place_of_offence(found),
         .kind = std::string(to_string(found.kind)),
         .what = is_volatile ? std::string(to_string(found.what)) : std::string(),
         .line = is_volatile ? line : std::string(),
         .times = 1,
         .lost_tokens = found.lost_tokens,
         .lost_ms = lost_ms,
         .last_ns = now_ns});
}

void Offenders::merge(const Offender& offender) {
  const Key key{cut(offender.client), offender.place, offender.kind, offender.what, cut(offender.line)};
  const auto [entry, is_new] = offenders_.try_emplace(key);
  Offender& sum = entry->second;
  if (is_new) sum = {std::get<0>(key), std::get<1>(key), std::get<2>(key), std::get<3>(key), std::get<4>(key)};
  sum.times += offender.times;
  sum.lost_tokens += offender.lost_tokens;
  sum.lost_ms += offender.lost_ms;
  sum.last_ns = std::max(sum.last_ns, offender.last_ns);
  if (offenders_.size() > kMostOffenders) drop_one();
}

void Offenders::drop_one() {
  constexpr std::int64_t kHalvedEachNs = 30LL * 86'400 * 1'000'000'000;
  std::int64_t newest_ns = 0;
  for (const auto& [key, offender] : offenders_) newest_ns = std::max(newest_ns, offender.last_ns);
  const auto weight = [newest_ns](const Offender& offender) {
    return offender.lost_tokens >> std::min<std::int64_t>((newest_ns - offender.last_ns) / kHalvedEachNs, 63);
  };
  std::vector<decltype(offenders_)::iterator> all;
  for (auto each = offenders_.begin(); each != offenders_.end(); ++each) all.push_back(each);
  const auto half = all.begin() + static_cast<std::ptrdiff_t>(all.size() / 2);
  std::ranges::nth_element(all, half, {}, [&](auto each) { return weight(each->second); });
  const auto oldest = std::min_element(all.begin(), half, [&](auto a, auto b) {
    return std::pair(a->second.last_ns, weight(a->second)) < std::pair(b->second.last_ns, weight(b->second));
  });
  offenders_.erase(*oldest);
}

void Offenders::merge_client(const std::string& client, const Client& counted) {
  const std::string name = cut(client);
  Client& sum = clients_[name];
  sum.requests += counted.requests;
  sum.last_ns = std::max(sum.last_ns, counted.last_ns);
  if (clients_.size() <= kMostClients) return;
  const auto oldest = std::ranges::min_element(clients_, [&](const auto& a, const auto& b) {
    return std::tuple(a.first == name, a.second.last_ns, a.second.requests) <
           std::tuple(b.first == name, b.second.last_ns, b.second.requests);
  });
  clients_.erase(oldest);
}

void Offenders::merge(const Offenders& other) {
  for (const Offender& offender : other.worst()) merge(offender);
  for (const auto& [client, counted] : other.clients()) merge_client(client, counted);
}

std::vector<Offender> Offenders::worst() const {
  std::vector<Offender> all;
  for (const auto& [key, offender] : offenders_) all.push_back(offender);
  std::ranges::sort(all, [](const Offender& a, const Offender& b) {
    if (a.lost_tokens != b.lost_tokens) return a.lost_tokens > b.lost_tokens;
    return std::tie(a.client, a.place, a.kind, a.what, a.line) < std::tie(b.client, b.place, b.kind, b.what, b.line);
  });
  return all;
}

std::uint64_t Offenders::requests_of(const std::string& client) const {
  const auto found = clients_.find(cut(client));
  return found == clients_.end() ? 0 : found->second.requests;
}

std::string offence_text(const Offender& offender, std::uint64_t requests) {
  std::string line = offender.client.empty() ? "clients without a name: " : fmt::format("{}: ", offender.client);
  const std::string of_all = requests >= offender.times ? fmt::format(" of {}", requests) : "";
  line += fmt::format("{}{} request{}: ", offender.times, of_all, of_all.empty() && offender.times == 1 ? "" : "s");
  line +=
      fmt::format("{}{} in {}", offender.kind, offender.what.empty() ? "" : " (" + offender.what + ")", offender.place);
  if (!offender.line.empty()) line += fmt::format(", after \"{}\"", offender.line);
  const auto kind = kind_named(offender.kind);
  const std::string time = offender.lost_ms > 0 ? fmt::format(" ({})", time_text(offender.lost_ms)) : "";
  return line + fmt::format(": {} tokens{} prefilled {}", text::grouped(offender.lost_tokens), time,
                            kind && bypasses_cache(*kind) ? "without the cache" : "again");
}

std::string_view offence_advice(const Offender& offender) {
  const auto kind = kind_named(offender.kind);
  if (!kind) return "";
  CacheBreak found{.kind = *kind, .has_place = offender.place != "the prompt", .lost_tokens = offender.lost_tokens};
  if (is_in_answer(offender.place)) found.place.role = PromptRole::kAssistant;
  if (offender.place == "system") found.place.role = PromptRole::kSystem;
  for (auto text = VolatileText::kNone; text <= VolatileText::kNumber;
       text = static_cast<VolatileText>(static_cast<int>(text) + 1)) {
    if (offender.what == to_string(text)) found.what = text;
  }
  return advice(found);
}

}  // namespace kvkeep::explain
