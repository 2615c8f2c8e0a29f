#pragma once

// From a rendered prompt to token ids.
//
// Markers go in by id. The text between two markers is tokenized in one piece, whatever spans it consists of, so that
// ids do not change where template text and message text meet. Text that spells a marker is cut inside that spelling,
// and only there, where the tokenizer would otherwise make the marker of it; which spellings need that is a property of
// the vocabulary, so the same text always gets the same ids.
//
// Thread safe: only the arguments are touched.

#include <functional>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/types.h"
#include "base/vocabulary.h"
#include "chat/marker_set.h"
#include "chat/render.h"

namespace kvkeep::chat {

// Ids of the text between two markers, as tokenize_plain gives them. Tokenizing costs most on the way from messages to
// ids, and all but the newest of these texts were in the request before: a caller that remembers them passes a function
// that looks them up.
using TokenizePiece = std::function<Result<std::vector<TokenId>>(std::string_view text)>;

// The ids of a picture or sound, by its number.
using MediaIds = std::function<Result<std::vector<TokenId>>(std::size_t number)>;

// The ids of a prompt; BOS is put first if the vocabulary wants it and the prompt does not start with it.
// kUnsupported if text spells a marker that this vocabulary cannot write as text. Precondition: `media_ids` is there if
// the prompt has pictures or sounds.
Result<std::vector<TokenId>> tokenize_prompt(const Vocabulary& vocabulary, const MarkerSet& markers,
                                             const RenderedPrompt& prompt, const TokenizePiece& tokenize_piece,
                                             const MediaIds& media_ids = {});
Result<std::vector<TokenId>> tokenize_prompt(const Vocabulary& vocabulary, const MarkerSet& markers,
                                             const RenderedPrompt& prompt);

// Text without any marker in the result. Errors as tokenize_prompt.
Result<std::vector<TokenId>> tokenize_plain(const Vocabulary& vocabulary, const MarkerSet& markers,
                                            std::string_view text);

}  // namespace kvkeep::chat
