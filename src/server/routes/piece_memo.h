#pragma once

// Remembers the ids of texts between markers, so that a conversation that comes back longer is not tokenized again.
// Tokenizing takes some 150 ms per megabyte, looking a text up about one.

#include <vector>

#include "server/routes/text_memo.h"

namespace kvkeep::server {

// See TextMemo.
class PieceMemo : public TextMemo<std::vector<TokenId>> {
 public:
  using Ids = std::shared_ptr<const std::vector<TokenId>>;

  using TextMemo::TextMemo;
  void remember(std::string_view text, std::vector<TokenId> ids, const Tenant& tenant = kNoTenant) {
    const std::size_t bytes = ids.size() * sizeof(TokenId);
    TextMemo::remember(text, std::move(ids), bytes, tenant);
  }
};

}  // namespace kvkeep::server
