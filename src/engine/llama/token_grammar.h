#pragma once

// A grammar over the tokens of one reply, on libllama's grammar sampler, and when it begins to hold.
//
// libllama's sampler may also wait for a trigger itself, but matches its patterns against all that was written, with a
// regular expression engine that recurses for every character: a long reply would exhaust the stack. So what was
// written is looked through here, piece by piece, and libllama's sampler is made when the trigger is there.
//
// libllama throws where a token violates the grammar, aborts the process where a reply ends too early, and asserts
// after either. Nothing of that can happen here: a token is accepted only when it was allowed before.
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

// The bytes of a token; of markers their spelling.
std::string token_piece(const llama_vocab& vocabulary, TokenId token);

class TokenGrammar {
 public:
  // kInvalid: libllama cannot read the grammar, or a forbidden token is none.
  static Result<TokenGrammar> make(const llama_vocab& vocabulary, const GrammarParams& params);

  // The grammar holds: tokens must be allowed.
  bool holds() const { return grammar_ != nullptr; }
  // Precondition: holds().
  bool allows(TokenId token) const;
  // Sets the logits of all other tokens to -infinity. False: none is left. Precondition: holds(); candidates lie by id.
  bool mask(std::vector<llama_token_data>& candidates) const;
  // Only the forbidden ones.
  void mask_forbidden(std::vector<llama_token_data>& candidates) const;
  // A token that was sampled. kInvalid: the grammar is at its end of wits; nothing may be sampled any more.
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
  SamplerHandle grammar_;          // null: not yet
  bool done_looking_ = false;      // what follows is not constrained, or already is
  bool behind_after_ = false;      // params_.after was written, or is empty
  std::deque<Written> tokens_;     // those whose bytes are in text_
  std::string text_;               // the end of what was written: as much as a beginning may need
  std::size_t searched_from_ = 0;  // in text_: triggers may stand from here on
};

}  // namespace kvkeep::engine::llama
