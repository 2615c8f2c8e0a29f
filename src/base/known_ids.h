#pragma once

// Token ids that came from outside, from a file or from another server: whether a prompt of this model can have them.
// Ids of a prefix are compared with a prompt as far as the prompt goes; those after it, and those of sampled turns, are
// whatever their writer wrote, and a vocabulary knows no text for an id that is not its own.

#include <cstddef>

#include "base/types.h"

namespace kvkeep {

// For readers that do not know how many tokens there are: any id that is not negative can be one.
inline constexpr std::size_t kAnyVocabulary = std::size_t{1} << 31;

// Returns true if all ids are tokens of the vocabulary, which has so many.
bool are_tokens(TokenSpan ids, std::size_t vocabulary_size);

// Returns true if these can be ids of a segment: tokens, and chunks of pictures or sounds. A segment may begin within a
// chunk, and end within one.
bool are_segment_ids(TokenSpan ids, std::size_t vocabulary_size);

}  // namespace kvkeep
