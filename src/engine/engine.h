#pragma once

// The engine port: one interface to a model, its memory and its sampler. llama/ is the real one, fake/ computes
// rows from tokens so that a wrong byte is visible.
//
// One engine thread owns an Engine. Only cancel() and the const description may be used from other threads.

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/hash.h"
#include "base/result.h"
#include "base/types.h"
#include "cache/model_memory.h"
#include "engine/sampling.h"

namespace kvkeep::engine {

// How a model's memory can be saved. Found at load from state bytes; cache::StateShape has its consequences.
enum class MemoryClass {
  kSliceable,  // full attention: any position is restorable from rows
  kWindowed,   // the same, if the last window of the sliding-window layers' rows is stored
  kHybrid,     // rows, plus a point
  kRecurrent,  // points only
  kOpaque,     // the whole state, at a point
  kUncached,   // served correctly, but its state cannot be saved
};

constexpr std::string_view to_string(MemoryClass memory_class) {
  switch (memory_class) {
    case MemoryClass::kSliceable: return "sliceable";
    case MemoryClass::kWindowed: return "windowed";
    case MemoryClass::kHybrid: return "hybrid";
    case MemoryClass::kRecurrent: return "recurrent";
    case MemoryClass::kOpaque: return "opaque";
    case MemoryClass::kUncached: return "uncached";
  }
  return "unknown";
}

struct LoraAdapter {
  std::string path;
  float scale = 1.0F;              // after the start, and in the fingerprint
  std::string task_name = {};      // of its metadata; may be empty, like the next
  std::string prompt_prefix = {};  // with which its trainer says prompts should begin
};

struct Description {
  std::string model_name;  // general.name or the file's stem
  std::string model_path;
  std::string summary;        // e.g. "llama 26M Q8_0"
  std::string devices;        // those that compute, for people: "the CPU with 2 threads"
  std::string compute_kinds;  // of these devices: rows of other kinds can differ in their last bits
  bool uses_gpu = false;
  MemoryClass memory_class = MemoryClass::kUncached;
  std::string memory_class_reason;   // one line: why this class was chosen
  std::uint32_t context_tokens = 0;  // longest prompt + reply: all cells, or those of one sequence (own_cells)
  bool own_cells = false;            // each sequence has cells of its own, always
  bool can_lay_out = false;          // Engine::lay_out(): begins with one pool
  std::string no_own_cells = {};     // one line: why not, though they were asked for
  std::uint32_t context_train_tokens = 0;
  std::uint32_t batch_tokens = 0;  // most tokens per decode call
  // Most tokens that see one another in both directions: a chunk of a picture may need that.
  std::uint32_t tokens_at_once = 0;
  std::uint32_t embedding_input_size = 0;  // numbers of one embedding of a chunk
  std::uint32_t vocabulary_size = 0;
  int vocabulary_type = 0;  // libllama's number: 1 SentencePiece, 2 BPE, 3 WordPiece...
  std::string file_type;    // how most weights are quantized: "Q8_0"
  std::uint32_t embedding_size = 0;
  std::uint64_t parameters = 0;
  std::uint64_t model_bytes = 0;
  std::uint64_t row_bytes_per_token = 0;     // 0: no rows that can be sliced
  std::uint64_t window_bytes_per_token = 0;  // of window rows; 0: none
  std::uint64_t point_bytes = 0;             // of one point; 0: none, or it grows with the position (opaque)
  FingerprintHash fingerprint;
  std::string fingerprint_text;  // the canonical fingerprint, one "name=value" per line, for logs and `--verbose`
  std::string chat_template;     // from the metadata; empty: none
  std::vector<LoraAdapter> adapters;
  std::map<std::string, std::string, std::less<>> sampling = {};  // from the metadata, see sampling_settings.h
};

struct BatchToken {
  SeqId seq;
  TokenId token = 0;
  Position at;  // the memory length of seq plus the seq's earlier tokens in this batch
  bool want_logits = false;
};

// Where an embedding lies in a chunk's plane, counted from the chunk's first position.
struct PlanePlace {
  std::uint32_t time = 0;
  std::uint32_t row = 0;
  std::uint32_t column = 0;
};

// A chunk of a picture or sound as a projector made it.
struct MediaChunk {
  TokenSpan ids;                            // as media_ids() made them
  std::span<const float> embeddings;        // embedding_input_size numbers each
  std::span<const PlanePlace> places = {};  // one per embedding if they lie in a plane
  bool at_once = false;                     // the embeddings see one another in both directions
  // Returning true while they are computed ends that with kAborted, if a processor does it; empty: nobody asks. Called
  // on the thread that decodes.
  std::function<bool()> is_unwanted = {};
  // The ids that one call computes, as far as there are so many: all, unless the chunk is computed in slices.
  std::size_t begin = 0;
  std::size_t count = SIZE_MAX;
  std::size_t end() const { return begin + std::min(count, ids.size() - begin); }
};

enum class DecodeStatus {
  kOk,       // rows of every token are in memory
  kNoCells,  // nothing changed: free cells and call again (llama_decode returned 1)
  kAborted,  // cancel() or is_unwanted(): sequences of the batch are unreliable, clear them (llama_decode returned 2)
  kFailed,   // as kAborted, because of an error (llama_decode returned less than 0)
};

// A token that could be drawn, after penalties, cuts and the temperature.
struct Candidate {
  TokenId id = 0;
  float probability = 0;
};

// Sampling state of one request. Used on the engine thread.
class Sampler {
 public:
  virtual ~Sampler() = default;
  // Shows a token of the prompt to the penalties and the like.
  virtual void accept(TokenId token) = 0;
  // Returns the tokens among which the last one was drawn, the likeliest first, at most kMostCandidates. Empty unless
  // SamplingParams::keeps_candidates is set.
  virtual std::span<const Candidate> candidates() const { return {}; }
  static constexpr std::size_t kMostCandidates = 256;
  // Returns why no token can be sampled any more: the grammar has no continuation. The last sampled token is invalid.
  virtual const std::optional<Error>& failure() const {
    static const std::optional<Error> kNone;
    return kNone;
  }
};

class Engine {
 public:
  virtual ~Engine() = default;
  virtual const Description& description() const = 0;
  // The memory that decode() writes to. Lives as long as the engine, on its thread.
  virtual cache::ModelMemory& memory() = 0;

  // Sets the scales for the next calls of decode(). A sequence must have been computed with the same ones, all of it.
  // Costs nothing if they are the last ones. Precondition: empty, or as many scales as adapters.
  virtual void use_adapters(const AdapterScales& scales) = 0;
  // Precondition: batch not empty and at most batch_tokens long.
  virtual DecodeStatus decode(std::span<const BatchToken> batch) = 0;
  // Returns false if the logits of batch entry `index` of the last decode, which wanted them, are NaN or infinite, or
  // come from a hidden state that is.
  virtual bool has_finite_logits(std::size_t index) const = 0;
  // Overwrites all cells. libllama frees a cell without that, and masks or clears its contents by products, so that a
  // NaN in it reaches the requests that are computed next to it or in it. Precondition: all sequences are empty.
  virtual void wipe() = 0;
  // Makes the memory anew: each sequence has cells of its own, or all share one pool (cache::ModelMemory::own_cells).
  // memory() stays the same object; its sequence_count() may be another. Takes as long as allocating all cells. After
  // an error the memory is as it was before. Precondition: all sequences are empty.
  virtual Status lay_out(bool /*own_cells*/) { return unsupported("the layout of this model's memory is fixed"); }
  // Puts a chunk, or a slice of it, at the end of `seq`. Leaves the logits of the last embedding as those of batch
  // entry 0, for has_finite_logits() only: a token must be decoded after the chunk. Within a chunk the sequence may
  // only be computed on, forked or cut at the chunk's beginning or before it, or cleared. Preconditions: the ids are
  // one chunk's, with as many embeddings and places as they say; `seq` has those before `chunk.begin`. A chunk whose
  // embeddings see one another, or are fewer than its ids, is computed in one call; in the former case they are at most
  // tokens_at_once.
  virtual DecodeStatus decode_media(SeqId seq, const MediaChunk& chunk) = 0;
  // Samples from the logits of batch entry `index` of the last decode (which wanted logits), and accepts the token.
  virtual TokenId sample(Sampler& sampler, std::size_t index) = 0;
  // Returns the logit of each token of the vocabulary after batch entry `index` of the last decode (which wanted them).
  // Valid until the next decode.
  virtual std::span<const float> logits(std::size_t index) const = 0;
  // kInvalid if a parameter or the grammar is wrong, kUnsupported if this engine has no grammars.
  virtual Result<std::unique_ptr<Sampler>> make_sampler(const SamplingParams& params) = 0;

  // Makes a running decode return kAborted soon, and later ones at once, until reset_cancel(). Any thread.
  virtual void cancel() = 0;
  virtual void reset_cancel() = 0;

  // Counts the tokens of successful decode calls since start. Any thread.
  virtual std::uint64_t tokens_decoded() const = 0;
};

}  // namespace kvkeep::engine
