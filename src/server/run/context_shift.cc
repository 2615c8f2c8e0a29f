#include "server/run/context_shift.h"

#include <spdlog/spdlog.h>

#include <algorithm>

#include "server/run/request.h"

namespace kvkeep::server {
namespace {

void drop_tokens(Request& request, TokenRange dropped) {
  request.reply_before = reply_of(request);
  std::vector<TokenId>& tokens = request.effective.tokens.own();
  tokens.erase(tokens.begin() + dropped.begin.value(), tokens.begin() + dropped.end.value());
  request.effective.sampled = ranges_without(request.effective.sampled, dropped);
  request.effective.markers = {};  // of the prompt as it was
  request.stats.truncated = true;
}

}  // namespace

TokenRange dropped_tokens(const ShiftTerms& terms) {
  const std::size_t most_kept = terms.context - std::min(terms.context, ShiftTerms::kNeverKept);
  const std::size_t kept = std::min({terms.keep, most_kept, terms.held - 2});
  const std::size_t left = terms.held - kept;
  const std::size_t wanted = terms.discard > 0 ? terms.discard : left / 2;
  return {Position{} + kept, Position{} + (kept + std::clamp<std::size_t>(wanted, 1, left - 1))};
}

std::vector<TokenRange> ranges_without(const std::vector<TokenRange>& ranges, TokenRange dropped) {
  constexpr Position kToCome{UINT32_MAX};
  const auto moved = [&](Position at) {
    if (at < dropped.begin || at == kToCome) return at;
    return dropped.begin + (std::max(at, dropped.end) - dropped.end);
  };
  std::vector<TokenRange> left;
  for (const TokenRange& range : ranges) {
    const TokenRange now{moved(range.begin), moved(range.end)};
    if (!now.empty()) left.push_back(now);
  }
  return left;
}

std::vector<TokenId> reply_of(const Request& request) {
  std::vector<TokenId> reply = request.reply_before;
  const TokenSpan later = TokenSpan(request.effective.tokens).last(request.stats.predicted_tokens - reply.size());
  reply.insert(reply.end(), later.begin(), later.end());
  return reply;
}

bool shift_context(Request& request, std::size_t context_tokens, Sequences& sequences) {
  const TokenRange dropped = dropped_tokens({.context = context_tokens,
                                             .held = request.effective.tokens.size() - 1,
                                             .keep = request.job.kept_tokens,
                                             .discard = request.job.discarded_tokens});
  const Status shifted = request.seq ? sequences.shift(*request.seq, dropped) : Status{};
  drop_tokens(request, dropped);
  spdlog::debug("{} shifts its context: {} tokens after the first {} leave id={}", request.job.kind, dropped.size(),
                dropped.begin.value(), request.job.id);
  if (shifted) return true;
  spdlog::debug("{} computes its context anew: {} id={}", request.job.kind, shifted.error().message, request.job.id);
  return false;
}

}  // namespace kvkeep::server
