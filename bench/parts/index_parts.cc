#include <fmt/format.h>

#include "base/assert.h"
#include "bench/parts/parts.h"
#include "index/prefix_index.h"

namespace kvkeep::bench {
namespace {

constexpr std::size_t kSegments = 10'000;
constexpr std::size_t kPromptTokens = 100'000;

// Tokens of a conversation, whose first id is its own.
std::vector<TokenId> conversation(std::uint32_t number, std::size_t count) {
  std::vector<TokenId> tokens(count);
  std::uint64_t state = number + 1;
  for (TokenId& token : tokens) {
    state = state * 6364136223846793005ULL + 1442695040888963407ULL;
    token = static_cast<TokenId>(state >> 49);
  }
  tokens.front() = static_cast<TokenId>(1 << 20 | number);
  return tokens;
}

// `depth` segments of `size` tokens per conversation; returns the first conversation.
std::vector<TokenId> fill(index::PrefixIndex& index, std::size_t size, std::size_t depth) {
  std::vector<TokenId> first;
  for (std::uint32_t number = 0; number * depth < kSegments; ++number) {
    std::vector<TokenId> tokens = conversation(number, size * depth);
    index::Cursor at;
    for (std::size_t i = 0; i < depth; ++i) {
      at = {index.insert(at, TokenSpan(tokens).subspan(i * size, size), {}, {}), at.at + size};
    }
    if (number == 0) first = std::move(tokens);
  }
  return first;
}

PartFigures lookup_figures(std::size_t repetitions, os::Clock& clock) {
  constexpr std::size_t kSegmentTokens = 1'000;
  index::PrefixIndex index;
  const std::vector<TokenId> prompt = fill(index, kSegmentTokens, kPromptTokens / kSegmentTokens);
  std::vector<double> times;
  for (std::size_t i = 0; i < repetitions; ++i) {
    const std::int64_t begin_ns = clock.monotonic_ns();
    const std::vector<index::Step> path = index.match(prompt);
    times.push_back(os::elapsed_ms(begin_ns, clock.monotonic_ns()));
    KVKEEP_ASSERT(path.size() == kPromptTokens / kSegmentTokens, "the index finds what was put in");
  }
  return summarize("lookup of a 100k-token prompt among 10k segments", "ms", std::move(times),
                   Goal{Goal::Kind::kAtMost, 2});
}

PartFigures memory_figures(std::size_t segment_tokens) {
  constexpr std::size_t kDepth = 20;
  index::PrefixIndex index;
  (void)fill(index, segment_tokens, kDepth);
  const double bytes = static_cast<double>(index.memory().value()) / static_cast<double>(index.token_count());
  return summarize(fmt::format("index memory per token beyond its id, segments of {} tokens", segment_tokens), "bytes",
                   {bytes - sizeof(TokenId)}, Goal{Goal::Kind::kAtMost, 16});
}

}  // namespace

std::vector<PartFigures> measure_index(std::size_t repetitions, os::Clock& clock) {
  return {lookup_figures(repetitions, clock), memory_figures(16), memory_figures(512)};
}

}  // namespace kvkeep::bench
