#include "policy/share.h"

#include <algorithm>
#include <bit>

namespace kvkeep::policy {

namespace {

// Servers end the slices of a prefill on multiples of their batch, which is seldom smaller.
constexpr std::size_t kLeastGridStep = 128;
// A reply's state ends this many tokens before its message at most: its last token is not evaluated, and the template
// closes the message.
constexpr std::uint32_t kMostClosingTokens = 3;

constexpr double kRoundTripsOfSearch = 3;
constexpr double kLeastSearchMs = 5;
constexpr double kSearchShare = 0.05;
constexpr double kLeastReadMs = 50;
constexpr double kReadMsWithoutRate = 2'000;
constexpr double kReadShare = 0.5;

class Ends {
 public:
  Ends(std::size_t prompt_tokens, Position known) : end_(Position{} + prompt_tokens), known_(known) {}

  void add(Position at) {
    if (at > known_ && at <= end_) ends_.push_back(at);
  }
  void add_before(Position at, std::uint32_t most) {
    for (std::uint32_t less = 0; less <= most && less < at.value(); ++less) add(Position{at.value() - less});
  }
  void add_grid() {
    std::size_t step = kLeastGridStep;
    while ((end_ - known_) / step >= kMostGridEnds) step *= 2;
    for (Position at = next_on_grid(known_, step); at <= end_; at = at + step) add(at);
  }
  // The deepest of them.
  void keep(std::size_t most) {
    std::ranges::sort(ends_);
    const auto twice = std::ranges::unique(ends_);
    ends_.erase(twice.begin(), twice.end());
    if (ends_.size() > most) ends_.erase(ends_.begin(), ends_.end() - static_cast<std::ptrdiff_t>(most));
  }
  std::vector<Position>& all() { return ends_; }

 private:
  const Position end_;
  const Position known_;
  std::vector<Position> ends_;
};

// All positions that the prompt's turns give, in any order.
void add_turns(Ends& ends, Position end, const PromptMarkers& markers) {
  ends.add_before(end, 1);
  for (const Position turn : markers.user_turns) ends.add(turn);
  for (const Position closed : markers.message_ends) ends.add_before(closed, kMostClosingTokens);
  // The opening of a reply is as long now as it was in earlier turns.
  const Position reply = markers.generation_prompt.value_or(end);
  ends.add(reply);
  for (const Position turn : markers.assistant_turns) {
    ends.add(turn);
    ends.add(turn + (end - reply));
  }
}

}  // namespace

std::size_t share_grid(std::size_t most_tokens) { return std::bit_floor(most_tokens); }

Position next_on_grid(Position at, std::size_t grid) { return Position{} + (at.value() / grid + 1) * grid; }

std::vector<Position> probable_ends(std::size_t prompt_tokens, Position known, const PromptMarkers& markers) {
  const Position end = Position{} + prompt_tokens;
  if (known >= end) return {};
  Ends fixed(prompt_tokens, known);
  fixed.add_grid();
  for (const std::uint32_t head : kHeadEnds) fixed.add(Position{head});
  Ends ends(prompt_tokens, known);
  add_turns(ends, end, markers);
  ends.keep(kMostProbableEnds - fixed.all().size());
  for (const Position at : fixed.all()) ends.add(at);
  ends.keep(kMostProbableEnds);
  return std::move(ends.all());
}

bool worth_searching(std::size_t prompt_tokens, Position known) {
  return prompt_tokens >= kLeastSharedTokens && prompt_tokens >= known.value() + kLeastSoughtTokens;
}

double search_ms(double latency_ms) { return kRoundTripsOfSearch * latency_ms; }

double search_patience_ms(std::size_t tokens, const Rates& rates) {
  if (rates.prefill_tokens_per_s <= 0) return kLongestSearchMs;
  const double prefill_ms = 1e3 * static_cast<double>(tokens) / rates.prefill_tokens_per_s;
  return std::clamp(kSearchShare * prefill_ms, kLeastSearchMs, kLongestSearchMs);
}

double read_patience_ms(std::size_t tokens, const Rates& rates) {
  if (rates.prefill_tokens_per_s <= 0) return kReadMsWithoutRate;
  return std::max(kLeastReadMs, kReadShare * 1e3 * static_cast<double>(tokens) / rates.prefill_tokens_per_s);
}

bool worth_publishing(const ShareOffer& offer, double prefill_tokens_per_s, double bytes_per_s) {
  if (offer.end.value() < kLeastSharedTokens && !offer.wanted_again) return false;
  if (prefill_tokens_per_s <= 0 || bytes_per_s <= 0) return true;
  return static_cast<double>(offer.bytes.value()) / bytes_per_s <=
         static_cast<double>(offer.tokens) / prefill_tokens_per_s;
}

}  // namespace kvkeep::policy
