#include "base/known_ids.h"

#include <algorithm>

#include "base/media_ids.h"

namespace kvkeep {

bool are_tokens(TokenSpan ids, std::size_t vocabulary_size) {
  return std::ranges::all_of(ids,
                             [&](TokenId id) { return id >= 0 && static_cast<std::size_t>(id) < vocabulary_size; });
}

bool are_segment_ids(TokenSpan ids, std::size_t vocabulary_size) {
  const auto is_possible = [&](TokenId id) {
    return is_media_id(id) || static_cast<std::size_t>(id) < vocabulary_size;
  };
  if (!std::ranges::all_of(ids, is_possible)) return false;
  if (std::ranges::none_of(ids, is_media_id)) return true;
  if (media_runs(ids).ok()) return true;
  // The chunk may have begun in the segment before: a restore reads both together, and takes ids that do not fit for
  // damage.
  const auto first = std::ranges::find_if_not(ids, is_media_id);
  return media_runs(ids.subspan(static_cast<std::size_t>(first - ids.begin()))).ok();
}

}  // namespace kvkeep
