#pragma once

// Pictures and sounds among token ids. A projector turns a file into chunks of embeddings, which have no ids of the
// vocabulary. Everything that keeps, finds and names prefixes works on ids, so that a chunk gets made-up ones: a run of
// negative ids that name the file and everything that decides its embeddings. No pixel is kept, and known rows are
// found without decoding the file.
//
// An id holds 30 bits. Bit 31 says that it is one of these, bit 30 that a chunk begins with it. The second id of a
// chunk says how its embeddings lie in the model's memory:
//
//   bits 0-24  the positions by which the chunk moves on what comes after it
//   bit 25     the embeddings lie in a plane (M-RoPE): all of them between the chunk's first position and its
//              last, told apart by row and column; otherwise one position each
//   bits 26-28 how many ids at the end of the run are only there to hold bits of the name, and have no embedding
//   bit 29     the chunk is of a sound
//
// All other ids are bits of the name: 150 in a run of 6 ids, which is the shortest there is. So a chunk of one
// embedding, which is not told from another one by 30 bits, has 6 ids. Pure functions; thread safe.

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/hash.h"
#include "base/result.h"
#include "base/types.h"

namespace kvkeep {

// Names a file as one projector of one model sees it.
using MediaHash = Hash256<struct MediaHashTag>;

// What decides the embeddings of a file, besides its bytes.
struct MediaKey {
  FingerprintHash model;           // the key of the hash: other models share no name
  ModelHash projector;             // its file's identity
  std::uint32_t least_tokens = 0;  // limits for pictures; 0: the projector's own
  std::uint32_t most_tokens = 0;
  std::string device = {};  // the kind that encodes: embeddings of others differ in their last bits
};

// Costs one pass over the file's bytes.
MediaHash media_hash(const MediaKey& key, ByteSpan file);

// How the embeddings of a chunk lie in the model's memory.
struct ChunkShape {
  std::uint32_t embeddings = 0;  // each has a cell
  std::uint32_t positions = 0;   // by which later tokens move on; as many as embeddings unless they lie in a plane
  bool plane = false;
  bool sound = false;  // of a picture otherwise
  bool operator==(const ChunkShape&) const = default;
};

// One chunk among the ids of a prompt.
struct MediaRun {
  TokenRange range;  // its ids
  ChunkShape shape;
  bool operator==(const MediaRun&) const = default;
};

inline constexpr std::size_t kLeastMediaIds = 6;
inline constexpr std::uint32_t kMostChunkPositions = (1U << 25) - 1;

constexpr bool is_media_id(TokenId id) { return id < 0; }

// Returns the ids of the chunk numbered `index` of a file: as many as embeddings, but at least kLeastMediaIds.
// Preconditions: at least one embedding; at most kMostChunkPositions embeddings and positions; if they do not lie in a
// plane, as many positions as embeddings.
std::vector<TokenId> media_ids(const MediaHash& file, std::uint32_t index, const ChunkShape& shape);

// Finds the chunks of a prompt, in order. A prompt may end inside a chunk, which then has the embeddings whose ids are
// there. kDamaged if ids are not those that media_ids() makes.
Result<std::vector<MediaRun>> media_runs(TokenSpan prompt);

// Returns the last position at or before `at` that does not cut a chunk, where a prefix of the prompt may end. The
// embeddings of a chunk may see one another, and may share positions at which no sequence can be cut.
Position media_floor(std::span<const MediaRun> runs, Position at);

// Returns the model's own position of the id at `at` of a prompt with these chunks. It is lower than `at` where media
// lie before it: the embeddings of a chunk in a plane share positions, and ids that only hold bits of a name have none.
// Inside a chunk in a plane, it is that of the chunk.
Position model_position(std::span<const MediaRun> runs, Position at);

// Returns a chunk's kind and some bits of its name, "picture 1a2b3c4d", and the word that stands for it in texts,
// "[picture 1a2b3c4d]". `ids` begin with the chunk's.
std::string media_name(TokenSpan ids);
std::string media_word(TokenSpan ids);
// Returns true for the id that a chunk begins with.
constexpr bool begins_media(TokenId id) { return is_media_id(id) && (static_cast<std::uint32_t>(id) >> 30 & 1) != 0; }

// ---- ids that came from outside, from a file or from another server ----
//
// Ids of a prefix are compared with a prompt as far as the prompt goes; those after it, and those of sampled turns, are
// whatever their writer wrote, and a vocabulary knows no text for an id that is not its own.

// For readers that do not know how many tokens there are: any id that is not negative can be one.
inline constexpr std::size_t kAnyVocabulary = std::size_t{1} << 31;

// Returns true if all ids are tokens of the vocabulary, which has so many.
bool are_tokens(TokenSpan ids, std::size_t vocabulary_size);

// Returns true if these can be ids of a segment: tokens, and chunks of pictures or sounds. A segment may begin within a
// chunk, and end within one.
bool are_segment_ids(TokenSpan ids, std::size_t vocabulary_size);

}  // namespace kvkeep
