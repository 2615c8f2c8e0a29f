#include "policy/plan.h"

#include <algorithm>
#include <tuple>

#include "policy/cached_prefix.h"

namespace kvkeep::policy {

namespace {

// One way to start, with the residents that must leave for it.
struct Option {
  Plan plan;
  bool has_sequence = false;
  bool fits = false;
  std::int64_t last_use_lost_ns = INT64_MIN;  // the latest use of those that leave
  bool good() const { return has_sequence && fits; }
};

class Planner {
 public:
  explicit Planner(const PlanView& view) : view_(view), prefix_(choose_prefix(view)) {
    for (const Resident& resident : view.residents) {
      (resident.idle ? idle_ : running_).push_back(&resident);
    }
    std::ranges::sort(idle_, {},
                      [](const Resident* resident) { return std::tuple(resident->last_used_ns, resident->seq); });
  }

  Plan make() const {
    const Option option = choose();
    Plan plan = option.plan;
    if (!option.good() && !running_.empty()) {
      plan.start = Plan::Start::kWait;
      return plan;
    }
    keep_few_idle_cells(plan);
    plan.restored_to = prefix_.to;
    plan.point = prefix_.point;
    plan.load_too_slow = prefix_.too_slow;
    return plan;
  }

 private:
  std::size_t cells_needed(Position from_memory) const {
    const std::size_t spare = view_.cells_total > view_.prompt_tokens ? view_.cells_total - view_.prompt_tokens : 0;
    return view_.prompt_tokens - from_memory.value() + std::min(view_.reply_room, spare);
  }

  Option choose() const {
    const Resident* source = prefix_.source;
    if (source == nullptr) return option(Plan::Start::kFresh);
    if (!source->idle) return option(Plan::Start::kFork);
    if (extends(*source, prefix_.from_memory)) return option(Plan::Start::kInPlace);
    const Option fork = option(Plan::Start::kFork);
    const bool fair = fork.last_use_lost_ns <= source->last_used_ns && left_behind(*source) <= view_.idle_cells;
    return fork.good() && (fair || !source->captured) ? fork : option(Plan::Start::kInPlace);
  }

  // Cells beyond the shared prefix, which an idle source keeps when it is forked. Any two conversations share a few
  // tokens of their template, so without counting these the last one would always stay.
  std::size_t left_behind(const Resident& source) const {
    return std::min<std::size_t>(source.cells_owned, source.length - prefix_.from_memory);
  }

  Option option(Plan::Start start) const;
  void keep_few_idle_cells(Plan& plan) const;

  const PlanView& view_;
  const CachedPrefix prefix_;
  std::vector<const Resident*> idle_;  // least recently used first
  std::vector<const Resident*> running_;
};

// Makes room by letting idle residents leave, those first whose leaving frees something.
class MakeRoom {
 public:
  MakeRoom(Option& option, std::size_t needed, std::size_t available)
      : option_(option), needed_(needed), available_(available) {}

  bool enough() const { return option_.has_sequence && available_ >= needed_; }
  void leave(const Resident& resident) {
    option_.plan.leave.push_back(resident.seq);
    option_.last_use_lost_ns = std::max(option_.last_use_lost_ns, resident.last_used_ns);
    option_.has_sequence = true;
    available_ += resident.cells_owned;
  }
  bool cells_fit() const { return available_ >= needed_; }
  bool helps(const Resident& resident) const { return !option_.has_sequence || resident.cells_owned > 0; }

 private:
  Option& option_;
  std::size_t needed_;
  std::size_t available_;
};

Option Planner::option(Plan::Start start) const {
  const Resident* source = prefix_.source;
  Option option;
  option.plan.start = start;
  if (source != nullptr) option.plan.source = source->seq;
  option.plan.from_memory = prefix_.from_memory;
  const bool in_place = start == Plan::Start::kInPlace;
  option.has_sequence = in_place || view_.sequence_free;
  const std::size_t needed = cells_needed(option.plan.from_memory);
  // Forks share prefixes, so what a sequence owns is its end: truncation frees that first.
  const std::size_t truncated =
      in_place ? std::min<std::size_t>(source->cells_owned, source->length - option.plan.from_memory) : 0;
  MakeRoom room(option, needed, view_.cells_free + truncated);
  std::vector<const Resident*> useless;
  for (const Resident* resident : idle_) {
    if (resident == source || room.enough()) continue;
    room.helps(*resident) ? room.leave(*resident) : useless.push_back(resident);
  }
  for (const Resident* resident : useless) {
    if (!room.enough()) room.leave(*resident);
  }
  option.fits = room.cells_fit();
  if (!option.fits && running_.empty()) {
    // All residents left, so the cells they shared with each other are free too: count from the other side.
    const Position kept = source == nullptr ? Position{} : in_place ? option.plan.from_memory : source->length;
    option.fits = view_.cells_total >= kept.value() + needed;
  }
  return option;
}

// Idle residents whose rows are captured leave, least recently used first, until the rest hold no more than allowed.
void Planner::keep_few_idle_cells(Plan& plan) const {
  std::vector<const Resident*> staying;
  std::size_t cells = 0;
  for (const Resident* resident : idle_) {
    const bool is_source = plan.start != Plan::Start::kFresh && resident->seq == plan.source;
    if (is_source && plan.start == Plan::Start::kFork && resident->captured) cells += left_behind(*resident);
    if (is_source || !resident->captured || std::ranges::find(plan.leave, resident->seq) != plan.leave.end()) continue;
    staying.push_back(resident);
    cells += resident->cells_owned;
  }
  for (const Resident* resident : staying) {
    if (cells <= view_.idle_cells) return;
    if (resident->cells_owned == 0) continue;  // frees nothing: all it holds is shared
    plan.leave.push_back(resident->seq);
    cells -= resident->cells_owned;
  }
}

}  // namespace

Plan make_plan(const PlanView& view) { return Planner(view).make(); }

}  // namespace kvkeep::policy
