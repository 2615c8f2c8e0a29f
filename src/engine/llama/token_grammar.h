#pragma once

// A grammar over the tokens of one reply, on libllama's grammar sampler, and when the grammar begins to apply.
//
// libllama's sampler can also wait for a trigger, but matches its patterns against the whole reply, with a regular
// expression engine that recurses for every character: a long reply would exhaust the stack. So this class searches the
// reply piece by piece, and makes libllama's sampler when the trigger is there.
//
// libllama throws if a token violates the grammar, aborts the process if a reply ends too early, and asserts after
// either. None of that can happen here: a token is accepted only if it was allowed before.
//
// Engine thread only.

#include <deque>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "engine/llama/library.h"
#include "engine/sampling.h"

namespace kvkeep::engine::llama {

// Returns the bytes of a token; for markers their spelling.
std::string token_piece(const llama_vocab& vocabulary, TokenId token);

class TokenGrammar {
 public:
  // kInvalid if libllama cannot read the grammar, or a forbidden token is not in the vocabulary.
  static Result<TokenGrammar> make(const llama_vocab& vocabulary, const GrammarParams& params);

  // Returns true while the grammar applies: tokens must be allowed.
  bool holds() const { return grammar_ != nullptr; }
  // Precondition: holds().
  bool allows(TokenId token) const;
  // Sets other tokens' logits to -infinity. Returns false if none is left. Precondition: holds(); candidates lie by id.
  bool mask(std::vector<llama_token_data>& candidates) const;
  // Does the same for the forbidden tokens only.
  void mask_forbidden(std::vector<llama_token_data>& candidates) const;
  // Takes a token that was sampled. kInvalid if the grammar has no continuation; no more tokens may be sampled then.
  Status accept(TokenId token);

 private:
  TokenGrammar(const llama_vocab& vocabulary, const GrammarParams& params)
      : vocabulary_(&vocabulary), params_(params) {}

  struct Written {
    TokenId token = 0;
    std::size_t bytes = 0;
  };
  bool grammar_allows(TokenId token) const;
  TokenId as_grammar_reads(TokenId token) const;
  Status look_for_beginning(TokenId token);
  std::optional<std::size_t> find_beginning();
  std::optional<std::size_t> find_trigger(const GrammarTrigger& trigger) const;
  void forget();
  void begin(std::size_t at);

  const llama_vocab* vocabulary_;
  GrammarParams params_;
  SamplerHandle grammar_;          // null until the grammar applies
  bool done_looking_ = false;      // the rest is not constrained, or already is
  bool behind_after_ = false;      // params_.after was in the reply, or is empty
  std::deque<Written> tokens_;     // those whose bytes are in text_
  std::string text_;               // the end of the reply: as much as a beginning may need
  std::size_t searched_from_ = 0;  // in text_: triggers may begin from here on
};

}  // namespace kvkeep::engine::llama
