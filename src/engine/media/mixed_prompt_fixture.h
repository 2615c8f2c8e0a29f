#pragma once

// Prompts of text and chunks in turn, for tests of a real model's memory: the embeddings are made up, of any shape, or
// come from libmtmd.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "base/media_ids.h"
#include "engine/llama/weights.h"
#include "engine/media/media_files_fixture.h"
#include "engine/media/projector.h"
#include "testing/models/recorded_run.h"

namespace kvkeep::engine::media {

using namespace llama;

// A chunk with embeddings as long as those of tokens.
struct MadeChunk {
  ChunkShape shape;
  std::vector<TokenId> ids;
  std::vector<float> embeddings;
  std::vector<PlanePlace> places;
  bool at_once = false;
};

inline MadeChunk make_chunk(const Description& model, std::uint32_t rows, std::uint32_t columns, bool plane,
                            bool at_once, std::uint32_t seed) {
  MadeChunk chunk;
  const std::uint32_t count = rows * columns;
  chunk.shape = {.embeddings = count, .positions = plane ? std::max(rows, columns) : count, .plane = plane};
  chunk.at_once = at_once;
  MediaHash hash;
  hash.bytes[0] = static_cast<std::uint8_t>(seed);
  chunk.ids = media_ids(hash, 0, chunk.shape);
  std::uint32_t state = seed * 747796405U + 2891336453U;
  for (std::size_t i = 0; i < std::size_t{count} * model.embedding_input_size; ++i) {
    state = state * 1664525U + 1013904223U;
    chunk.embeddings.push_back(static_cast<float>(state >> 8) / static_cast<float>(1U << 23) - 1.0F);
  }
  for (std::uint32_t i = 0; plane && i < count; ++i) chunk.places.push_back({0, i / columns, i % columns});
  return chunk;
}

// A prompt of text and chunks in turn.
struct MixedPrompt {
  std::vector<TokenId> ids;
  std::map<std::size_t, MadeChunk> chunks;  // by the position of their first id
  std::vector<MediaRun> runs;
  std::set<std::size_t> borders;  // where text and chunks meet, and the end

  void add_text(std::size_t count, std::uint32_t seed) {
    const std::vector<TokenId> text = make_prompt(count, seed);
    ids.insert(ids.end(), text.begin(), text.end());
    borders.insert(ids.size());
  }
  void add(MadeChunk chunk) {
    const std::size_t at = ids.size();
    borders.insert(at);
    ids.insert(ids.end(), chunk.ids.begin(), chunk.ids.end());
    chunks.emplace(at, std::move(chunk));
    borders.insert(ids.size());
  }
};

struct MediaModel {
  std::string architecture;
  bool plane = false;    // M-RoPE
  bool at_once = false;  // without causality
  bool own_cells = false;
  std::size_t unsaved_windows = 2;  // borders whose window holds ids without cells
  std::string projector = {};       // the architecture whose projector makes the embeddings; empty: they are made up
};

inline std::string media_model_name(const ::testing::TestParamInfo<MediaModel>& parameter) {
  const auto& [architecture, plane, at_once, own_cells, unsaved, projector] = parameter.param;
  return architecture + (projector.empty() ? "" : "_through_" + projector) + (own_cells ? "_own_cells" : "");
}

inline MixedPrompt make_mixed(const MediaModel& model, const Description& description, std::uint32_t seed = 1) {
  MixedPrompt prompt;
  prompt.add_text(29, seed);
  prompt.add(make_chunk(description, 4, 5, model.plane, model.at_once, seed));  // over position 32, a usual cut
  prompt.add_text(7, seed + 1);
  prompt.add(make_chunk(description, 1, 1, model.plane, model.at_once, seed + 1));  // has fewer cells than ids
  prompt.add(make_chunk(description, 3, 2, model.plane, model.at_once, seed + 2));  // next to another chunk
  prompt.add_text(170, seed + 3);                                                   // beyond a window
  prompt.add(make_chunk(description, 1, 6, model.plane, model.at_once, seed + 3));
  prompt.add_text(9, seed + 4);
  prompt.runs = *media_runs(prompt.ids);
  return prompt;
}

// ---- chunks that a projector makes ----

// The projector is loaded once per program.
inline Projector& loaded_projector(const MediaModel& model) {
  static std::map<std::string, std::pair<Weights, std::unique_ptr<Projector>>> projectors;
  auto& [weights, projector] = projectors[model.architecture];
  if (!projector) {
    ModelOptions options = tiny_options();
    options.path = tiny_model_path(model.architecture);
    weights = load_weights(options, {}).value();
    const ProjectorOptions of_projector{
        .path = tiny_projector_path(model.projector), .threads = 1, .use_gpu = false, .warmup = false};
    projector = load_projector(of_projector, weights.model).value();
  }
  return *projector;
}

// Samples that look random.
inline std::vector<std::byte> make_noise(std::size_t samples, std::uint32_t seed) {
  std::vector<float> noise;
  for (std::uint32_t i = 0; i < samples; ++i) {
    noise.push_back(static_cast<float>((i + seed * 7'919) * 2'654'435'761U >> 16) / 32'768.0F - 1.0F);
  }
  return make_float_wav(noise);
}

// Files of equal numbers have as many embeddings, whatever the seed.
inline std::vector<std::byte> some_file(const Projector& projector, std::uint32_t number, std::uint32_t seed) {
  const std::uint32_t samples = 8'000 * (number + 1) + 1'000;
  if (!projector.description().pictures) return seed == 1 ? make_wav(samples) : make_noise(samples, seed);
  constexpr std::pair<std::uint32_t, std::uint32_t> kSides[] = {{96, 64}, {40, 200}, {64, 64}, {200, 40}};
  return make_png(kSides[number].first, kSides[number].second, seed + 10 * number);
}

inline void add_file(MixedPrompt& prompt, Projector& projector, std::uint32_t number, std::uint32_t seed) {
  const std::vector<std::byte> file = some_file(projector, number, seed);
  const std::vector<MediaPart> parts = projector.plan(file).value();
  std::vector<EncodedChunk> chunks = projector.encode(file, 0, {}).value();
  MediaHash name;
  name.bytes[0] = static_cast<std::uint8_t>(16 * number + seed);
  std::uint32_t index = 0;
  for (const MediaPart& part : parts) {
    if (!part.is_chunk()) {
      prompt.ids.insert(prompt.ids.end(), part.tokens.begin(), part.tokens.end());
      continue;
    }
    EncodedChunk& chunk = chunks.at(index);
    prompt.add({chunk.shape, media_ids(name, index++, chunk.shape), std::move(chunk.embeddings),
                std::move(chunk.places), chunk.at_once});
  }
}

// Made once per program.
inline const MixedPrompt& projected_prompt(const MediaModel& model, std::uint32_t seed_of_first = 1) {
  static std::map<std::pair<std::string, std::uint32_t>, MixedPrompt> prompts;
  MixedPrompt& prompt = prompts[{model.architecture, seed_of_first}];
  if (!prompt.ids.empty()) return prompt;
  Projector& projector = loaded_projector(model);
  prompt.add_text(29, 1);
  add_file(prompt, projector, 0, seed_of_first);
  prompt.add_text(7, 2);
  add_file(prompt, projector, 1, 1);
  add_file(prompt, projector, 2, 1);
  prompt.add_text(170, 3);
  add_file(prompt, projector, 3, 1);
  prompt.add_text(9, 4);
  prompt.runs = *media_runs(prompt.ids);
  return prompt;
}

// Another file of the same size is the first one.
inline MixedPrompt with_another_file(const MediaModel& model, const Description& description, MixedPrompt prompt) {
  MadeChunk& first = prompt.chunks.begin()->second;
  first.embeddings = model.projector.empty() ? make_chunk(description, 4, 5, model.plane, model.at_once, 99).embeddings
                                             : projected_prompt(model, 2).chunks.begin()->second.embeddings;
  return prompt;
}

}  // namespace kvkeep::engine::media
