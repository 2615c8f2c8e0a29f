#include "bench/run/player.h"

#include <fmt/format.h>

#include <algorithm>
#include <initializer_list>
#include <map>
#include <optional>
#include <utility>
#include <variant>

#include "bench/run/pictured_prompt.h"
#include "bench/run/server_client.h"
#include "bench/sessions/ideal.h"
#include "bench/sessions/json_fields.h"

namespace kvkeep::bench {
namespace {

constexpr int kDeathMs = 1'000;  // a server that broke a connection may be dying
constexpr int kSettleMs = 200;   // work that a server does after the last reply counts for it, too

// The server is there, understands the request, and does not do that: more choices, or a longer prompt, than it takes.
bool is_refusal(const Exchange& exchange) {
  const std::initializer_list<int> refusals = {400, 413, 422, 501};
  return exchange.broken.empty() && std::ranges::find(refusals, exchange.status) != refusals.end();
}

struct Conversation {
  Json messages = Json::array();
  std::uint32_t turns = 0;
};

std::string transcript(const Conversation& origin, std::uint32_t turns) {
  std::string text;
  for (std::size_t i = origin.messages.size() - 2 * std::size_t{turns}; i < origin.messages.size(); ++i) {
    const Json& quoted = origin.messages[i];
    text += fmt::format("{}{}: {}", text.empty() ? "" : "\n\n", quoted["role"].get_ref<const std::string&>(),
                        quoted["content"].get_ref<const std::string&>());
  }
  return text;
}

class Player {
 public:
  Player(const Workload& workload, const PlayedServer& server, const PlayOptions& options, ServerClient& client)
      : workload_(workload), server_(server), options_(options), client_(client) {
    RunFigures& figures = played_.figures;
    figures.workload = workload.name;
    figures.title = workload.title;
    figures.server = server.name;
    figures.counted_by = server.process == nullptr ? CountedBy::kReply : CountedBy::kEngine;
    decoded_before_ = decoded_ids();
    encoded_before_ = encoded_pieces();
  }

  // Returns the error that ended the run; place() then says where.
  Status play() {
    for (std::size_t i = 0; i < workload_.steps.size(); ++i) {
      step_number_ = i;
      TRY(std::visit([this](const auto& step) { return take(step); }, workload_.steps[i]));
    }
    check_totals();
    return {};
  }
  // Where the run ended early: at a request, or at a step before it.
  std::string place() const {
    const std::vector<RequestFigures>& requests = played_.figures.requests;
    const bool was_sent = !requests.empty() && !requests.back().error.empty();
    return was_sent ? fmt::format("request {} ({})", requests.size(), label_)
                    : fmt::format("{}, before request {}", label_, requests.size() + 1);
  }
  Played& played() { return played_; }

 private:
  Status take(const DefineSystem& step) {
    label_ = "system " + step.name;
    TRY_ASSIGN(systems_[step.name], client_.text(label_, step.tokens));
    return {};
  }
  Status take(const OpenConversation& step) {
    open(step.name, step.system);
    return {};
  }
  Status take(const Branch& step) {
    const Json& origin = conversations_.at(step.origin).messages;
    Conversation branch{.turns = step.turns};
    for (std::size_t i = 0; i < 1 + 2 * std::size_t{step.turns}; ++i) branch.messages.push_back(origin[i]);
    conversations_[step.name] = std::move(branch);
    return {};
  }
  Status take(const Turn& step) { return take_turn(step.conversation, step.tokens, ""); }
  Status take(const Show& step) { return take_turn(step.conversation, step.tokens, step.picture); }
  // `picture`: empty for none.
  Status take_turn(const std::string& name, std::uint32_t tokens, const std::string& picture) {
    Conversation& conversation = conversations_.at(name);
    label_ = fmt::format("turn {} {}", name, conversation.turns + 1);
    TRY_ASSIGN(const std::string words, client_.text(fmt::format("{} {}", step_number_, label_), tokens));
    conversation.messages.push_back(picture.empty() ? chat_message("user", words) : picture_message(picture, words));
    TRY_ASSIGN(const std::string reply, ask(conversation.messages));
    conversation.messages.push_back(chat_message("assistant", reply));
    ++conversation.turns;
    return {};
  }
  Status take(const Quote& step) {
    label_ = "quote " + step.name;
    Conversation& conversation = open(step.name, step.system);
    conversation.messages.push_back(chat_message("user", transcript(conversations_.at(step.origin), step.turns)));
    TRY(ask(conversation.messages));
    return {};
  }
  Status take(const KillServer& step) {
    if (server_.process == nullptr) return {};  // not started by the bench, so not to be killed
    label_ = fmt::format("kill {}", played_.figures.kills + 1);
    server_.process->wait(static_cast<int>(1e3 * step.wait_seconds));
    if (const std::string death = server_.process->death(); !death.empty()) return io_error("the server " + death);
    ++played_.figures.kills;
    return server_.process->restart_after_kill();
  }

  Conversation& open(const std::string& name, const std::string& system) {
    Conversation& opened = conversations_[name];
    opened.messages = Json::array({chat_message("system", systems_.at(system))});
    return opened;
  }

  // Asks, counts and checks; returns the reply's text.
  Result<std::string> ask(const Json& messages) {
    RequestFigures request;
    request.label = label_;
    TRY_ASSIGN(const PicturedPrompt asked, PicturedPrompt::read(client_, messages));
    const Json sent = with_files(messages);
    const std::uint64_t decoded_before = decoded_ids();
    Exchange exchange = client_.chat(
        sent,
        {.reply_tokens = workload_.reply_tokens, .choices = workload_.choices, .cache_prompt = options_.cache_prompt});
    if (!exchange.answered()) return give_up(request, exchange);
    const std::uint64_t decoded = decoded_ids() - decoded_before;
    decoded_in_requests_ += decoded;
    TRY_ASSIGN(const std::vector<TokenId> sampled, client_.tokenize(exchange.facts.text));
    const ReplyFacts& facts = claims_of_all_choices(exchange.facts, sampled.size());
    if (asked.pictures() > 0 && picture_tokens_ == 0) learn_of_pictures(asked, facts);
    const std::vector<TokenId> prompt = asked.ids(picture_tokens_);
    played_.encoded_pieces = encoded_pieces() - encoded_before_;

    describe(request, exchange);
    if (exchange.total_ms() > 0) played_.own_costs.push_back(exchange.own_cpu_ms / exchange.total_ms());
    request.prompt_tokens = prompt.size();
    request.ideal_tokens = prefixes_.never_decoded(prompt);
    request.reply_tokens = facts.reply_tokens.value_or(sampled.size() * workload_.choices);
    count(request, decoded);
    check_claims(request, facts, sampled.size());
    remember(prompt, sampled);
    played_.figures.requests.push_back(std::move(request));
    played_.replies.push_back(facts.text);
    options_.on_request(played_.figures);
    return facts.text;
  }

  // Nothing of the first pictures can have been known.
  void learn_of_pictures(const PicturedPrompt& asked, const ReplyFacts& facts) {
    played_.pieces_per_picture = (encoded_pieces() - encoded_before_) / asked.pictures();
    const std::uint64_t tokens = facts.prompt_tokens.value_or(0);
    picture_tokens_ = (tokens - std::min<std::uint64_t>(tokens, asked.text_tokens())) / asked.pictures();
    if (picture_tokens_ == 0) problem("the reply's prompt_tokens leave no room for a picture");
  }

  // Timings are those of one choice, usage is that of all; but llama-server's usage of a stream counts one choice's
  // tokens, which is no claim about all.
  const ReplyFacts& claims_of_all_choices(ReplyFacts& facts, std::size_t sampled_by_one) const {
    if (workload_.choices > 1 && options_.may_refuse && facts.reply_tokens == sampled_by_one)
      facts.reply_tokens.reset();
    if (workload_.choices > 1 && facts.prompt_tokens && facts.cached_tokens)
      facts.prefilled_tokens = *facts.prompt_tokens - std::min(*facts.prompt_tokens, *facts.cached_tokens);
    return facts;
  }

  // A request without an answer is in the figures, too, and ends the run.
  Error give_up(RequestFigures& request, const Exchange& exchange) {
    request.status = exchange.broken.empty() ? exchange.status : 0;
    request.error = exchange.failure();
    played_.figures.requests.push_back(request);
    if (options_.may_refuse && is_refusal(exchange))
      played_.figures.refused = fmt::format("{}: {}", place(), request.error);
    return io_error(request.error);
  }

  static void describe(RequestFigures& request, const Exchange& exchange) {
    request.status = exchange.status;
    request.cached_tokens = exchange.facts.cached_tokens.value_or(0);
    request.claimed_prefill = exchange.facts.prefilled_tokens;
    request.cache_source = exchange.facts.cache_source;
    request.ttft_ms = exchange.ttft_ms;
    request.total_ms = exchange.total_ms();
    const double decode_ms = request.total_ms - request.ttft_ms;
    const std::uint64_t tokens = exchange.facts.reply_tokens.value_or(0);
    if (tokens > 1 && decode_ms > 0)
      request.decode_tokens_per_second = 1e3 * static_cast<double>(tokens - 1) / decode_ms;
  }

  void count(RequestFigures& request, std::uint64_t decoded) {
    CountedBy& counted_by = played_.figures.counted_by;
    // The last token of each choice is not fed back.
    const std::uint64_t fed_back =
        request.reply_tokens - std::min<std::uint64_t>(request.reply_tokens, workload_.choices);
    if (counted_by == CountedBy::kEngine && !server_.process->is_counted()) {
      counted_by = CountedBy::kReply;
      if (options_.must_be_counted) {
        problem(
            "the engine was not seen, so that nothing was counted: can libraries be preloaded from the temporary "
            "directory (no space or colon in its path, not mounted with noexec)?");
      }
    }
    if (counted_by == CountedBy::kReply) {
      // A server must not gain by silence.
      request.prefilled_tokens = request.claimed_prefill.value_or(request.prompt_tokens);
      if (!request.claimed_prefill) {
        problem("the reply does not say how many tokens were prefilled: the whole prompt counts");
      }
      return;
    }
    if (decoded < fed_back) {
      problem(fmt::format("the reply has {} tokens, the engine saw {} ids", request.reply_tokens, decoded));
    }
    request.prefilled_tokens = decoded < fed_back ? 0 : decoded - fed_back;
  }

  // A reply must claim what the engine saw; a reply without claims is not wrong.
  void check_claims(const RequestFigures& request, const ReplyFacts& facts, std::size_t sampled) {
    const auto check = [this](const char* what, std::optional<std::uint64_t> claimed, const char* who,
                              std::uint64_t counted) {
      if (claimed && *claimed != counted) {
        problem(fmt::format("the reply says {} {}, {} {}", what, *claimed, who, counted));
      }
    };
    constexpr char kPrompt[] = "the prompt has";
    check("prompt_tokens", facts.prompt_tokens, kPrompt, request.prompt_tokens);
    if (facts.cached_tokens && facts.prefilled_tokens) {
      check("cached and prefilled tokens", *facts.cached_tokens + *facts.prefilled_tokens, kPrompt,
            request.prompt_tokens);
    }
    check("prefilled tokens", facts.prefilled_tokens, "the engine saw", request.prefilled_tokens);
    if (options_.text_is_exact) {
      check("completion_tokens", facts.reply_tokens, "its text has", sampled * workload_.choices);
    }
  }

  // Checks facts that no single request shows: work between requests, and state from before the first.
  void check_totals() {
    RunFigures& figures = played_.figures;
    const std::uint64_t decoded = decoded_ids() - decoded_before_;
    if (figures.counted_by == CountedBy::kEngine && decoded > decoded_in_requests_) {
      figures.problems.push_back(fmt::format("{} ids were decoded outside of requests and are not in the ratio",
                                             decoded - decoded_in_requests_));
    }
    if (figures.prefilled_tokens() < figures.ideal_tokens()) {
      figures.problems.push_back(
          fmt::format("{} of {} new tokens were not computed{}", figures.ideal_tokens() - figures.prefilled_tokens(),
                      figures.ideal_tokens(),
                      figures.counted_by == CountedBy::kEngine ? ": the server knew them from before this run"
                                                               : ", say its replies: it knew them from before this run,"
                                                                 " or they are wrong"));
    }
  }

  void remember(std::vector<TokenId> prompt, const std::vector<TokenId>& sampled) {
    if (!sampled.empty()) prompt.insert(prompt.end(), sampled.begin(), sampled.end() - 1);
    played_.decoded_prefixes += prefixes_.add(prompt);
  }

  void problem(const std::string& what) {
    played_.figures.problems.push_back(
        fmt::format("request {} ({}): {}", played_.figures.requests.size() + 1, label_, what));
  }

  std::uint64_t decoded_ids() const { return server_.process == nullptr ? 0 : server_.process->decoded_ids(); }

  std::uint64_t encoded_pieces() const { return server_.process == nullptr ? 0 : server_.process->encoded_pieces(); }

  const Workload& workload_;
  const PlayedServer& server_;
  const PlayOptions& options_;
  ServerClient& client_;
  std::size_t step_number_ = 0;
  std::string label_;
  std::map<std::string, std::string> systems_;
  std::map<std::string, Conversation> conversations_;
  DecodedPrefixes prefixes_;
  std::size_t picture_tokens_ = 0;    // of one picture; 0: none was shown yet
  std::uint64_t encoded_before_ = 0;  // by a run on the same server
  std::uint64_t decoded_before_ = 0;  // by a run on the same server
  std::uint64_t decoded_in_requests_ = 0;
  Played played_;
};

// Returns, in one line, why a run ended early and where.
std::string last_problem(const PlayedServer& server, const std::string& where, const Error& error) {
  std::string what = error.message;
  if (server.process != nullptr) {
    server.process->wait(kDeathMs);
    if (const std::string death = server.process->death(); !death.empty()) {
      what = fmt::format("the server {}; its log ends: {}", death, server.process->log_tail());
    }
  }
  return fmt::format("{}: {}; the rest was not played", where, what);
}

// A wrapper script computes nothing itself.
std::optional<double> cpu_seconds_of(const PlayedServer& server) {
  if (server.process == nullptr || server.process->ended()) return std::nullopt;
  server.process->wait(kSettleMs);
  const auto seconds = server.process->served_cpu_seconds();
  return seconds && *seconds > 0 ? std::optional(*seconds) : std::nullopt;
}

}  // namespace

Result<Played> play(const Workload& workload, const PlayedServer& server, const PlayOptions& options,
                    Interrupt& interrupt) {
  const std::string& url = server.process == nullptr ? server.base_url : server.process->base_url();
  TRY_ASSIGN(const auto client, ServerClient::make({.base_url = url, .keeps_connection = true}, interrupt));
  Player player(workload, server, options, *client);
  const Status status = player.play();
  TRY(interrupt.check());
  RunFigures& figures = player.played().figures;
  if (!figures.refused.empty()) return std::move(player.played());
  if (!status) figures.problems.push_back(last_problem(server, player.place(), status.error()));
  figures.server_cpu_s = cpu_seconds_of(server);
  return std::move(player.played());
}

}  // namespace kvkeep::bench
