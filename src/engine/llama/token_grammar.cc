#include "engine/llama/token_grammar.h"

#include <algorithm>
#include <cmath>
#include <exception>
#include <limits>
#include <utility>

#include "base/assert.h"

namespace kvkeep::engine::llama {
namespace {

constexpr float kNever = -std::numeric_limits<float>::infinity();
constexpr std::string_view kSpaces = " \t\r\n";

SamplerHandle make_grammar(const llama_vocab& vocabulary, const std::string& text) {
  return SamplerHandle(llama_sampler_init_grammar(&vocabulary, text.c_str(), "root"));
}

// Throws libllama's exceptions.
bool accept_quietly(llama_sampler& grammar, TokenId token) {
  try {
    llama_sampler_accept(&grammar, token);
    return true;
  } catch (const std::exception&) {
    return false;
  }
}

void apply(llama_sampler& grammar, llama_token_data* data, std::size_t size) {
  llama_token_data_array array{.data = data, .size = size, .selected = -1, .sorted = false};
  llama_sampler_apply(&grammar, &array);
}

}  // namespace

Result<TokenGrammar> TokenGrammar::make(const llama_vocab& vocabulary, const GrammarParams& params) {
  const auto is_token = [&](TokenId token) { return token >= 0 && token < llama_vocab_n_tokens(&vocabulary); };
  if (!std::ranges::all_of(params.forbidden, is_token)) return invalid("a forbidden token is none of the vocabulary");
  if (!std::ranges::all_of(params.tags, is_token, &TagLetter::tag) ||
      !std::ranges::all_of(params.tags, is_token, &TagLetter::letter)) {
    return invalid("a tag is no token of the vocabulary");
  }
  SamplerHandle readable = make_grammar(vocabulary, params.text);
  if (readable == nullptr) return invalid("libllama cannot read the grammar");
  TokenGrammar grammar(vocabulary, params);
  grammar.behind_after_ = params.after.empty();
  if (params.triggers.empty() && params.after.empty()) {
    grammar.grammar_ = std::move(readable);
    grammar.done_looking_ = true;
  }
  return grammar;
}

bool TokenGrammar::allows(TokenId token) const {
  if (std::ranges::find(params_.forbidden, token) != params_.forbidden.end()) return false;
  if (std::ranges::find(params_.tags, token, &TagLetter::letter) != params_.tags.end()) return false;
  return grammar_allows(as_grammar_reads(token));
}

TokenId TokenGrammar::as_grammar_reads(TokenId token) const {
  const auto found = std::ranges::find(params_.tags, token, &TagLetter::tag);
  return found == params_.tags.end() ? token : found->letter;
}

bool TokenGrammar::grammar_allows(TokenId token) const {
  llama_token_data one{.id = token, .logit = 1.0F, .p = 0.0F};
  apply(*grammar_, &one, 1);
  return one.logit > kNever;
}

void TokenGrammar::mask_forbidden(std::vector<llama_token_data>& candidates) const {
  for (const TokenId token : params_.forbidden) candidates[static_cast<std::size_t>(token)].logit = kNever;
}

bool TokenGrammar::mask(std::vector<llama_token_data>& candidates) const {
  mask_forbidden(candidates);
  std::vector<float> logits;  // of the tags: where a tag may be text, it may not be a tag, and the other way round
  for (const TagLetter& tag : params_.tags) logits.push_back(candidates[static_cast<std::size_t>(tag.tag)].logit);
  apply(*grammar_, candidates.data(), candidates.size());
  for (std::size_t i = 0; i < logits.size(); ++i) {
    const TagLetter& tag = params_.tags[i];
    candidates[static_cast<std::size_t>(tag.tag)].logit = grammar_allows(tag.letter) ? logits[i] : kNever;
    candidates[static_cast<std::size_t>(tag.letter)].logit = kNever;
  }
  return std::ranges::any_of(candidates, [](const llama_token_data& one) { return one.logit > kNever; });
}

Status TokenGrammar::accept(TokenId token) {
  if (llama_vocab_is_eog(vocabulary_, token)) return {};  // the end: no token comes after it
  if (grammar_ == nullptr) return done_looking_ ? Status() : look_for_beginning(token);
  if (accept_quietly(*grammar_, as_grammar_reads(token))) return {};
  grammar_.reset();
  return invalid("the reply broke its grammar");
}

std::string token_piece(const llama_vocab& vocabulary, TokenId token) {
  std::string text(32, '\0');
  const auto run = [&] {
    return llama_token_to_piece(&vocabulary, token, text.data(), static_cast<std::int32_t>(text.size()), 0, true);
  };
  std::int32_t length = run();
  if (length < 0) {
    text.resize(static_cast<std::size_t>(-length));
    length = run();
  }
  text.resize(static_cast<std::size_t>(std::max(length, 0)));
  return text;
}

Status TokenGrammar::look_for_beginning(TokenId token) {
  const std::string written = token_piece(*vocabulary_, token);
  tokens_.push_back({token, written.size()});
  text_ += written;
  if (const auto beginning = find_beginning()) {
    begin(*beginning);
  } else {
    forget();
  }
  return {};
}

std::optional<std::size_t> TokenGrammar::find_trigger(const GrammarTrigger& trigger) const {
  const std::size_t from = trigger.only_first ? text_.find_first_not_of(kSpaces, searched_from_) : searched_from_;
  if (from == std::string::npos) return std::nullopt;
  if (trigger.only_first)
    return text_.compare(from, trigger.text.size(), trigger.text) == 0 ? std::optional(from) : std::nullopt;
  const std::size_t at = text_.find(trigger.text, from);
  return at == std::string::npos ? std::nullopt : std::optional(at);
}

std::optional<std::size_t> TokenGrammar::find_beginning() {
  if (!behind_after_) {
    const std::size_t at = text_.find(params_.after);
    if (at == std::string::npos) return std::nullopt;
    behind_after_ = true;
    searched_from_ = at + params_.after.size();
  }
  if (params_.triggers.empty()) return searched_from_;
  std::optional<std::size_t> first;
  for (const GrammarTrigger& trigger : params_.triggers) {
    const auto at = find_trigger(trigger);
    if (at && (!first || *at < *first)) first = at;
  }
  return first;
}

// Drops text that can no longer be part of a beginning.
void TokenGrammar::forget() {
  std::size_t longest = behind_after_ ? 0 : params_.after.size();
  for (const GrammarTrigger& trigger : params_.triggers) longest = std::max(longest, trigger.text.size());
  std::size_t first_text = text_.find_first_not_of(kSpaces, searched_from_);
  if (first_text == std::string::npos) first_text = text_.size();
  if (behind_after_) {
    // A trigger that must come first is impossible once other text of its length is there.
    if (text_.size() - first_text >= longest) {
      std::erase_if(params_.triggers, [](const GrammarTrigger& trigger) { return trigger.only_first; });
      done_looking_ = params_.triggers.empty();
    }
    const bool waits_for_first = std::ranges::any_of(params_.triggers, &GrammarTrigger::only_first);
    if (waits_for_first && first_text < text_.size()) return;  // short: wait for a few more bytes
  }
  while (!tokens_.empty() && text_.size() - tokens_.front().bytes >= longest) {
    text_.erase(0, tokens_.front().bytes);
    searched_from_ -= std::min(searched_from_, tokens_.front().bytes);
    tokens_.pop_front();
  }
}

// Gives the grammar the text from byte `at` on. A token may have begun before it: a pattern that skips as many bytes
// makes libllama's own lazy sampler take the rest of that token.
void TokenGrammar::begin(std::size_t at) {
  done_looking_ = true;
  std::size_t from = 0;
  while (!tokens_.empty() && from + tokens_.front().bytes <= at) {
    from += tokens_.front().bytes;
    tokens_.pop_front();
  }
  const std::size_t skipped = tokens_.empty() ? 0 : at - from;
  if (skipped == 0) {
    grammar_ = make_grammar(*vocabulary_, params_.text);
  } else {
    const std::string pattern = "^[\\s\\S]{" + std::to_string(skipped) + "}([\\s\\S]+)$";
    const char* patterns = pattern.c_str();
    grammar_.reset(
        llama_sampler_init_grammar_lazy_patterns(vocabulary_, params_.text.c_str(), "root", &patterns, 1, nullptr, 0));
  }
  KVKEEP_ASSERT(grammar_ != nullptr, "the grammar was readable before");
  // The trigger's last token may contain more text than the trigger, with which the grammar cannot begin: then the
  // trigger does not count, and the reply continues as text.
  for (const Written& written : tokens_) {
    if (accept_quietly(*grammar_, as_grammar_reads(written.token))) continue;
    grammar_.reset();
    break;
  }
  tokens_.clear();
  text_.clear();
}

}  // namespace kvkeep::engine::llama
