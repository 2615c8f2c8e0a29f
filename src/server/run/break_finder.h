#pragma once

// Finds out why a request reuses no more than it does: collects the facts, and explain/cache_break.h decides.
//
// Engine thread only. Cost: 0.5 ms at most after 100,000 tokens (server/run/break_bench.cc), most of it comparing the
// two prompts after their first difference.

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "explain/cache_break.h"
#include "server/run/found_break.h"
#include "server/run/trace.h"

namespace kvkeep::cache {
class Cache;
}

namespace kvkeep::server {

struct EffectiveTokens;

// The parts of a prompt, and its number of tokens; a reply may follow them.
struct PromptWithParts {
  std::shared_ptr<const PromptParts> parts = nullptr;  // null: not known
  std::size_t tokens = 0;
};

// Remembers what each client sent and received lately, so that a difference shows a client only text of its own:
// prompts with their replies, by the client's number (Asker::owner), the newest only.
class OwnPrompts {
 public:
  static constexpr std::size_t kMostTokens = 4U << 20;
  static constexpr std::size_t kMostPrompts = 256;
  static constexpr std::size_t kMostCompared = 8;

  explicit OwnPrompts(std::size_t most_tokens = kMostTokens) : most_tokens_(most_tokens) {}

  // A prompt that goes on from a remembered one of its conversation (0: not named) takes its place. `tokens` are those
  // of the prompt and its reply.
  void remember(std::uint64_t owner, std::uint64_t conversation, TokenSpan tokens, PromptWithParts prompt = {});
  // Returns true if the owner is known to have sent or received this run of tokens after these.
  bool has(std::uint64_t owner, TokenSpan before, TokenSpan run) const;
  // Returns in which conversation the owner sent this run after these. Unknown if no conversation is named (0), or the
  // owner is not known to have sent the run.
  explain::KnownFrom known_from(std::uint64_t owner, std::uint64_t conversation, TokenSpan before, TokenSpan run) const;
  // Returns the parts of the newest prompt, of any owner, that has this run after these; null if none is remembered.
  // They stay until another prompt is remembered.
  const PromptWithParts* parts_of(TokenSpan before, TokenSpan run) const;
  // Returns how many other texts the owner sent where this prompt has its own (explain::OtherValues).
  std::size_t values_at(std::uint64_t owner, TokenSpan prompt, Position at) const;
  // Returns how many tokens the prompt shares at most with one that the owner sent or received. Of many that share long
  // parts only the newest are looked at, until kMostCompared times the prompt's tokens were compared.
  std::size_t shared_with(std::uint64_t owner, TokenSpan prompt) const;
  std::size_t tokens() const { return tokens_; }

 private:
  struct Prompt {
    std::uint64_t owner;
    std::uint64_t conversation;
    std::vector<TokenId> tokens;
    PromptWithParts prompt;
  };

  static bool has(const Prompt& prompt, TokenSpan before, TokenSpan run);

  const std::size_t most_tokens_;
  std::size_t tokens_ = 0;
  std::deque<Prompt> prompts_;  // the oldest first
};

// With markers.
using TextOfTokens = explain::TextOfRun;
// Returns the same for people, who are to tell pictures apart: a picture or sound that begins there is
// "[media 1a2b3c4d]", with bits of its file's name (base/media_ids.h). Such a name is no text that decides: it would
// pass for a number that changes.
std::string named_text(const TextOfTokens& text, TokenSpan tokens);

struct ExplainOptions {
  TextOfTokens text = {};
  explain::ThoughtTags thoughts = {};
  // Beginnings of prompts that the directory has for other models or other flags.
  std::vector<std::vector<TokenId>> other_settings = {};
  bool shows_all = false;       // --explain-text: texts of other clients may be shown
  ExplainSink* sink = nullptr;  // outlives the scheduler; null: no request is explained later
};

// A request whose prefill begins.
struct BeginningRequest {
  const Job& job;
  const JobStats& stats;
  TokenSpan tokens;              // of the effective prompt
  const Asker* asker;            // with the parts of these tokens; null: unknown
  const Difference* difference;  // null: none
  TokenSpan known_rest;          // the known prompt from the difference on
};

class BreakFinder {
 public:
  // With null `options` nothing is explained. Both must outlive this.
  BreakFinder(const ExplainOptions* options, const cache::Cache& cache) : options_(options), cache_(cache) {}

  bool wanted() const { return options_ != nullptr; }
  // Null if nothing is explained. Call it once for each request, when its prefill begins.
  std::shared_ptr<const FoundBreak> find(const BeginningRequest& request);
  // The request has ended; the tokens are those of its effective prompt and its reply.
  void end(const Job& job, const JobStats& stats, std::shared_ptr<const FoundBreak> found,
           const EffectiveTokens& effective, std::int64_t now_ns);

 private:
  struct Visit {
    std::uint64_t session;
    Tenant tenant;
    std::vector<TokenId> beginning;
  };

  explain::BreakFacts facts_of(const BeginningRequest& request) const;
  void add_unkept(const BeginningRequest& request, explain::BreakFacts& facts) const;
  void add_texts(const BeginningRequest& request, explain::BreakFacts& facts) const;
  void add_unknown(const BeginningRequest& request, explain::BreakFacts& facts) const;
  ShownTexts shown_texts(const BeginningRequest& request) const;
  void note_visit(const BeginningRequest& request);

  const ExplainOptions* const options_;
  const cache::Cache& cache_;
  OwnPrompts own_;
  std::deque<Visit> visits_;  // of sessions that clients name, the oldest first
};

}  // namespace kvkeep::server
