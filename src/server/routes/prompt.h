#pragma once

// From what a request asks for to the token ids of its prompt.
//
// Tokenizing takes seconds per ten megabytes, so a text that cannot fit into the context whatever its tokens are is not
// tokenized at all.

#include <cstddef>
#include <vector>

#include "base/result.h"
#include "base/types.h"
#include "server/api/request.h"
#include "server/routes/routes.h"

namespace kvkeep::server {

struct Prompt {
  std::vector<TokenId> ids;    // left empty where tokens_min shows that they are too many for the context
  std::size_t tokens_min = 0;  // their number, or a lower bound of it
};

// Takes the text or messages out of `source`. Errors of rendering and tokenizing; too long a prompt is none.
Result<Prompt> read_prompt(const Service& service, api::PromptSource& source);

}  // namespace kvkeep::server
