#include "server/run/partings.h"

#include <algorithm>

namespace kvkeep::server {

namespace {

// Lines longer than this are cut at: what they begin with is not looked for.
constexpr std::size_t kLookBackTokens = 256;

}  // namespace

std::vector<policy::TextLine> Partings::lines(TokenSpan prompt, TokenRange range) const {
  return policy::lines_of(prompt, range, [this](TokenId id) { return texts_->text(id); });
}

void Partings::learn(std::uint64_t client, TokenSpan prompt, Position at) {
  if (texts_ == nullptr) return;
  const Position from{at.value() - std::min<std::uint32_t>(at.value(), kLookBackTokens)};
  std::vector<policy::TextLine> before = lines(prompt, {from, at});
  if (before.empty()) return;
  // Whether the last line goes on, or ended and the next one parts at its first token.
  const std::string_view last = texts_->text(prompt[at.value() - 1]);
  const bool begins = last.empty() || last.ends_with('\n');
  std::string_view whole;  // of no temporary: a conditional expression would make one
  if (begins) {
    whole = before.back().text;
  } else if (before.size() > 1) {
    whole = before[before.size() - 2].text;
  }
  memory_.learn(client, begins ? std::string_view() : before.back().text, whole);
}

policy::LikelyPartings Partings::find(std::uint64_t client, TokenSpan prompt, TokenRange range, Position first_answer) {
  if (texts_ == nullptr) return {};
  const auto parted = [&](std::string_view line, std::string_view before) {
    return memory_.parted(client, line, before);
  };
  return policy::likely_partings(lines(prompt, range), first_answer, parted);
}

}  // namespace kvkeep::server
