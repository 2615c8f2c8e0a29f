#pragma once

// Calls of the model, and which of a round's work goes into one: the tokens of all running requests, and a slice of one
// prompt. policy/call_meter.h decides between one call and two by the times that both took. Engine thread only.
//
// Two calls are made in any case where one would not do the same work: where slices end at fixed places so that text is
// repeatable, for requests under other scales of adapters than the slice's, for prompts with media or with scores,
// while samplers of further replies are being made, and for requests that a failed call or NaN made compute once more:
// a second failure shall end only the request that it comes from.

#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "engine/engine.h"
#include "policy/call_meter.h"
#include "policy/next_call.h"
#include "server/run/encoded_media.h"
#include "server/run/request.h"
#include "server/run/sequences.h"

namespace kvkeep::server {

// How long the slice of a call took.
struct SliceTime {
  double ms = 0;           // of a joint call: the slice's part, by tokens
  bool is_typical = true;  // false: the way was only tried, and says little about slices to come
  // With what came after it.
  std::optional<double> typical_ms(double after_ms = 0) const {
    return is_typical ? std::optional(ms + after_ms) : std::nullopt;
  }
};

// A token of each runner, a slice of a prompt, or both. The runners' tokens come first, in order of admission.
struct ModelCall {
  std::vector<Request*> runners = {};  // all under the same scales of adapters, as `prefills`
  Request* prefills = nullptr;         // null: no slice
  std::size_t slice = 0;               // tokens of its prompt, from the end of its sequence on
  MediaSlice media = {};               // of a call without runners
  SliceTime slice_time = {};           // once the call was made

  bool empty() const { return runners.empty() && prefills == nullptr; }
  bool is_joint() const { return !runners.empty() && prefills != nullptr; }
  // The oldest runner, or the one that prefills if there is none. Precondition: not empty.
  Request& first() const { return runners.empty() ? *prefills : *runners.front(); }
  std::vector<Request*> requests() const;
  std::vector<engine::BatchToken> batch(const Sequences& sequences) const;
  // Runners that gave their cells to an older one leave the call.
  void drop_set_aside();
  // The call was made: the sequences have its tokens.
  void append(Sequences& sequences) const;
  // The entry of the slice's last logits.
  std::size_t last() const { return media.chunk() != nullptr ? 0 : runners.size() + slice - 1; }
  // Returns the requests whose logits are not finite, once the call was made.
  std::vector<Request*> with_bad_logits(const engine::Engine& engine) const;
};

// The requests that decode in this round.
std::vector<Request*> runners_of(const policy::ScheduleView& view, std::span<const std::unique_ptr<Request>> active);

class Calls {
 public:
  // `model` must outlive this. `pinned_slice_tokens` > 0: slices end at multiples of it.
  Calls(policy::DecodeWithPrefill wanted, std::size_t pinned_slice_tokens, const engine::Description& model);

  // A round begins, in which `runners` decode. Returns the call that they share with the next slice; nullopt if that
  // has a call of its own, or there is none.
  std::optional<ModelCall> begin_round(policy::ScheduleView view, std::span<const std::unique_ptr<Request>> active,
                                       const std::vector<Request*>& runners);
  // The view from which the slice of a round with two calls is chosen: if the round is measured, its slice has the
  // shape that it would have in one call.
  policy::ScheduleView shaped(policy::ScheduleView view) const;
  // A call found too few cells, so that its time says little.
  void note_no_cells() { round_.due.reset(); }
  // A call was made, whose tokens the sequences do not have yet.
  SliceTime note(const ModelCall& call, const Sequences& sequences, double ms);

 private:
  struct Round {
    std::optional<policy::RoundWork> due;  // what is to be measured, if anything is
    policy::CallChoice choice;
    std::size_t decoded = 0;  // tokens of runners
    double decode_ms = 0;
  };
  // The next slice, which may share a call with the runners.
  struct Slice {
    Request* request = nullptr;
    policy::RoundWork work;
    std::size_t left = 0;  // tokens that the prompt lacks
    bool at_cut = false;   // it ends where one must end
  };
  static std::optional<Slice> find(const policy::ScheduleView& view, std::span<const std::unique_ptr<Request>> active,
                                   const std::vector<Request*>& runners);
  void note_round(const policy::RoundWork& work, double ms);

  const policy::DecodeWithPrefill wanted_;
  const engine::Description& model_;
  policy::CallMeter meter_;
  Round round_;
};

}  // namespace kvkeep::server
