#include "server/run/trace.h"

#include <algorithm>
#include <utility>

#include "server/run/scheduler.h"

namespace kvkeep::server {

namespace {

// Between two traces; more than what all sequences of a busy server give when they leave.
constexpr std::size_t kMostIdleCuts = 256;

std::string_view to_string(policy::Plan::Start start) {
  switch (start) {
    case policy::Plan::Start::kFresh: return "fresh";
    case policy::Plan::Start::kInPlace: return "in-place";
    case policy::Plan::Start::kFork: return "fork";
    case policy::Plan::Start::kWait: return "wait";
  }
  return "fresh";
}

std::vector<TokenId> copy(TokenSpan tokens) { return {tokens.begin(), tokens.end()}; }

}  // namespace

void RequestTrace::add(const TraceCut& cut) {
  if (!cut.idle) {
    stored_bytes += cut.bytes;
    stored_ms += cut.ms;
  }
  if (cuts.size() == kMostCuts) {
    ++cuts_left_out;
    return;
  }
  cuts.push_back(cut);
}

std::optional<Difference> difference_at(Position at, TokenSpan prompt, TokenSpan next, bool in_memory) {
  if (next.empty() || at.value() >= prompt.size()) return std::nullopt;
  const std::size_t before = std::min<std::size_t>(at.value(), Difference::kAround);
  const TokenSpan shared = prompt.subspan(at.value() - before, before);
  const TokenSpan own = prompt.subspan(at.value());
  Difference found;
  found.at = at;
  found.begin = Position{} + (at.value() - before);
  found.prompt = copy(shared);
  found.cached = copy(shared);
  const auto go_on = [](std::vector<TokenId>& to, TokenSpan tokens) {
    const TokenSpan around = tokens.first(std::min(tokens.size(), Difference::kAround + 1));
    to.insert(to.end(), around.begin(), around.end());
  };
  go_on(found.prompt, own);
  go_on(found.cached, next);
  found.in_memory = in_memory;
  return found;
}

// ---- the scheduler's part ----

void Scheduler::begin_trace(Active& active) const {
  if (options_.trace == nullptr) return;
  active.trace = std::make_unique<RequestTrace>();
  active.trace->arrived_ns = clock_.wall_ns();
}

void Scheduler::end_trace(Active& active, Finish how, const std::optional<Error>& error) {
  if (active.trace == nullptr) return;
  RequestTrace trace = std::move(*std::exchange(active.trace, nullptr));
  trace.id = active.job.id;
  trace.kind = active.job.kind;
  trace.origin = active.job.origin;
  trace.cache_prompt = active.job.cache_prompt;
  trace.tenant = active.job.tenant;
  trace.stats = active.stats;
  trace.started = active.reported;
  trace.sent_tokens = active.job.prompt.size();
  trace.finish = how;
  if (error) trace.error = error->message;
  if (trace.origin != nullptr && trace.origin->with_prompt) {
    trace.reply = copy(TokenSpan(active.tokens).last(active.stats.predicted_tokens));
  }
  for (const TraceCut& cut : std::exchange(idle_cuts_, {})) trace.add(cut);
  options_.trace->on_request(std::move(trace));
}

void Scheduler::trace_cut(SeqId seq, TraceCut cut) {
  if (options_.trace == nullptr) return;
  const Active* active = active_on(seq);
  if (active != nullptr && active->trace != nullptr) return active->trace->add(cut);
  cut.idle = true;
  if (idle_cuts_.size() < kMostIdleCuts) idle_cuts_.push_back(cut);
}

Explanation Scheduler::explain(const Active& active, const policy::PlanView& view, policy::Plan::Start start) const {
  Explanation told;
  told.start = to_string(start);
  told.text_from = active.text_from;
  told.known = active.known;
  told.restore = view.restore;
  told.rates = view.rates;
  if (engine_.memory().shape().needs_points()) told.restorable_kind = cache::point_kind(engine_.memory().shape());
  if (!cached(active)) return told;
  told.candidates = policy::candidates(view);
  std::erase_if(told.candidates, [&](const policy::Candidate& candidate) {
    return candidate.kind == policy::Candidate::Kind::kResident && sequence(candidate.seq).tenant != active.job.tenant;
  });
  if (const std::size_t count = told.candidates.size(); count > Explanation::kMostCandidates) {
    // Of what is cached, the deepest comes last and tells most.
    told.candidates_left_out = count - Explanation::kMostCandidates;
    const auto residents =
        std::ranges::count(told.candidates, policy::Candidate::Kind::kResident, &policy::Candidate::kind);
    const std::size_t kept = std::min(static_cast<std::size_t>(residents), Explanation::kMostCandidates);
    const auto first = told.candidates.begin() + static_cast<std::ptrdiff_t>(kept);
    told.candidates.erase(first, first + static_cast<std::ptrdiff_t>(told.candidates_left_out));
  }
  told.difference = active.difference;
  told.known = std::max(told.known, told.difference ? told.difference->at : Position{});
  return told;
}

// From the known run of tokens that shares most with the prompt; of two, from the model's memory.
std::optional<Difference> Scheduler::difference(const Active& active) const {
  const Sequence* nearest = nullptr;
  std::size_t shared = 0;
  for (const Sequence& held : sequences_) {
    const std::size_t common = may_use(active, held) ? common_prefix(held.tokens, active.tokens) : 0;
    if (common > shared) {
      nearest = &held;
      shared = common;
    }
  }
  const cache::Parting parting = cache_.parting(active.tokens, SIZE_MAX, active.job.tenant);  // to its end
  const bool in_memory = nearest != nullptr && parting.at.value() <= shared;
  const TokenSpan next = in_memory ? TokenSpan(nearest->tokens).subspan(shared) : TokenSpan(parting.next);
  const Position at = in_memory ? Position{} + shared : parting.at;
  std::optional<Difference> found = difference_at(at, active.tokens, next, in_memory);
  if (found) found->known_beyond = next.size();
  return found;
}

}  // namespace kvkeep::server
