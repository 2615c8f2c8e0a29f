#include "server/run/calls.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <cmath>
#include <utility>

namespace kvkeep::server {

namespace {

using policy::CallWay;
using policy::DecodeWithPrefill;

bool computes_anew(const Request& request) { return request.stats.failed_calls > 0 || request.from_beginning; }

bool may_share_a_call(const Request& prefills, const std::vector<Request*>& runners) {
  if (prefills.wants_scores() || !prefills.effective.media.empty() || computes_anew(prefills)) return false;
  if (std::ranges::any_of(prefills.branches, [](const auto& branch) { return branch->sampler == nullptr; })) {
    return false;
  }
  return std::ranges::all_of(runners, [&](const Request* runner) {
    return runner->job.adapters == prefills.job.adapters && !computes_anew(*runner);
  });
}

// In one call, tiles hold tokens of runners as well: no slice is shortened so that whole tiles of the prompt are left.
policy::ScheduleView without_tiles(policy::ScheduleView view) {
  view.limits.tile_tokens = 1;
  return view;
}

void log_result(const policy::CallMeter::Result& result, std::size_t runners) {
  const bool joint = result.way == CallWay::kTogether;
  const auto level = result.changed ? spdlog::level::info : spdlog::level::debug;
  spdlog::log(level,
              "slices of prefill {} a call of the model with {} running replies{}: one call took {:.1f} % {} time",
              joint ? "share" : "do not share", runners, result.changed ? " from now on" : "",
              std::abs(result.gain) * 100, result.gain >= 0 ? "less" : "more");
}

}  // namespace

// ---- a call ----

std::vector<Request*> ModelCall::requests() const {
  std::vector<Request*> all = runners;
  if (prefills != nullptr) all.push_back(prefills);
  return all;
}

void ModelCall::drop_set_aside() {
  std::erase_if(runners, [](const Request* runner) { return runner->phase != Request::Phase::kDecode; });
}

std::vector<engine::BatchToken> ModelCall::batch(const Sequences& sequences) const {
  std::vector<engine::BatchToken> entries = decode_batch(runners, sequences);
  if (prefills == nullptr) return entries;
  const Position from = sequences[*prefills->seq].end();
  const std::vector<engine::BatchToken> of_slice = slice_batch(*prefills, {from, from + slice});
  entries.insert(entries.end(), of_slice.begin(), of_slice.end());
  return entries;
}

void ModelCall::append(Sequences& sequences) const {
  for (const Request* runner : runners) sequences.append(*runner->seq, TokenSpan(runner->effective.tokens).last(1));
  if (prefills == nullptr) return;
  if (media.chunk() != nullptr) return sequences.append_part(*prefills->seq, media.chunk()->ids, slice);
  const std::size_t held = sequences[*prefills->seq].tokens.size();
  sequences.append(*prefills->seq, TokenSpan(prefills->effective.tokens).subspan(held, slice));
}

std::vector<Request*> ModelCall::with_bad_logits(const engine::Engine& engine) const {
  std::vector<Request*> found;
  for (std::size_t i = 0; i < runners.size(); ++i) {
    if (!engine.has_finite_logits(i)) found.push_back(runners[i]);
  }
  if (prefills != nullptr && !engine.has_finite_logits(last())) found.push_back(prefills);
  return found;
}

std::vector<Request*> runners_of(const policy::ScheduleView& view, std::span<const std::unique_ptr<Request>> active) {
  std::vector<Request*> runners;
  for (const std::size_t at : policy::next_decode(view)) runners.push_back(active[at].get());
  return runners;
}

// ---- one or two ----

Calls::Calls(DecodeWithPrefill wanted, std::size_t pinned_slice_tokens, const engine::Description& model)
    : wanted_(pinned_slice_tokens > 0 ? DecodeWithPrefill::kApart : wanted), model_(model) {}

std::optional<Calls::Slice> Calls::find(const policy::ScheduleView& view,
                                        std::span<const std::unique_ptr<Request>> active,
                                        const std::vector<Request*>& runners) {
  const auto next = policy::next_slice(view);
  if (!next || !may_share_a_call(*active[next->at], runners)) return std::nullopt;
  const policy::ScheduledRequest& request = view.admitted[next->at];
  const Position prompt_end = Position{} + request.tokens;
  const Position end = Position{} + (request.held + next->tokens);
  return Slice{.request = active[next->at].get(),
               .work = {.request = active[next->at]->number,
                        .from = request.held,
                        .slice = next->tokens,
                        .runners = runners.size()},
               .left = request.tokens - request.held,
               .at_cut = end == std::min(prompt_end, request.next_cut.value_or(prompt_end))};
}

std::optional<ModelCall> Calls::begin_round(policy::ScheduleView view, std::span<const std::unique_ptr<Request>> active,
                                            const std::vector<Request*>& runners) {
  round_ = {};
  if (wanted_ == DecodeWithPrefill::kApart || runners.empty()) return std::nullopt;
  const std::optional<Slice> whole = find(without_tiles(view), active, runners);
  if (!whole) return std::nullopt;
  policy::RoundWork joint = whole->work;
  joint.slice = policy::slice_with_runners(joint.slice, joint.runners,
                                           {.batch = model_.batch_tokens, .micro_batch = model_.tokens_at_once},
                                           /*may_be_shorter=*/!whole->at_cut);
  if (joint.slice == 0) return std::nullopt;
  round_.choice = wanted_ == DecodeWithPrefill::kTogether ? policy::CallChoice{.way = CallWay::kTogether}
                                                          : meter_.next(whole->work, whole->left);
  if (round_.choice.way == CallWay::kApart) {
    if (const auto slice = find(shaped(std::move(view)), active, runners)) round_.due = slice->work;
    return std::nullopt;
  }
  round_.due = joint;
  return ModelCall{.runners = runners, .prefills = whole->request, .slice = joint.slice};
}

policy::ScheduleView Calls::shaped(policy::ScheduleView view) const {
  return round_.choice.measured ? without_tiles(std::move(view)) : view;
}

SliceTime Calls::note(const ModelCall& call, const Sequences& sequences, double ms) {
  if (call.prefills == nullptr) {
    round_.decoded += call.runners.size();
    round_.decode_ms += ms;
    return {};
  }
  const policy::RoundWork done{.request = call.prefills->number,
                               .from = sequences[*call.prefills->seq].tokens.size(),
                               .slice = call.slice,
                               .runners = round_.decoded + call.runners.size()};
  if (round_.due == done) note_round(done, round_.decode_ms + ms);
  if (!call.is_joint()) return {.ms = ms};
  const auto part = static_cast<double>(call.slice) / static_cast<double>(call.slice + call.runners.size());
  return {.ms = ms * part, .is_typical = !round_.choice.measured};
}

void Calls::note_round(const policy::RoundWork& work, double ms) {
  if (wanted_ != DecodeWithPrefill::kAuto) return;
  if (const auto result = meter_.note(work, round_.choice, ms)) log_result(*result, work.runners);
}

}  // namespace kvkeep::server
