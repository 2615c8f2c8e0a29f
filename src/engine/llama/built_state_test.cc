// A real opaque model's state as a conversation grows: nearly nothing is written again of the parts that a comparison
// of 64-byte windows finds repeated.

#include "format/built_state.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "testing/models/recorded_run.h"

namespace kvkeep::engine::llama {
namespace {

TEST(StatesOfAModel, KeepNineTenthsOfWhatWindowsFindRepeated) {
  const auto engine = load_or_die(class_options({"deepseek4", kTestWindow, MemoryClass::kOpaque}));
  const SeqId seq{0};
  const std::vector<TokenId> prompt = make_prompt(1900, 1);
  std::vector<std::byte> base;
  std::size_t done = 0;
  for (const std::size_t end : {900U, 1800U, 1900U}) {
    ASSERT_EQ(prefill(*engine, seq, TokenSpan(prompt).subspan(done, end - done)), DecodeStatus::kOk);
    done = end;
    const std::vector<std::byte> state = save_point(*engine, seq);
    if (!base.empty()) {
      const auto built = format::encode_built_state({}, base, state, SIZE_MAX);
      const std::size_t repeated = format::repeated_bytes(base, state);
      const std::size_t kept = state.size() - built->size();
      std::printf("%zu tokens: %zu bytes, repeated %.3f, kept %.3f\n", end, state.size(),
                  static_cast<double>(repeated) / static_cast<double>(state.size()),
                  static_cast<double>(kept) / static_cast<double>(state.size()));
      EXPECT_GT(repeated, state.size() / 4);
      EXPECT_GE(static_cast<double>(kept), 0.9 * static_cast<double>(repeated)) << end;
      std::vector<std::byte> out(state.size());
      ASSERT_TRUE(format::decode_built_state({}, base, format::Differences::kFrame, *built, out).ok());
      EXPECT_EQ(out, state);
    }
    base = state;
  }
}

}  // namespace
}  // namespace kvkeep::engine::llama
