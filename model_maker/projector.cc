// Projectors: the encoders that turn pictures and sounds into embeddings of a text model's width. Three kinds, as
// libmtmd knows them. Weights are random, so that each pixel and each sample changes every embedding a little.

#include <algorithm>
#include <array>

#include "base/assert.h"
#include "model_maker/architecture.h"

namespace kvkeep::gguf {
namespace {

// Gains by which embeddings have about the lengths of a text model's own, and one pixel more or less does not get lost.
constexpr float kScore = 1.5F;
constexpr float kBlock = 1;
constexpr float kUp = 2;
constexpr float kPositions = 0.3F;
constexpr float kAfterGelu = 0.75F;  // GELU of values with deviation 2 makes vectors a third longer

std::int64_t encoder_layers(ModelSize size) {
  switch (size) {
    case ModelSize::kTiny: return 2;
    case ModelSize::kSmall: return 4;
    case ModelSize::kReal: return 12;
  }
  return 0;
}

// Collects the keys and tensors of an encoder: names begin with `letter`, keys with "clip.<medium>".
class EncoderPlan {
 public:
  EncoderPlan(const PlanRequest& request, std::string medium, std::string_view kind)
      : plan_("clip", shape_of(request.size)),
        medium_(std::move(medium)),
        letter_(medium_.substr(0, 1)),
        layers_(encoder_layers(request.size)) {
    plan_.key("has_" + medium_ + "_encoder", true);
    plan_.key("projector_type", std::string(kind));
    plan_.key("use_gelu", true);
    number("embedding_length", width());
    number("attention.head_count", plan_.shape().heads);
    number("feed_forward_length", plan_.shape().hidden);
    number("block_count", layers_);
    number("projection_dim", width());
    plan_.key(medium_ + ".attention.layer_norm_epsilon", kNormEpsilon);
  }

  std::int64_t width() const { return plan_.shape().width; }
  std::int64_t layers() const { return layers_; }

  void number(const std::string& name, std::int64_t value) { plan_.number(medium_ + "." + name, value); }
  // Adds the keys of pictures whose sides are multiples of `patch` pixels; values of colours become -1 to 1.
  void picture_keys(std::int64_t side, std::int64_t patch) {
    number("image_size", side);
    number("patch_size", patch);
    plan_.key(medium_ + ".image_mean", std::vector<float>(3, 0.5F));
    plan_.key(medium_ + ".image_std", std::vector<float>(3, 0.5F));
  }

  // Adds a tensor as F32; a kernel's first two numbers are its sides.
  void values(const std::string& name, std::vector<std::int64_t> shape, TensorFill fill) {
    plan_.values(name, std::move(shape), fill);
  }
  void kernel(const std::string& name, std::vector<std::int64_t> shape) {
    std::int64_t inputs = 1;
    for (std::size_t i = 0; i + 1 < shape.size(); ++i) inputs *= shape[i];
    values(name, std::move(shape), gain(1, inputs));
  }
  void bias(const std::string& name, std::int64_t size) { values(name + ".bias", {size}, Constant{0}); }
  void matrix(const std::string& name, std::int64_t from, std::int64_t to, float factor) {
    plan_.matrix(name, from, to, factor);
  }
  void biased(const std::string& name, std::int64_t from, std::int64_t to, float factor) {
    matrix(name, from, to, factor);
    bias(name, to);
  }
  void norm(const std::string& name, std::int64_t size) {
    plan_.norm(name, size);
    bias(name, size);
  }
  void positions(std::int64_t count) {
    values(letter_ + ".position_embd.weight", {width(), count}, Spread{kPositions});
  }

  // `fused`: one matrix makes queries, keys and values. Keys of sound have no bias.
  void add_layers(bool fused) {
    for (std::int64_t layer = 0; layer < layers_; ++layer) {
      const std::string block = letter_ + ".blk." + std::to_string(layer) + ".";
      norm(block + "ln1", width());
      if (fused) {
        biased(block + "attn_qkv", width(), 3 * width(), kScore);
      } else {
        add_queries_keys_values(block);
      }
      biased(block + "attn_out", width(), width(), kBlock);
      norm(block + "ln2", width());
      biased(block + "ffn_up", width(), plan_.shape().hidden, kUp);
      biased(block + "ffn_down", plan_.shape().hidden, width(), kBlock);
    }
    norm(letter_ + ".post_ln", width());
  }

  ModelPlan take() { return plan_.take(); }

 private:
  void add_queries_keys_values(const std::string& block) {
    biased(block + "attn_q", width(), width(), kScore);
    matrix(block + "attn_k", width(), width(), kScore);
    if (letter_ != "a") bias(block + "attn_k", width());
    biased(block + "attn_v", width(), width(), kBlock);
  }

  PlanBuilder plan_;
  std::string medium_;
  std::string letter_;
  std::int64_t layers_;
};

// SigLIP as Gemma 3 has it: each picture is brought to one size and becomes 16 tokens.
ModelPlan plan_siglip(const PlanRequest& request) {
  constexpr std::int64_t kSide = 224;
  constexpr std::int64_t kPatch = 14;
  constexpr std::int64_t kPatches = (kSide / kPatch) * (kSide / kPatch);
  EncoderPlan plan(request, "vision", "gemma3");
  const std::int64_t width = plan.width();
  plan.picture_keys(kSide, kPatch);
  plan.kernel("v.patch_embd.weight", {kPatch, kPatch, 3, width});
  plan.bias("v.patch_embd", width);
  plan.positions(kPatches);
  plan.add_layers(false);
  plan.values("mm.soft_emb_norm.weight", {width}, Constant{1});
  plan.kernel("mm.input_projection.weight", {width, width});  // libmtmd transposes it, which no quantized matrix bears
  return plan.take();
}

// The encoder of Qwen 3 VL: a picture keeps its shape, 32 x 32 pixels are a token, at least 8 tokens a picture.
ModelPlan plan_qwen_vl(const PlanRequest& request) {
  constexpr std::int64_t kSide = 256;
  constexpr std::int64_t kPatch = 16;
  constexpr std::int64_t kMerged = 4;  // patches of a token
  constexpr std::int64_t kPatches = (kSide / kPatch) * (kSide / kPatch);
  EncoderPlan plan(request, "vision", "qwen3vl_merger");
  const std::int64_t width = plan.width();
  plan.picture_keys(kSide, kPatch);
  plan.number("spatial_merge_size", 2);
  plan.kernel("v.patch_embd.weight", {kPatch, kPatch, 3, width});
  plan.kernel("v.patch_embd.weight.1", {kPatch, kPatch, 3, width});
  plan.bias("v.patch_embd", width);
  plan.positions(kPatches);
  plan.add_layers(true);
  plan.biased("mm.0", kMerged * width, kMerged * width, kUp);
  plan.biased("mm.2", kMerged * width, width, kAfterGelu);
  const std::int64_t deep = request.architecture == "qwen3vl" ? kDeepPictures : 0;
  for (std::int64_t layer = 0; layer < deep; ++layer) {
    const std::string block = "v.deepstack." + std::to_string(layer) + ".";
    plan.norm(block + "norm", kMerged * width);
    plan.biased(block + "fc1", kMerged * width, kMerged * width, kUp);
    plan.biased(block + "fc2", kMerged * width, width, kAfterGelu);
  }
  return plan.take();
}

// Whisper's encoder as Ultravox has it: 30 seconds of sound become 30 tokens.
ModelPlan plan_whisper(const PlanRequest& request) {
  constexpr std::int64_t kBins = 80;
  constexpr std::int64_t kPositionsOf30Seconds = 1500;
  constexpr std::int64_t kStacked = 50;  // positions of a token
  EncoderPlan plan(request, "audio", "ultravox");
  const std::int64_t width = plan.width();
  plan.number("num_mel_bins", kBins);
  plan.number("projector.stack_factor", kStacked);
  plan.kernel("a.conv1d.1.weight", {3, kBins, width});
  plan.values("a.conv1d.1.bias", {1, width}, Constant{0});
  plan.kernel("a.conv1d.2.weight", {3, width, width});
  plan.values("a.conv1d.2.bias", {1, width}, Constant{0});
  plan.positions(kPositionsOf30Seconds);
  plan.add_layers(false);
  plan.values("mm.a.norm_pre.weight", {kStacked * width}, Constant{1});
  plan.matrix("mm.a.mlp.1", kStacked * width, 2 * width, 1);
  plan.values("mm.a.norm_mid.weight", {width}, Constant{1});
  plan.matrix("mm.a.mlp.2", width, width, 1);
  return plan.take();
}

struct Projector {
  std::string_view architecture;  // of the text model
  ModelPlan (*plan)(const PlanRequest& request);
};

// Architectures that see. All others hear.
constexpr auto kProjectors = std::to_array<Projector>({
    {"gemma3", plan_siglip},
    {"qwen3vl", plan_qwen_vl},
    {"qwen35", plan_qwen_vl},
});

const Projector* find_projector(std::string_view architecture) {
  const auto* const found = std::ranges::find(kProjectors, architecture, &Projector::architecture);
  return found == kProjectors.end() ? nullptr : found;
}

}  // namespace

ModelPlan plan_projector(const PlanRequest& request) {
  const Projector* projector = find_projector(request.architecture);
  return projector == nullptr ? plan_whisper(request) : projector->plan(request);
}

std::string_view projector_medium(std::string_view architecture) {
  return find_projector(architecture) == nullptr ? "sound" : "pictures";
}

}  // namespace kvkeep::gguf
