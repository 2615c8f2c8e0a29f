#pragma once

// The state of one sequence of the fake model, and how a token changes it.
//
// Rows add up to a sum, as in attention over all rows. By memory class there is also: window rows, of which the last
// window adds up to another sum; a recurrent state, overwritten by each token; or (opaque) a trail of one word per
// token. The next token, and all state that it leaves, is a function of all of them. Missing state (a window row that
// slid off, a state that was never set) counts as rubbish: nothing fails, the text is wrong.

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <vector>

#include "base/types.h"
#include "engine/engine.h"

namespace kvkeep::engine::fake {

// splitmix64's finaliser over a running value: order matters, and every bit of both values counts.
std::uint64_t mix(std::uint64_t a, std::uint64_t b);

struct StateOptions {
  MemoryClass memory_class = MemoryClass::kSliceable;
  std::uint64_t model_seed = 1;
  std::uint32_t row_bytes = 32;
  std::uint32_t window_tokens = 16;
  std::uint32_t window_slack = 8;  // window rows before the window that have not slid off yet
  std::uint32_t state_bytes = 48;

  bool has_rows() const;
  bool has_window() const { return memory_class == MemoryClass::kWindowed; }
  bool has_state() const { return memory_class == MemoryClass::kHybrid || memory_class == MemoryClass::kRecurrent; }
  bool has_trail() const { return memory_class == MemoryClass::kOpaque || memory_class == MemoryClass::kUncached; }
};

class SequenceState {
 public:
  explicit SequenceState(const StateOptions& options);

  std::size_t length() const { return sums_.size(); }
  // All state in one word, on which sampling depends.
  std::uint64_t value() const;

  // Computes the row of the next token, which decode() then adds.
  void compute_row(TokenId token, MutableByteSpan row) const;
  // Adds a decoded token, with the row that compute_row made.
  void decode(TokenId token, ByteSpan row);
  // Adds a restored row, empty if the model has none; `claimed` is the position that its bytes name.
  void add_row(std::uint32_t claimed, ByteSpan row);

  // The least position at which a cut leaves this complete.
  std::size_t complete_from() const;
  // The state of a fork or truncation at `end`.
  SequenceState cut(std::size_t end) const;

  // Window rows [begin, end), 8 bytes each; empty if one is missing.
  std::vector<std::uint64_t> window(std::size_t begin, std::size_t end) const;
  // Replaces all window rows by these, which end at length().
  void set_window(std::size_t begin, std::span<const std::uint64_t> rows);
  // The recurrent state or the trail.
  std::vector<std::byte> point() const;
  std::size_t point_bytes() const;
  void set_point(ByteSpan bytes);

  void spoil() { spoiled_ = true; }
  bool spoiled() const { return spoiled_; }

 private:
  std::uint64_t row_sum() const;
  std::uint64_t window_sum() const;
  std::uint64_t point_sum() const;

  StateOptions options_;
  std::vector<std::uint64_t> sums_;              // per position: the sum of the rows up to it
  std::map<std::size_t, std::uint64_t> window_;  // by position
  std::vector<std::byte> state_;                 // recurrent
  std::vector<std::uint64_t> trail_;             // opaque
  std::uint64_t trail_sum_ = 0;
  bool lost_ = false;     // the state or trail is not that of length()
  bool spoiled_ = false;  // a decode failed, and the sequence was not cleared since
};

}  // namespace kvkeep::engine::fake
