#pragma once

// The bytes in which libllama returns the KV rows of one sequence (llama_state_seq_get_data), for memories made of one
// plain KV cache in unified layout: how to read and verify them, and how to join several runs.
//
//   envelope   u32 magic, i32 sequence (ignored when read back)
//   cells      u32 streams (= 1), u32 count, then per cell: i32 position, u32 1, [12 bytes for M-RoPE: i32 column, i32
//              row, i32 of a token], i32 sequence
//   shape      u32 v_trans, u32 layers, u32 rotation of K, u32 rotation of V
//   K          per layer: i32 type, u64 row bytes, one row per cell
//   V          the same (flash attention on), or transposed (off): i32 type, u32 element bytes, u32 channels, and per
//              channel one element per cell. Absent where the model keeps no V (MLA).
//
// libllama accepts damaged and shifted bytes silently, so that it gets none that verify_rows() has not checked. Pure
// functions over bytes; thread safe.

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/types.h"
#include "cache/model_memory.h"
#include "engine/media_map.h"

namespace kvkeep::engine::llama {

inline constexpr std::uint32_t kStateMagic = 0xAF143CD8;

// One K or V tensor of one layer.
struct TensorRows {
  std::int32_t type = 0;            // ggml_type
  std::uint64_t row_bytes = 0;      // bytes of one cell
  std::uint32_t element_bytes = 0;  // transposed V only: row_bytes / channels
  bool operator==(const TensorRows&) const = default;
};

// The part that is the same in every run of rows of one model with the same options. Learnt once, from a real run.
struct RowLayout {
  std::uint32_t cell_extra_bytes = 0;  // 0, or 12 (M-RoPE)
  bool v_transposed = false;           // flash attention is off
  std::uint32_t k_rotation = 0;
  std::uint32_t v_rotation = 0;
  std::vector<TensorRows> k;  // empty: all layers are windowed, so that rows are only cells
  std::vector<TensorRows> v;  // empty: no V; else as many as k
  bool operator==(const RowLayout&) const = default;

  // Bytes of one token's rows, including its cell.
  std::uint64_t bytes_per_token() const;
  // Bytes that do not depend on the number of tokens.
  std::uint64_t fixed_bytes() const;
  // Exact size of `tokens` rows.
  std::uint64_t bytes_of(std::size_t tokens) const { return fixed_bytes() + tokens * bytes_per_token(); }
  // One line that names everything above; part of the fingerprint.
  std::string canonical_text() const;
};

// Reads the layout from the rows of a non-empty sequence. kUnsupported if the bytes are not those of one plain KV cache
// (a window, recurrent state, several caches or streams).
Result<RowLayout> learn_layout(ByteSpan rows);

// Returns kDamaged unless `rows` are whole, of this layout, and have the cells of `range`: each position exactly once;
// of chunks in a plane as many cells as they have there, within their positions. `media` has the chunks of the prompt.
Status verify_rows(const RowLayout& layout, ByteSpan rows, TokenRange range, const MediaMap& media = {});

// Reads the chunks up to the end of what is stored in a piece. kDamaged if its ids are none.
Result<MediaMap> media_of(const cache::RowPiece& piece);

// Returns kDamaged unless every piece is whole and of this layout, and has the cells of its own prompt's ids.
// Preconditions: what is wanted is stored, and the pieces follow one another from `begin` on.
Status verify_pieces(const RowLayout& layout, Position begin, std::span<const cache::RowPiece> pieces);

// Joins the wanted rows of `pieces` into one run, as llama_state_seq_get_data would return them if they lay in this
// order. Sequence ids become `sequence`. Cells of a chunk in a plane are told apart by row and column, so that a piece
// may begin or end inside it. Returns the bytes used. Preconditions: every piece is verified, at least one cell is
// wanted, out.size() >= layout.bytes_of(cells that are wanted).
std::size_t join_rows(const RowLayout& layout, std::span<const cache::RowPiece> pieces, std::int32_t sequence,
                      MutableByteSpan out, const MediaMap& media = {});

}  // namespace kvkeep::engine::llama
