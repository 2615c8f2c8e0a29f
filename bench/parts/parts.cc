#include "bench/parts/parts.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "base/assert.h"
#include "bench/parts/meters.h"
#include "engine/llama/llama_engine.h"
#include "index/prefix_index.h"

namespace kvkeep::bench {
namespace {

using engine::llama::LlamaEngine;

constexpr std::array<std::size_t, 4> kSegmentTokens = {64, 256, 512, 2048};
// A share of the rate of the bare call.
constexpr Goal kRestoreGoal{Goal::Kind::kAtLeast, 0.7};

// Rows of all tokens, divided into segments.
struct Segments {
  std::size_t tokens_each = 0;
  std::vector<std::vector<std::byte>> bytes;
  std::vector<cache::RowPiece> pieces;
};

Result<Segments> cut(LlamaEngine& engine, std::size_t tokens, std::size_t tokens_each) {
  Segments out{tokens_each, {}, {}};
  for (std::size_t begin = 0; begin < tokens; begin += tokens_each) {
    const TokenRange range = token_range(begin, std::min(begin + tokens_each, tokens));
    out.bytes.emplace_back(engine.memory().rows_bytes(range.size()));
    TRY_ASSIGN(const std::size_t written, engine.memory().save_rows(kSource, range, out.bytes.back()));
    out.bytes.back().resize(written);
    out.pieces.push_back({range, range, {}});
  }
  for (std::size_t i = 0; i < out.bytes.size(); ++i) out.pieces[i].bytes = out.bytes[i];
  return out;
}

// For models that need only rows. Restoring is compared with libllama's bare call, which takes the same rows.
class RowsMeter {
 public:
  RowsMeter(LlamaEngine& engine, std::size_t tokens, os::Clock& clock)
      : engine_(engine), tokens_(tokens), clock_(clock) {}

  Status prepare(const std::function<bool()>& may_go_on) {
    TRY(prefill(engine_, tokens_, may_go_on));
    TRY_ASSIGN(whole_, cut(engine_, tokens_, tokens_));
    for (const std::size_t size : kSegmentTokens) {
      if (size > tokens_) continue;
      TRY_ASSIGN(Segments segments, cut(engine_, tokens_, size));
      cuts_.push_back({std::move(segments), {}, {}});
    }
    TRY(measure_once());  // touches the memory for the first time
    for (Cut& cut : cuts_) {
      cut.restore_ratios.clear();
      cut.capture_ms.clear();
    }
    return {};
  }

  // Each restore begins with an empty sequence: emptying one takes a tenth of the time of a restore.
  Status measure_once() {
    TRY_ASSIGN(const double bare_ms,
               timed_ms(clock_, [&] { return set_rows_bare(engine_, kTarget, whole_.bytes.front()); }));
    for (Cut& cut : cuts_) {
      engine_.memory().clear(kTarget);
      TRY_ASSIGN(const double restore_ms,
                 timed_ms(clock_, [&] { return engine_.memory().restore_rows(kTarget, cut.segments.pieces); }));
      cut.restore_ratios.push_back(bare_ms / restore_ms);
      std::vector<std::byte>& buffer = cut.segments.bytes.front();
      TRY_ASSIGN(const double capture_ms, timed_ms(clock_, [&]() -> Status {
                   TRY_ASSIGN([[maybe_unused]] const std::size_t written,
                              engine_.memory().save_rows(kSource, cut.segments.pieces.front().stored, buffer));
                   return {};
                 }));
      cut.capture_ms.push_back(capture_ms);
    }
    engine_.memory().clear(kTarget);
    return {};
  }

  std::vector<PartFigures> figures() const {
    std::vector<PartFigures> out;
    for (const Cut& cut : cuts_) out.push_back(restore_figures(cut));
    for (const Cut& cut : cuts_) {
      out.push_back(capture_figures(fmt::format("{} tokens", cut.segments.tokens_each),
                                    cut.segments.bytes.front().size(), cut.capture_ms));
    }
    return out;
  }

 private:
  struct Cut {
    Segments segments;
    std::vector<double> restore_ratios;
    std::vector<double> capture_ms;
  };

  PartFigures restore_figures(const Cut& cut) const {
    return summarize(
        fmt::format("restoring {} tokens ({} bytes each) in segments of {}, rate / bare state_seq_set_data", tokens_,
                    whole_.bytes.front().size() / tokens_, cut.segments.tokens_each),
        "ratio", cut.restore_ratios, kRestoreGoal);
  }

  LlamaEngine& engine_;
  std::size_t tokens_;
  os::Clock& clock_;
  Segments whole_;
  std::vector<Cut> cuts_;
};

// Runs all measurements of a meter on one engine, repetition by repetition.
template <typename Meter>
Result<std::vector<PartFigures>> measure(Meter meter, std::size_t repetitions,
                                         const std::function<bool(std::size_t done, std::size_t of)>& progress) {
  const std::size_t steps = repetitions + 2;
  TRY(meter.prepare([&] { return progress(0, steps); }));
  if (!progress(1, steps)) return aborted("interrupted");
  for (std::size_t i = 0; i < repetitions; ++i) {
    TRY(meter.measure_once());
    if (!progress(i + 2, steps)) return aborted("interrupted");
  }
  return meter.figures();
}

}  // namespace

Result<std::vector<PartFigures>> measure_parts(const PartsOptions& options, os::Clock& clock,
                                               const std::function<bool(std::size_t done, std::size_t of)>& progress) {
  engine::llama::ModelOptions model = options.model;
  model.n_ctx = static_cast<std::uint32_t>(options.tokens * 3);  // the source, the restored sequence, and room to spare
  model.parallel = 2;  // not idle ones: an engine may have fewer of them if their state is large
  model.idle_sequences = 0;
  TRY_ASSIGN(const std::unique_ptr<LlamaEngine> engine, LlamaEngine::load(model));
  const cache::StateShape shape = engine->memory().shape();
  if (!shape.cacheable) {
    return unsupported("nothing of this model can be kept: " + engine->description().memory_class_reason);
  }
  auto figures = shape.needs_points()
                     ? measure(StateMeter(*engine, options.tokens, clock), options.repetitions, progress)
                     : measure(RowsMeter(*engine, options.tokens, clock), options.repetitions, progress);
  TRY_ASSIGN(std::vector<PartFigures> out, std::move(figures));
  std::ranges::move(measure_index(options.repetitions, clock), std::back_inserter(out));
  return out;
}

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
