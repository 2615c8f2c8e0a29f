#pragma once

// The parts of a random history: steps, the settings under which they are taken, and mistakes that must be noticed.

#include <fmt/format.h>

#include <functional>
#include <ostream>

#include "server/run/history_rates_fixture.h"
#include "server/run/history_world_fixture.h"

namespace kvkeep::server {

enum class Does {
  kNewTalk,
  kContinue,
  kBranch,
  kResend,
  kChangeMiddle,
  kDropThinking,
  kSideRequest,
  kUncached,
  kSeveral,
  kWrite,
  kRestart,
  kKill,
  kDamage,  // of files; this step and the next ones occur only in rough histories
  kFault,   // of the engine
};

// The meaning of a, b and c depends on the step; they are taken modulo the number of choices.
struct Step {
  Does does = Does::kNewTalk;
  std::uint32_t a = 0;
  std::uint32_t b = 0;
  std::uint32_t c = 0;
};
inline std::ostream& operator<<(std::ostream& out, const Step& step) {
  static constexpr const char* kNames[] = {"new_talk",      "continue", "branch",   "resend",  "change_middle",
                                           "drop_thinking", "side",     "uncached", "several", "write",
                                           "restart",       "kill",     "damage",   "fault"};
  return out << kNames[static_cast<int>(step.does)] << "(" << step.a << "," << step.b << "," << step.c << ")";
}

// The settings of a story, chosen small so that they shrink.
struct Setting {
  bool disk = true;
  bool small_cells = false;
  bool own_cells = false;  // each sequence has as many as else all have together
  bool joint = false;      // replies share calls of the model with slices
  bool small_ram = false;
  bool small_disk = false;
  std::uint32_t parallel = 1;
  std::uint32_t sequences = 6;
  std::uint32_t batch = 512;
  bool frontiers = false;         // points at intervals
  bool text = false;              // prompts match as text, too, and replies come back as such
  std::uint32_t most_points = 0;  // on one path; 0: no limit
  std::uint32_t least_step = 32;
  Loads loads = Loads::kAlways;
};
inline std::ostream& operator<<(std::ostream& out, const Setting& setting) {
  return out << fmt::format(
             "disk={:d} small_cells={:d} own_cells={:d} joint={:d} small_ram={:d} small_disk={:d} parallel={} "
             "sequences={} "
             "batch={} frontiers={:d} text={:d} most_points={} least_step={} loads={}",
             setting.disk, setting.small_cells, setting.own_cells, setting.joint, setting.small_ram, setting.small_disk,
             setting.parallel, setting.sequences, setting.batch, setting.frontiers, setting.text, setting.most_points,
             setting.least_step, static_cast<int>(setting.loads));
}

// Mistakes above the engine that a checker of histories must notice.
struct Mistakes {
  Bend bend = Bend::kNothing;
  bool ignores_cache_prompt = false;
  bool erases_later_points = false;  // after a restore, erases points captured beyond it on other branches
  bool loses_points_at_restart = false;
  std::function<void(policy::CutOptions&)> cuts = [](policy::CutOptions&) {};  // makes other cuts than promised
  // Changes the options of the world, which the twin does not learn.
  std::function<void(HistoryWorld::Options&)> world = [](HistoryWorld::Options&) {};
  std::function<void(JobStats&)> stats = [](JobStats&) {};  // changes what replies report
};

}  // namespace kvkeep::server
