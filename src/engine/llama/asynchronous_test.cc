// Backends of GPUs compute while llama_decode() has already returned. No GPU is needed to see whether the engine waits:
// the call that waits is intercepted.

#include <dlfcn.h>
#include <gtest/gtest.h>

#include "testing/models/test_model.h"

namespace {

int waits = 0;

}  // namespace

// Takes the place of libllama's function in this program.
extern "C" void llama_synchronize(llama_context* context) {
  using Synchronize = void(llama_context*);
  static auto* const next = reinterpret_cast<Synchronize*>(dlsym(RTLD_NEXT, "llama_synchronize"));
  ++waits;
  next(context);
}

namespace kvkeep::engine::llama {
namespace {

// Slices of prefill are as long as earlier ones took, and the rate of prefill decides whether to restore: times of
// calls that have not ended would be too short.
TEST(Asynchronous, ADecodeEndsWhenItsTokensAreComputed) {
  const std::unique_ptr<LlamaEngine> engine = load_or_die(tiny_options());
  const int before = waits;
  ASSERT_EQ(prefill(*engine, kFirst, make_prompt(600, 1), 300), DecodeStatus::kOk);
  EXPECT_EQ(waits - before, 2);
}

}  // namespace
}  // namespace kvkeep::engine::llama
