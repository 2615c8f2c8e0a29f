#pragma once

// Counts of the tokens of a replay: those that replies claim were computed, compared with those that the engine was
// given; and the ideals of the requests.

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "bench/report/figures.h"
#include "bench/run/server_client.h"
#include "bench/sessions/ideal.h"

namespace kvkeep::bench {

struct ClaimsCheck {
  enum class Verdict : std::uint8_t {
    kHold,     // the sum of the claims is the count
    kUnknown,  // some replies make no claim, or some decoded ids belong to none
    kDiffer,   // the claims contradict the count
  };
  Verdict verdict = Verdict::kUnknown;
  std::string problem;  // one line; empty: none
};

// `decoded` is the number of ids that libllama was given for all exchanges, which may have overlapped: prompts, and all
// ids but the last of each reply. A request that broke off may have cost anything, a refused one (400 to 499) nothing.
ClaimsCheck check_claims(const std::vector<Exchange>& exchanges, std::uint64_t decoded);

// The ideals of a replay's requests. There are two counts of what was decoded:
//
//   by ids   the server's own /apply-template and /tokenize give the prompt's ids: exact. Chat Completions and
//            Completions, as long as every prompt so far had as many ids as its reply says
//   by text  canonical text between the server's counts (ideal.h): an estimate, which knows how far it may be off
//
// The count by ids is used, unless it finds more new tokens than the text allows: then the server's prompt changed
// where the conversation did not, which counts against the server.
//
// Counts as if the server had been empty before the first session. One thread.
class ReplayIdeal {
 public:
  // For one session, all its requests together.
  struct Certainty {
    std::uint64_t off_by = 0;   // how many tokens the ideals may be wrong by, in either direction
    std::size_t estimated = 0;  // requests whose ideal is not an exact count
  };

  // `client` must outlive this.
  explicit ReplayIdeal(ServerClient& client) : client_(client) {}

  // Sets ideal_tokens of the requests that were answered, in the order of decoding: a prompt when it was sent, a reply
  // when it was complete. One exchange per request of the figures.
  Certainty fill(const std::vector<Exchange>& exchanges, RunFigures& figures);

  // Why tokens are estimated; "" if they are not.
  const std::string& no_tokens() const { return no_tokens_; }

 private:
  // Bytes per token differ more between texts than tokens do.
  static constexpr double kRoughDensityDifference = 0.5;

  IdealEstimate take_prompt(const Exchange& exchange);
  void take_reply(const Exchange& exchange);
  IdealEstimate by_text(const Exchange& exchange, std::uint64_t prompt_tokens);
  std::optional<std::uint64_t> by_ids(const Exchange& exchange, std::uint64_t prompt_tokens);
  void take_reply_ids(const Exchange& exchange, const nlohmann::ordered_json& longer, std::uint64_t decoded);
  std::vector<TokenId> tokens_of(std::string_view piece);

  ServerClient& client_;
  IdealCounter texts_;  // in the server's tokens
  IdealCounter rough_texts_{
      kRoughDensityDifference};  // in pseudo-tokens: used after the server first refuses to tokenize
  std::string no_tokens_;        // why it refused; empty: it did not
  std::map<std::string, std::vector<TokenId>, std::less<>> pieces_;  // conversations repeat theirs in every request

  DecodedPrefixes ids_;
  bool has_ids_ = true;         // of all prompts so far
  bool had_tools_ = false;      // any prompt so far
  std::uint64_t unplaced_ = 0;  // tokens of replies that the template renders after another prompt than theirs
};

}  // namespace kvkeep::bench
