#include "explain/misses.h"

#include <fmt/format.h>

#include <algorithm>
#include <tuple>

#include "text/terminal.h"

namespace kvkeep::explain {

void Misses::count(const CacheBreak& found, std::size_t tokens) {
  const bool is_volatile = found.kind == BreakKind::kVolatileText;
  count(to_string(found.kind), is_volatile ? to_string(found.what) : "", tokens, found.lost_tokens);
}

void Misses::count(std::string_view kind, std::string_view what, std::uint64_t tokens, std::uint64_t lost_tokens) {
  ++requests_;
  if (tokens <= kBeyond) return;
  Kind& sum = kinds_[{std::string(kind), std::string(what)}];
  sum.kind = kind;
  sum.what = what;
  ++sum.requests;
  sum.tokens += tokens;
  sum.lost_tokens += std::min(tokens, lost_tokens);
}

void Misses::merge(const Misses& other) {
  requests_ += other.requests_;
  for (const auto& [names, kind] : other.kinds_) {
    Kind& sum = kinds_[names];
    sum.kind = kind.kind;
    sum.what = kind.what;
    sum.requests += kind.requests;
    sum.tokens += kind.tokens;
    sum.lost_tokens += kind.lost_tokens;
  }
}

std::uint64_t Misses::misses() const {
  std::uint64_t sum = 0;
  for (const auto& [names, kind] : kinds_) sum += kind.requests;
  return sum;
}

std::uint64_t Misses::tokens() const {
  std::uint64_t sum = 0;
  for (const auto& [names, kind] : kinds_) sum += kind.tokens;
  return sum;
}

std::vector<Misses::Kind> Misses::by_kind() const {
  std::vector<Kind> all;
  for (const auto& [names, kind] : kinds_) all.push_back(kind);
  std::ranges::sort(all, [](const Kind& a, const Kind& b) {
    return std::tie(b.tokens, a.kind, a.what) < std::tie(a.tokens, b.kind, b.what);
  });
  return all;
}

std::string misses_text(const Misses& misses, std::size_t most_columns) {
  using enum text::TextTable::Align;
  const std::uint64_t requests = misses.requests();
  const std::string title = fmt::format("Misses beyond {} tokens: {} of {} request{}", Misses::kBeyond, misses.misses(),
                                        requests, requests == 1 ? "" : "s");
  if (misses.misses() == 0) return title + "\n";
  text::TextTable table({{"requests"}, {"tokens"}, {"computed before"}, {"kind", kLeft}});
  for (const Misses::Kind& kind : misses.by_kind()) {
    table.add_row({text::grouped(kind.requests), text::grouped(kind.tokens), text::grouped(kind.lost_tokens),
                   text::printable(kind.what.empty() ? kind.kind : fmt::format("{} ({})", kind.kind, kind.what), 60)});
  }
  return fmt::format("{}, {} tokens\n{}", title, text::grouped(misses.tokens()), table.text(most_columns));
}

}  // namespace kvkeep::explain
