#pragma once

// From a query and a document to the ids that a reranking model scores: around both stand the ids that the vocabulary
// asks for, or the model's own template for them. Text of a query or document never becomes a marker.
//
// Immutable, thread safe.

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/vocabulary.h"
#include "chat/long_text.h"
#include "chat/marker_set.h"
#include "engine/embedder.h"

namespace kvkeep::server {

class RerankPrompt {
 public:
  // Both references must outlive this.
  RerankPrompt(engine::RerankFormat format, const Vocabulary& vocabulary, const chat::LongText& long_text);

  // kAborted once `gone` returns true; otherwise errors of tokenizing.
  Result<std::vector<TokenId>> ids(std::string_view query, std::string_view document,
                                   const std::function<bool()>& gone) const;

 private:
  Result<std::vector<TokenId>> plain(std::string_view text, const std::function<bool()>& gone) const;
  Result<std::vector<TokenId>> rendered(std::string_view query, std::string_view document,
                                        const std::function<bool()>& gone) const;

  const engine::RerankFormat format_;
  const Vocabulary& vocabulary_;
  const chat::LongText& long_text_;
  const chat::MarkerSet markers_;
};

}  // namespace kvkeep::server
