#pragma once

// Where to cut: the positions at which state that rows cannot give is captured, and why. Pure.
//
// Models whose rows are all need no cuts: everything computed is kept. Others can be restored only at points (or
// where a last window is), and each costs memory, so they are taken where prompts are likely to branch off or to go on:
// - the *anchors*: where the first user turn begins, and the last one before the first assistant turn. The text before
//   it is the same in every conversation of an agent;
// - the *turn*: where the generation prompt begins, at most one token before the end. The same prompt again, a turn
//   with another answer, and a prompt in which the user speaks in place of the answer share all before it;
// - the end of the last user message, unless loops never change: where thinking is dropped from history, a new user
//   message renders everything after it anew. That point is *awaited* until then, however long the tool loop grows;
// - the ends of other *messages* before the first assistant turn;
// - a *branch*: where this prompt leaves what another one computed, if no point is near. One a few tokens after an
//   anchor is cut although the anchor is near, and replaces the anchor when a third prompt branches off there;
// - *likely* positions, read from the prompt's text: lines that other sessions of the client have otherwise; and fine
//   ones among tools and their results, whose points stay in RAM until they are used;
// - *cold* and *continued* positions only by length, as ds4-server computes them, for prompts without turns.
// docs/cuts.md compares formulas and defaults with ds4-server's and llama-server's.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "base/types.h"
#include "policy/plan.h"

namespace kvkeep::policy {

// The reason for a capture. The log and the trace print the names.
enum class CutReason {
  kAnchor,
  kCold,
  kMessage,
  kTurn,  // the generation prompt begins, or the reply is complete
  kBranch,
  kContinued,  // a prefill slice or a run of decoded tokens is complete, or a frontier of the interval is reached
  kLikely,     // prompts of the client are likely to branch off here: see likely_cuts.h
  kStreamed,   // along a reply, in case its client leaves: see StreamedPoints
  kEvict,      // the sequence leaves the model's memory
  kShutdown,   // the server stops
};
std::string_view to_string(CutReason reason);

struct CutOptions {
  // No point below (--kv-cache-min-tokens).
  std::size_t min_tokens = 32;
  // Anchor and cold cuts only for prompts up to this length; 0: never (--kv-cache-cold-max-tokens).
  std::size_t cold_max_tokens = SIZE_MAX;
  // Frontiers: multiples of it, rounded up to the alignment; 0: none (--kv-cache-continued-interval-tokens).
  std::size_t continued_interval_tokens = 2048;
  // store_len(): left off at the end of a prompt, then rounded down; alignment 0 and 1: not rounded
  // (--kv-cache-boundary-trim-tokens, --kv-cache-boundary-align-tokens).
  std::size_t boundary_trim_tokens = 32;
  std::size_t boundary_align_tokens = 2048;
  // Anchors at user turns; off: only the length rule (--kv-cache-anchor-user).
  bool anchor_user = true;
  // Most points on the path of one prompt; 0: none at all (--ctx-checkpoints).
  std::size_t most_points = SIZE_MAX;
  // A message, branch, cold or continued cut less than this after another point is not made (--checkpoint-min-step).
  std::size_t least_step_tokens = 32;
  // A new user message may render everything after the last one anew, so a point is kept at that one's end. False: the
  // template is known to leave tool loops as they were, and nothing is cut or kept there.
  bool loops_change = true;
};

// Places that rendering knows of in a prompt; all ascending, all within [0, n]. Raw prompts have none.
struct PromptMarkers {
  std::vector<Position> user_turns;       // where turns of the role user begin, their marker included; no tool results
  std::vector<Position> assistant_turns;  // the same for finished assistant turns; the generation prompt is none
  std::vector<Position> message_ends;     // ends of messages of any role
  std::optional<Position> generation_prompt;  // where it begins: the end of the prompt rendered without it
  Position beginning = {};                    // where the prompt's first text begins: all before is the template's
};

// s = n - trim rounded down to the alignment, if n > min + trim and s >= min; else n. (ds4-server's formula.)
std::size_t store_len(const CutOptions& options, std::size_t n);

enum class Anchor {
  kFirst,  // the first user turn
  kLast,   // the last user turn before the first assistant turn
};
// Returns nullopt if there is no such turn, if it lies below min_tokens, or if anchors are off.
std::optional<Position> anchor_pos(const CutOptions& options, const PromptMarkers& markers, Anchor which);

// Returns where the stable beginning of a prompt of n tokens ends, if it is to be captured now that `cached` of them
// were found: the anchor if `cached` lies before it, store_len(n) if there is no anchor and nothing was found. Returns
// nullopt otherwise, and for prompts that are too short or too long.
std::optional<Position> cold_store_target(const CutOptions& options, Position cached, std::size_t n,
                                          std::optional<Position> anchor);

// The first frontier after `live`: a multiple of the interval rounded up to the alignment, not below min_tokens.
std::optional<Position> continued_store_target(const CutOptions& options, Position live);
// While decoding: true if a frontier was reached since the last point. Asked at any stride, it skips none.
bool continued_store_due(const CutOptions& options, Position live, Position last_point);

// At the end of a reply, at eviction and at shutdown: true if a point where the sequence ends adds anything.
// `last_point`: the last one on its path, 0 without.
bool end_point_wanted(const CutOptions& options, Position end, Position last_point);

struct Cut {
  Position at;
  CutReason reason = CutReason::kContinued;
  bool in_ram = false;  // a fine one: its point stays in RAM until a prompt uses it
  bool operator==(const Cut&) const = default;
};

// The known part of a prompt's path, and its restorable positions.
struct KnownPath {
  Position end;                  // an earlier prompt was the same up to here
  std::vector<Position> points;  // where a point is, or the end of a window without neighbours; ascending
  std::vector<TokenRange> runs;  // of neighbouring windows; ascending
  bool operator==(const KnownPath&) const = default;
};
KnownPath known_path(const PlanView& view, bool windowed);

struct CutView {
  CutOptions options;
  std::size_t prompt_tokens = 0;  // n >= 1
  PromptMarkers markers;
  Position cached;               // prefill begins here
  Position known;                // an earlier prompt was the same up to here; < n where this one branches off
  std::vector<Position> points;  // where the prompt's path has points already, ascending
  // Neighbouring windows make every position in these runs restorable; ascending. No limit counts them.
  std::vector<TokenRange> runs = {};
  // Where prompts are likely to branch off, ascending: a line that changes from session to session. One that is near
  // the point before it counts as fine.
  std::vector<Position> likely = {};
  // Where they may, ascending: fine cuts, of which only as many are made as memory has room for. None where the points
  // of a path are limited, and none that makes another cut leave its place.
  std::vector<Position> fine = {};
  std::size_t most_fine = 0;
};

struct CutPlan {
  std::vector<Cut> cuts;  // ascending, each in (cached, n], none where a point is
  // Points of the path that are over the limit, the least useful ones, and an anchor that a branch replaces; ascending.
  std::vector<Position> leave;
  // The point, or a position of a run, at the end of the last user message, if there is one: eviction holds on to it
  // until the next user message.
  std::optional<Position> awaited = {};
  bool cold_skipped = false;  // an anchor or cold cut was left out because the prompt is longer than cold_max_tokens
};

// Fine cuts of what a client sent since the last answer (results of tools, which change in any line): at equal steps of
// at least `least` tokens, at most `most` of them, within `range` without its ends.
std::vector<Position> fine_steps(TokenRange range, std::size_t least, std::size_t most);

// The cuts of one prompt: prefill stops at each, captures, and goes on. Cost: O(m log m) for m markers and points.
CutPlan plan_cuts(const CutView& view);

// Points along one reply while it streams: which stay until it ends, and which then.
//
// A client that leaves (Esc) has seen less than was sampled, by as much as was on its way to it, and its next prompt
// goes on from there. A point at the reply's end is of no use to it; one a little earlier is. Points are taken at a
// stride and thinned out after the frontier, so that they lie the wider apart the older they are: a client that saw
// all but the last L strides of a reply finds one less than 2 L + 1 strides before that place, as far as `most`
// reaches; and one less than a stride before it, if L is less than 1.
class StreamedPoints {
 public:
  // The held points, oldest first.
  const std::vector<Position>& held() const { return held_; }
  // A point was taken at `at`, after those before. Returns those that leave: at most `most` stay, at least one.
  std::vector<Position> add(Position at, std::size_t most);
  // Ends the reply; nothing is held afterwards. Returns the points that leave: all of them if the client has the whole
  // reply, since no prompt returns into its middle; else all but the last two, after which it may have seen nothing.
  std::vector<Position> end(bool client_left);

 private:
  std::vector<Position> held_;
  std::vector<std::uint32_t> ordinals_;  // of each held point among all that were taken, from 1
  std::uint32_t taken_ = 0;
};

// Returns how many points fit together into a share of the RAM budget, at most `most`.
std::size_t points_that_fit(ByteCount ram_budget, std::size_t share, ByteCount point, std::size_t most);

// Where any rows can be saved only together with all before them (cache::ModelMemory::own_cells): returns how many
// tokens after `captured` the next capture lies, at least `least`. All captures of a sequence together then copy at
// most `most_copies` times as many rows as it had at the last one: ends that grow by m / (m - 1) add up to m times the
// last one, and equal steps before that to less. Precondition: most_copies > 1.
constexpr std::size_t whole_capture_stride(std::size_t captured, std::size_t least, std::size_t most_copies) {
  return std::max(least, captured / (most_copies - 1) + 1);
}

}  // namespace kvkeep::policy
