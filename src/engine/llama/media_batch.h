#pragma once

// The embeddings of one chunk in the form in which libllama takes a batch: without ids, and for models whose positions
// have several parts (M-RoPE) with all of them, part by part: time, row, column, and one that is not used.

#include <vector>

#include "engine/engine.h"
#include "engine/llama/library.h"

namespace kvkeep::engine::llama {

// Returns true if positions of the model have several parts.
bool has_plane_positions(const llama_model& model);

class MediaBatch {
 public:
  // `first` is libllama's position of the chunk. The embeddings must outlive the batch.
  MediaBatch(const llama_model& model, llama_seq_id seq, llama_pos first, const MediaChunk& chunk);

  // Returns `count` embeddings from `begin` on; with `is_last` logits are wanted after the last one. Valid until the
  // next call.
  llama_batch part(std::size_t begin, std::size_t count, bool is_last);

 private:
  llama_pos position(std::size_t part, std::size_t index) const;

  std::size_t position_parts_;  // 4 with M-RoPE, else 1
  std::size_t embedding_size_;
  llama_pos first_;
  const MediaChunk& chunk_;

  // Of the part, as libllama refers to them.
  llama_seq_id seq_;
  std::vector<llama_pos> positions_;
  std::vector<std::int32_t> sequence_counts_;
  std::vector<llama_seq_id*> sequences_;
  std::vector<std::int8_t> logits_;
};

}  // namespace kvkeep::engine::llama
