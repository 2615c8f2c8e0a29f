#include "server/run/trace.h"

#include <algorithm>
#include <utility>

#include "server/run/request_log.h"

namespace kvkeep::server {

namespace {

// Cuts kept between two traces; more than all sequences of a busy server make when they leave.
constexpr std::size_t kMostIdleCuts = 256;

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

// ---- while requests run ----

std::unique_ptr<RequestTrace> RequestTraces::begin() const {
  if (sink_ == nullptr) return nullptr;
  auto trace = std::make_unique<RequestTrace>();
  trace->arrived_ns = clock_.wall_ns();
  return trace;
}

void RequestTraces::add(RequestTrace* request, TraceCut cut) {
  if (sink_ == nullptr) return;
  if (request != nullptr) return request->add(cut);
  cut.idle = true;
  if (idle_cuts_.size() < kMostIdleCuts) idle_cuts_.push_back(cut);
}

void RequestTraces::end(std::unique_ptr<RequestTrace> made, const Job& job, const EndedRequest& ended,
                        TokenSpan reply) {
  if (made == nullptr) return;
  RequestTrace trace = std::move(*made);
  trace.id = job.id;
  trace.kind = job.kind;
  trace.origin = job.origin;
  trace.cache_prompt = job.cache_prompt;
  trace.tenant = job.tenant;
  trace.stats = ended.stats;
  trace.started = ended.started;
  trace.sent_tokens = job.prompt.size();
  trace.finish = ended.how;
  if (ended.error) trace.error = ended.error->message;
  trace.found = ended.found;
  if (trace.origin != nullptr && trace.origin->with_prompt) trace.reply = copy(reply);
  for (const TraceCut& cut : std::exchange(idle_cuts_, {})) trace.add(cut);
  sink_->on_request(std::move(trace));
}

}  // namespace kvkeep::server
