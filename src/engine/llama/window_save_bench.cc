// The engine's thread's cost of saving the rows of a windowed model's last slice, where the window lies: read without
// the window; or read with it and picked out, which copies the rows twice and the window once.

#include <benchmark/benchmark.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "engine/llama/state_parts.h"
#include "model_maker/make_model.h"
#include "testing/models/test_model.h"

namespace kvkeep::engine::llama {
namespace {

constexpr std::size_t kTokens = 2048;
const SeqId kSeq{0};

LlamaEngine& engine() {
  static const std::unique_ptr<LlamaEngine> loaded = [] {
    const std::string path = std::filesystem::temp_directory_path() / "kvkeep-window-save-bench.gguf";
    if (!gguf::make_model({.architecture = "gemma3", .size = gguf::ModelSize::kSmall, .window = 512}, path)) {
      std::abort();
    }
    ModelOptions options = tiny_options();
    options.path = path;
    options.n_ctx = 3 * kTokens;
    options.n_ubatch = options.n_batch = 256;
    options.class_test_program = "/proc/self/exe";  // trying the class may end the process that does it
    std::unique_ptr<LlamaEngine> made = load_or_die(options);
    (void)prefill(*made, kSeq, make_prompt(kTokens, 1), 256);
    std::filesystem::remove(path);
    return made;
  }();
  return *loaded;
}

TokenRange last_slice(const benchmark::State& state) {
  return token_range(kTokens - static_cast<std::size_t>(state.range(0)), kTokens);
}

void count_bytes(benchmark::State& state, std::size_t bytes) {
  state.SetBytesProcessed(state.iterations() * static_cast<std::int64_t>(bytes));
  state.counters["MiB"] = static_cast<double>(bytes) / (1 << 20);
}

void BM_SaveRows(benchmark::State& state) {
  const TokenRange range = last_slice(state);
  std::vector<std::byte> out(engine().memory().rows_bytes(range.size()));
  std::size_t written = 0;
  for (auto _ : state) written = *engine().memory().save_rows(kSeq, range, out);
  count_bytes(state, written);
}
BENCHMARK(BM_SaveRows)->Arg(256)->Arg(512)->Arg(2048)->Unit(benchmark::kMicrosecond);

void BM_SaveRowsThroughWholeState(benchmark::State& state) {
  const TokenRange range = last_slice(state);
  std::vector<std::byte> out(engine().memory().rows_bytes(range.size()));
  std::vector<std::byte> whole;
  llama_context& context = engine().context();
  llama_memory_t memory = llama_get_memory(&context);
  const auto scratch = static_cast<llama_seq_id>(engine().memory().sequence_count());
  for (auto _ : state) {
    llama_memory_seq_cp(memory, kSeq.value(), scratch, to_pos(range.begin), to_pos(range.end));
    whole.resize(state_size(context, scratch, StatePart::kWhole));
    (void)get_state(context, scratch, StatePart::kWhole, whole);
    std::memcpy(out.data(), whole.data(), out.size());
    llama_memory_seq_rm(memory, scratch, -1, -1);
  }
  count_bytes(state, out.size());
  state.counters["MiB_read"] = static_cast<double>(whole.size()) / (1 << 20);
}
BENCHMARK(BM_SaveRowsThroughWholeState)->Arg(256)->Arg(512)->Arg(2048)->Unit(benchmark::kMicrosecond);

void BM_SaveWindow(benchmark::State& state) {
  const TokenRange range = last_slice(state);
  std::vector<std::byte> out(engine().memory().window_bytes(range.size()));
  std::size_t written = 0;
  for (auto _ : state) written = *engine().memory().save_window(kSeq, range, out);
  count_bytes(state, written);
}
BENCHMARK(BM_SaveWindow)->Arg(128)->Arg(511)->Unit(benchmark::kMicrosecond);

}  // namespace
}  // namespace kvkeep::engine::llama
