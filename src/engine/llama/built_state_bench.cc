// Whole states of a real opaque model as a conversation grows: how fast the difference from the previous state is
// computed and applied, and how much of a state it saves.

#include <benchmark/benchmark.h>

#include <string_view>

#include "engine/llama/memory_class.h"
#include "format/built_state.h"
#include "testing/models/test_model.h"

namespace kvkeep::engine::llama {
namespace {

// States of one conversation at `from` and `to` tokens.
struct Pair {
  std::vector<std::byte> base;
  std::vector<std::byte> fresh;
};

LlamaEngine& engine() {
  static const std::unique_ptr<LlamaEngine> loaded = [] {
    ModelOptions options = tiny_options();
    options.path = tiny_model_path("deepseek4");
    options.n_ctx = 8192;
    options.class_test_program = "/proc/self/exe";  // trying the class may end the process that does it
    return load_or_die(options);
  }();
  return *loaded;
}

Pair states(std::size_t from, std::size_t to) {
  const std::vector<TokenId> prompt = make_prompt(to, 1);
  const SeqId seq{0};
  engine().memory().clear(seq);
  Pair pair;
  (void)prefill(engine(), seq, TokenSpan(prompt).first(from));
  pair.base = save_point(engine(), seq);
  (void)prefill(engine(), seq, TokenSpan(prompt).subspan(from));
  pair.fresh = save_point(engine(), seq);
  return pair;
}

void BM_EncodeState(benchmark::State& state) {
  const Pair pair = states(static_cast<std::size_t>(state.range(0)), static_cast<std::size_t>(state.range(1)));
  std::size_t size = 0;
  for (auto _ : state) size = format::encode_built_state({}, pair.base, pair.fresh, SIZE_MAX)->size();
  const double kept = 1 - static_cast<double>(size) / static_cast<double>(pair.fresh.size());
  state.SetBytesProcessed(static_cast<std::int64_t>(state.iterations() * pair.fresh.size()));
  state.counters["state_bytes"] = static_cast<double>(pair.fresh.size());
  state.counters["share_kept"] = kept;
}
BENCHMARK(BM_EncodeState)->Args({1300, 2500})->Args({2000, 2200})->Args({2500, 2560})->Unit(benchmark::kMillisecond);

void BM_DecodeState(benchmark::State& state) {
  const Pair pair = states(1300, 2500);
  const auto built = format::encode_built_state({}, pair.base, pair.fresh, SIZE_MAX);
  std::vector<std::byte> out(pair.fresh.size());
  for (auto _ : state) {
    benchmark::DoNotOptimize(format::decode_built_state({}, pair.base, format::Differences::kFrame, *built, out).ok());
  }
  state.SetBytesProcessed(static_cast<std::int64_t>(state.iterations() * pair.fresh.size()));
}
BENCHMARK(BM_DecodeState)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace kvkeep::engine::llama

int main(int argc, char** argv) {
  using namespace kvkeep::engine::llama;
  if (argc > 1 && std::string_view(argv[1]) == kClassTestCommand) return class_test_main({argv + 2, argv + argc});
  benchmark::Initialize(&argc, argv);
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
