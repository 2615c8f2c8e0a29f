#pragma once

// Where the ids of one sequence lie in the model's memory if there are pictures and sounds among them.
//
// A Position counts ids from the start of the prompt, and each id has a cell of the model's memory. The library counts
// otherwise in two cases: the embeddings of a chunk that lies in a plane (M-RoPE) share positions, and the ids that a
// short chunk has only for its name have no cell (base/media_ids.h). Such chunks are noted here; without any, both
// counts are the same. Pure, a few bytes per chunk, not thread safe.

#include <cstdint>
#include <span>
#include <vector>

#include "base/media_ids.h"
#include "base/types.h"

namespace kvkeep::engine {

// Cells of which the library's positions are known: of tokens, each at the next one (`plane` false), or some of a chunk
// in a plane, all of them within `positions` from `first` on.
struct CellSpan {
  std::int32_t first = 0;
  std::uint32_t cells = 0;
  std::uint32_t positions = 0;
  bool plane = false;
  bool operator==(const CellSpan&) const = default;
};

class MediaMap {
 public:
  MediaMap() = default;
  // The chunks of a prompt, ascending, apart.
  explicit MediaMap(std::span<const MediaRun> runs);

  // Returns true if both counts are the same at every position.
  bool empty() const { return runs_.empty(); }
  // Notes a chunk after all others.
  void append(const MediaRun& run);
  // Forgets the chunks that begin at `end` or later.
  void truncate(Position end);
  MediaMap prefix(Position end) const;

  // Returns true if `at` lies inside a chunk, so that no sequence may end there.
  bool cuts(Position at) const;
  // Returns the library's position of the id at `at`, which may lie after everything noted; inside a chunk in a plane,
  // that of the chunk.
  std::int32_t to_library(Position at) const;
  // Returns true if `last` may be the library's last position of a sequence that ends at `end`.
  bool may_end(Position end, std::int32_t last) const;
  // Returns how many cells the ids of a range have.
  std::size_t cells(TokenRange range) const;
  // Returns true if the ids of a range have one cell and one of the library's positions each.
  bool counts_alike(TokenRange range) const;
  // Returns the smallest range around this one that cuts no chunk.
  TokenRange whole(TokenRange range) const;
  // Returns the cells of a range, in the order of ids: neighbouring tokens as one span.
  std::vector<CellSpan> spans(TokenRange range) const;

 private:
  std::vector<MediaRun> runs_;  // only chunks by which the counts differ
};

}  // namespace kvkeep::engine
