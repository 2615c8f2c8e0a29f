#pragma once

// For tests of memory classes: a conversation computed in slices, which saves on the way all state that a restore at
// the end of any slice needs.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <string>
#include <vector>

#include "testing/models/test_model.h"

namespace kvkeep::engine::llama {

// A generated model and its memory class.
struct ClassModel {
  const char* architecture;
  std::uint32_t window;  // of windowed layers; 0: none, or the architecture's default
  MemoryClass memory_class;
};
inline void PrintTo(const ClassModel& model, std::ostream* out) { *out << model.architecture << " " << model.window; }

inline std::string class_model_name(const ::testing::TestParamInfo<ClassModel>& parameter) {
  std::string name = parameter.param.architecture;
  std::erase(name, '-');
  return parameter.param.window == 0 ? name : name + "_window_" + std::to_string(parameter.param.window);
}

// Slices end in the middle of ubatches, and none is longer than the window, so that its rows can be saved in time.
inline constexpr std::size_t kSlice = 48;
inline constexpr std::uint32_t kTestWindow = 64;

// Without flash attention a result depends less on the order in which cells lie. Restores and forks change it in
// windows, and other sequences change it everywhere.
inline ModelOptions class_options(const ClassModel& model) {
  ModelOptions options = tiny_options();
  options.path = tiny_model_path(model.architecture, model.window);
  options.n_ctx = 2048;
  options.n_ubatch = 32;
  options.flash_attention = false;
  options.class_test_program = "/proc/self/exe";  // trials of opaque models may end the process
  return options;
}

using Logits = std::vector<float>;

// Computes the rest of `text` from the end of the sequence, its last `single` tokens one by one; returns their logits.
inline std::vector<Logits> go_on(LlamaEngine& engine, SeqId seq, TokenSpan text, std::size_t single) {
  const std::size_t sliced = text.size() - single;
  const TokenSpan rest = text.first(sliced).subspan(engine.memory().length(seq).value());
  EXPECT_EQ(prefill(engine, seq, rest, kSlice), DecodeStatus::kOk);
  std::vector<Logits> all;
  for (const TokenId token : text.subspan(sliced)) {
    const BatchToken next{seq, token, engine.memory().length(seq), true};
    EXPECT_EQ(engine.decode(std::span(&next, 1)), DecodeStatus::kOk);
    const auto row = engine.logits(0);
    all.emplace_back(row.begin(), row.end());
  }
  return all;
}

// The largest distance between two logits, as a share of their length.
inline double largest_difference(const std::vector<Logits>& left, const std::vector<Logits>& right) {
  double largest = left.size() == right.size() ? 0 : 1;
  for (std::size_t i = 0; i < std::min(left.size(), right.size()); ++i) {
    double distance = 0;
    double length = 0;
    for (std::size_t j = 0; j < left[i].size(); ++j) {
      distance += std::pow(static_cast<double>(left[i][j]) - right[i][j], 2);
      length += std::pow(static_cast<double>(left[i][j]), 2);
    }
    const double share = std::sqrt(distance / length);
    largest = std::max(largest, std::isfinite(share) ? share : 1);
  }
  return largest;
}

class RecordedRun {
 public:
  // Computes `prompt` in `seq`, which must be empty.
  RecordedRun(LlamaEngine& engine, SeqId seq, TokenSpan prompt) : engine_(engine) {
    for (std::size_t begin = 0; begin < prompt.size(); begin += kSlice) {
      const std::size_t end = std::min(begin + kSlice, prompt.size());
      EXPECT_EQ(prefill(engine, seq, prompt.subspan(begin, end - begin)), DecodeStatus::kOk);
      const TokenRange run = token_range(begin, end);
      rows_.push_back({run, engine.memory().rows_bytes(1) == 0 ? std::vector<std::byte>() : save(engine, seq, run)});
      if (engine.memory().shape().window_tokens > 0) windows_.push_back({run, save_window(engine, seq, run)});
      if (engine.memory().shape().points) points_[end] = save_point(engine, seq);
    }
  }

  Status restore(SeqId seq, std::size_t end) const { return restore_into(engine_, seq, end); }
  // Restores into the memory of any engine on the same model.
  Status restore_into(LlamaEngine& engine, SeqId seq, std::size_t end) const {
    TRY(engine.memory().restore_rows(seq, rows(token_range(engine.memory().length(seq).value(), end))));
    return restore_last_leaf(engine, seq);
  }
  Status restore_rows(SeqId seq, std::size_t end) const {
    return engine_.memory().restore_rows(seq, rows(token_range(engine_.memory().length(seq).value(), end)));
  }
  // Restores a point or window, after all rows, for the position at which the sequence ends.
  Status restore_last_leaf(SeqId seq) const { return restore_last_leaf(engine_, seq); }
  cache::RowPiece point(std::size_t at) const { return {token_range(at, at), token_range(at, at), points_.at(at)}; }
  std::vector<cache::RowPiece> rows(TokenRange wanted) const { return pieces(rows_, wanted); }
  std::vector<cache::RowPiece> windows(TokenRange wanted) const { return pieces(windows_, wanted); }

 private:
  Status restore_last_leaf(LlamaEngine& engine, SeqId seq) const {
    const cache::StateShape shape = engine.memory().shape();
    const std::size_t end = engine.memory().length(seq).value();
    if (shape.points) return engine.memory().restore_point(seq, std::vector<cache::RowPiece>{point(end)});
    if (shape.window_tokens == 0) return {};
    const std::size_t window = std::min<std::size_t>(shape.window_tokens, end);
    return engine.memory().restore_point(seq, pieces(windows_, token_range(end - window, end)));
  }

  struct Run {
    TokenRange range;
    std::vector<std::byte> bytes;
  };
  static std::vector<cache::RowPiece> pieces(const std::vector<Run>& runs, TokenRange wanted) {
    std::vector<cache::RowPiece> found;
    for (const Run& run : runs) {
      const TokenRange part{std::max(run.range.begin, wanted.begin), std::min(run.range.end, wanted.end)};
      if (part.begin < part.end) found.push_back({run.range, part, run.bytes});
    }
    return found;
  }

  LlamaEngine& engine_;
  std::vector<Run> rows_;
  std::vector<Run> windows_;
  std::map<std::size_t, std::vector<std::byte>> points_;  // by position
};

}  // namespace kvkeep::engine::llama
