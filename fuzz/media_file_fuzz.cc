// A picture's or sound's file: refused with a reason, or within all limits; the projector plans and decodes each
// accepted one, into the parts that its head promises, or refuses it.

#include "engine/llama/weights.h"
#include "engine/media/projector.h"
#include "fuzz.h"
#include "testing/models/test_model.h"

namespace kvkeep {
namespace {

using engine::Projector;
using engine::media::MediaLimits;

// Small limits, so that inputs reach them.
constexpr MediaLimits kLimits{.file_bytes = ByteCount{1 << 20}, .pixels = 1 << 20, .side = 4'096, .seconds = 40};

// Two projectors that see, in a plane and of one size, and one that hears; null if this program was built without
// libmtmd.
std::unique_ptr<Projector> load(const std::string& architecture) {
  engine::llama::ModelOptions options = engine::llama::tiny_options();
  options.path = engine::llama::tiny_model_path(architecture);
  const auto weights = engine::llama::load_weights(options, {});
  auto loaded = engine::media::load_projector({.path = engine::llama::tiny_projector_path(architecture),
                                               .threads = 1,
                                               .use_gpu = false,
                                               .warmup = false,
                                               .limits = kLimits},
                                              weights->model);
  return loaded ? std::move(loaded).value() : nullptr;
}

void check_head(ByteSpan file) {
  const auto head = engine::media::read_head(file, kLimits);
  if (!head) {
    KVKEEP_ASSERT(!head.error().message.empty() && head.error().message.size() < 200, "a refusal has a short reason");
    return;
  }
  KVKEEP_ASSERT(file.size() <= kLimits.file_bytes.value(), "no longer file is accepted");
  KVKEEP_ASSERT(std::uint64_t{head->width} * head->height <= kLimits.pixels, "no larger picture is accepted");
  KVKEEP_ASSERT(head->frames <= kLimits.frames && head->seconds <= kLimits.seconds, "nothing longer is accepted");
}

void check_decoding(Projector& projector, ByteSpan file) {
  const auto parts = projector.plan(file);
  if (!parts) return;
  KVKEEP_ASSERT(media_runs(prompt_ids(*parts, {})).ok(), "the parts have ids");
  // Decodes the file, and ends before the encoder begins.
  const auto ended = projector.encode(file, 0, [](double) { return false; });
  KVKEEP_ASSERT(!ended.ok(), "an encoding that is to end does not go on");
  // It was decoded into the parts of its head, or libmtmd refused it.
  KVKEEP_ASSERT(ended.error().message != "it has other parts than its head says", "its head says what it has");
  KVKEEP_ASSERT(ended.error().message != "it has more samples than were counted", "its decoder finds what was counted");
}

}  // namespace
}  // namespace kvkeep

KVKEEP_FUZZ_TARGET(media_file)(const std::uint8_t* data, std::size_t size) {
  static const auto eye = kvkeep::load("gemma3");
  static const auto plane_eye = kvkeep::load("qwen3vl");
  static const auto ear = kvkeep::load("llama");
  const kvkeep::ByteSpan file = kvkeep::fuzz::bytes_of(data, size);
  kvkeep::check_head(file);
  if (eye) kvkeep::check_decoding(*eye, file);
  if (plane_eye) kvkeep::check_decoding(*plane_eye, file);
  if (ear) kvkeep::check_decoding(*ear, file);
  return 0;
}
