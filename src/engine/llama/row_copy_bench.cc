// Rows out of the model's memory and back, against libllama's bare calls on the same bytes in the same run.
//
//   BareSet           llama_state_seq_set_data of all rows in one blob: the ceiling
//   Restore/segment   restore_rows of the same rows, in segments of so many tokens
//   Save/tokens       save_rows, seq_cp and seq_rm included

#include <benchmark/benchmark.h>

#include <algorithm>

#include "testing/models/test_model.h"

namespace kvkeep::engine::llama {
namespace {

constexpr SeqId kSource{0};
constexpr SeqId kTarget{1};
constexpr std::size_t kTokens = 8192;

// One engine for all: 8,192 tokens resident in a memory of 32,768 cells, 6 KiB of rows per token.
LlamaEngine& engine() {
  static const std::unique_ptr<LlamaEngine> loaded = [] {
    ModelOptions options = tiny_options();
    options.path = small_model_path();
    options.n_ctx = 32768;
    options.threads = 2;
    auto engine = load_or_die(options);
    if (prefill(*engine, kSource, make_prompt(kTokens, 1)) != DecodeStatus::kOk) std::abort();
    return engine;
  }();
  return *loaded;
}

struct Segments {
  std::vector<std::vector<std::byte>> bytes;
  std::vector<cache::RowPiece> pieces;
  std::size_t total = 0;
};

Segments cut_into(std::size_t segment) {
  Segments out;
  for (std::size_t begin = 0; begin < kTokens; begin += segment) {
    out.bytes.push_back(save(engine(), kSource, token_range(begin, std::min(begin + segment, kTokens))));
    out.total += out.bytes.back().size();
  }
  for (std::size_t i = 0; i < out.bytes.size(); ++i) {
    const TokenRange range = token_range(i * segment, std::min((i + 1) * segment, kTokens));
    out.pieces.push_back({range, range, out.bytes[i]});
  }
  return out;
}

void count_bytes(benchmark::State& state, std::size_t bytes) {
  state.SetBytesProcessed(static_cast<std::int64_t>(state.iterations()) * static_cast<std::int64_t>(bytes));
}

// The bare call sets a sequence in one piece; clearing it is part of it (libllama clears before it sets).
void BM_BareSet(benchmark::State& state) {
  const Segments whole = cut_into(kTokens);
  for (auto _ : state) {
    const auto& rows = whole.bytes.front();
    const std::size_t taken = llama_state_seq_set_data(
        &engine().context(), reinterpret_cast<const std::uint8_t*>(rows.data()), rows.size(), kTarget.value());
    if (taken != rows.size()) state.SkipWithError("libllama refused the rows");
  }
  engine().clear(kTarget);
  count_bytes(state, whole.total);
}
BENCHMARK(BM_BareSet)->Unit(benchmark::kMillisecond)->UseRealTime();

void BM_Restore(benchmark::State& state) {
  const Segments segments = cut_into(static_cast<std::size_t>(state.range(0)));
  for (auto _ : state) {
    engine().clear(kTarget);
    if (!engine().restore_rows(kTarget, segments.pieces).ok()) state.SkipWithError("the rows were refused");
  }
  engine().clear(kTarget);
  count_bytes(state, segments.total);
}
BENCHMARK(BM_Restore)
    ->Arg(64)
    ->Arg(256)
    ->Arg(512)
    ->Arg(2048)
    ->Arg(kTokens)
    ->Unit(benchmark::kMillisecond)
    ->UseRealTime();

void BM_Save(benchmark::State& state) {
  const TokenRange range = token_range(0, static_cast<std::size_t>(state.range(0)));
  std::vector<std::byte> bytes(engine().rows_bytes(range.size()));
  for (auto _ : state) {
    if (!engine().save_rows(kSource, range, bytes).ok()) state.SkipWithError("rows could not be saved");
  }
  count_bytes(state, bytes.size());
}
BENCHMARK(BM_Save)->Arg(16)->Arg(64)->Arg(256)->Arg(512)->Arg(2048)->Unit(benchmark::kMicrosecond);

}  // namespace
}  // namespace kvkeep::engine::llama
