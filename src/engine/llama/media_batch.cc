#include "engine/llama/media_batch.h"

namespace kvkeep::engine::llama {

bool has_plane_positions(const llama_model& model) {
  const llama_rope_type type = llama_model_rope_type(&model);
  return type == LLAMA_ROPE_TYPE_MROPE || type == LLAMA_ROPE_TYPE_IMROPE;
}

MediaBatch::MediaBatch(const llama_model& model, llama_seq_id seq, llama_pos first, const MediaChunk& chunk)
    : position_parts_(has_plane_positions(model) ? 4 : 1),
      embedding_size_(static_cast<std::size_t>(llama_model_n_embd_inp(&model))),
      first_(first),
      chunk_(chunk),
      seq_(seq) {}

llama_pos MediaBatch::position(std::size_t part, std::size_t index) const {
  if (part == 3) return 0;
  if (chunk_.places.empty()) return first_ + static_cast<llama_pos>(index);
  const PlanePlace& place = chunk_.places[index];
  return first_ + static_cast<llama_pos>(part == 0 ? place.time : part == 1 ? place.row : place.column);
}

llama_batch MediaBatch::part(std::size_t begin, std::size_t count, bool is_last) {
  positions_.clear();
  for (std::size_t part = 0; part < position_parts_; ++part) {
    for (std::size_t i = 0; i < count; ++i) positions_.push_back(position(part, begin + i));
  }
  sequence_counts_.assign(count, 1);
  sequences_.assign(count, &seq_);
  logits_.assign(count, 0);
  if (is_last) logits_.back() = 1;
  // libllama only reads the embeddings.
  auto* embeddings = const_cast<float*>(chunk_.embeddings.data()) + begin * embedding_size_;
  return {.n_tokens = static_cast<std::int32_t>(count),
          .token = nullptr,
          .embd = embeddings,
          .pos = positions_.data(),
          .n_seq_id = sequence_counts_.data(),
          .seq_id = sequences_.data(),
          .logits = logits_.data()};
}

}  // namespace kvkeep::engine::llama
