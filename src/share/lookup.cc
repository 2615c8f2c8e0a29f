#include "share/lookup.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <utility>

#include "base/assert.h"

namespace kvkeep::share {
namespace {

constexpr std::size_t kMostRememberedHeads = 16'384;
// How long an answer is believed. An object that was there may be evicted, one that was not may be published.
constexpr std::int64_t kSeenNs = 60 * kSecondNs;
constexpr std::int64_t kAbsentNs = 3 * kSecondNs;
// Paths that are tried if heads on the deepest one's way are gone.
constexpr std::size_t kMostPaths = 3;
// How often a way may go on along the path of a segment that another server cut elsewhere.
constexpr std::size_t kMostDetours = 3;
// Heads are seldom longer: their paths have some dozen steps. Where head and payload are one file, bytes that are asked
// for in vain come from the payload.
constexpr std::size_t kUsualHeadBytes = format::kEnvelopeBytes + 256 * format::kPathStepBytes + format::kMaxHeaderBytes;

}  // namespace

// An end that is asked for.
struct Lookup::Candidate {
  Position at;
  ObjectName name;
  // Of one that is there.
  Position begin = {};
  std::size_t head_bytes = 0;
};

// The prompt's own hashes. Those that were computed are kept, and a hasher every so many tokens: all ends that are
// asked for, which ascend, are hashed in one pass, and any other from a place close before it.
class Lookup::Prompt {
 public:
  Prompt(const FingerprintHash& fingerprint, const ShareQuery& query)
      : tokens_(query.prompt), last_(prefix_key(fingerprint, query.tenant)), kept_{last_} {}

  bool has(Position end) const { return end.value() <= tokens_.size(); }
  // Preconditions of these: has() of each position.
  PrefixHash at(Position end) {
    const auto known = std::ranges::lower_bound(hashes_, end, {}, &Known::end);
    if (known != hashes_.end() && known->end == end) return known->hash;
    return hashes_.insert(known, {end, reach(end).current()})->hash;
  }
  TokenSpan tokens(Position begin, std::size_t count) const { return tokens_.subspan(begin.value(), count); }
  // Returns the hash of the first `begin` tokens and then others, which are mostly the prompt's own.
  PrefixHash with(Position begin, TokenSpan others) {
    const Position end = begin + others.size();
    if (has(end) && std::ranges::equal(others, tokens(begin, others.size()))) return at(end);
    PrefixHasher hasher = reach(begin);
    hasher.append(others);
    return hasher.current();
  }

 private:
  static constexpr std::size_t kKeptEvery = 4096;
  struct Known {
    Position end;
    PrefixHash hash;
  };
  // Returns the hasher of the first `end` tokens, which holds until the next call.
  const PrefixHasher& reach(Position end) {
    if (end < last_.position()) {
      last_ = *std::prev(std::ranges::upper_bound(kept_, end, {}, &PrefixHasher::position));
    }
    last_.append(tokens(last_.position(), end - last_.position()));
    if (end >= kept_.back().position() + kKeptEvery) kept_.push_back(last_);
    return last_;
  }

  const TokenSpan tokens_;
  PrefixHasher last_;
  std::vector<PrefixHasher> kept_;  // ascending, from the beginning
  std::vector<Known> hashes_;       // ascending
};

Lookup::Lookup(ObjectEngine& engine, const Vault& vault, const FingerprintHash& fingerprint, Nodes& nodes,
               ShareCounting& counting, os::Clock& clock)
    : engine_(engine),
      vault_(vault),
      fingerprint_(fingerprint),
      nodes_(nodes),
      counting_(counting),
      clock_(clock),
      seen_(kMostRememberedHeads),
      absent_(kMostRememberedHeads) {}

namespace {

HeadBytes not_asked() { return busy("its node is not asked at the moment"); }

std::vector<HeadBytes> unasked(const std::vector<ObjectName>& names) { return {names.size(), not_asked()}; }

}  // namespace

std::vector<HeadBytes> Lookup::ask(const std::vector<ObjectName>& names, std::size_t first_bytes, Limits& limits) {
  const std::size_t at_once = heads_in_one_call(engine_.pace().heads_at_once, first_bytes);
  std::vector<HeadBytes> answers;
  for (std::size_t begin = 0; begin < names.size() && !is_over(limits); begin = answers.size()) {
    const auto first = names.begin() + static_cast<std::ptrdiff_t>(begin);
    const auto count = static_cast<std::ptrdiff_t>(std::min(at_once, names.size() - begin));
    const std::int64_t from_ns = clock_.monotonic_ns();
    bool failed = false;
    std::ranges::move(ask_until({first, first + count}, first_bytes, from_ns + limits.spare_ns, &failed),
                      std::back_inserter(answers));
    if (failed) limits.spare_ns -= clock_.monotonic_ns() - from_ns;
  }
  if (answers.size() < names.size()) answers.resize(names.size(), not_asked());
  return answers;
}

std::vector<HeadBytes> Lookup::ask_until(const std::vector<ObjectName>& names, std::size_t first_bytes,
                                         std::int64_t deadline_ns, bool* failed) {
  std::vector<ObjectName> asked;
  std::vector<std::size_t> places;
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (!nodes_.may_ask(engine_.node_of(names[i]))) continue;
    asked.push_back(names[i]);
    places.push_back(i);
  }
  if (asked.empty()) return unasked(names);
  const std::int64_t from_ns = clock_.monotonic_ns();
  std::vector<HeadBytes> given = engine_.heads(asked, first_bytes, deadline_ns);
  KVKEEP_ASSERT(given.size() == asked.size(), "an engine answers for each name");
  const bool any_failed = nodes_.note_heads(asked, given, os::elapsed_ms(from_ns, clock_.monotonic_ns()));
  if (failed != nullptr) *failed = any_failed;
  if (asked.size() == names.size()) return given;
  std::vector<HeadBytes> answers = unasked(names);
  for (std::size_t i = 0; i < given.size(); ++i) answers[places[i]] = std::move(given[i]);
  return answers;
}

std::vector<Lookup::Candidate> Lookup::evenly_spaced(const std::vector<Candidate>& candidates, std::size_t most) {
  if (candidates.size() <= most) return candidates;
  std::vector<Candidate> spaced;
  for (std::size_t i = 1; i <= most; ++i) spaced.push_back(candidates[candidates.size() * i / (most + 1)]);
  return spaced;
}

// Returns those that are there, and remembers those that are not.
std::vector<Lookup::Candidate> Lookup::present(const std::vector<Candidate>& asked, Limits& limits) {
  std::vector<ObjectName> names;
  for (const Candidate& candidate : asked) names.push_back(candidate.name);
  const std::vector<HeadBytes> answers = ask(names, format::kEnvelopeBytes, limits);
  std::vector<Candidate> there;
  const std::int64_t now_ns = clock_.monotonic_ns();
  for (std::size_t i = 0; i < asked.size(); ++i) {
    if (!answers[i].ok()) {
      if (answers[i].error().kind == ErrorKind::kNotFound) absent_.put(names[i], true, now_ns + kAbsentNs);
      continue;
    }
    const auto envelope = vault_.open_envelope(names[i], *answers[i]);
    if (!envelope.ok() || envelope->end != asked[i].at) {
      nodes_.note_damaged(names[i], envelope.ok() ? damaged("it ends elsewhere") : envelope.error());
      continue;
    }
    seen_.put(names[i], *envelope, now_ns + kSeenNs);
    there.push_back(asked[i]);
    there.back().begin = envelope->begin;
    there.back().head_bytes = envelope->head_bytes();
  }
  return there;
}

std::vector<Lookup::Candidate> Lookup::candidates(const ShareQuery& query, Prompt& prompt) const {
  std::vector<Candidate> candidates;
  const std::int64_t now_ns = clock_.monotonic_ns();
  for (const Position end : query.ends) {
    if (end <= query.known || !prompt.has(end)) continue;
    const format::ShortHash hash = format::short_hash(prompt.at(end));
    ObjectName name = vault_.name_of(hash, query.kind);
    if (!absent_.find(name, now_ns)) candidates.push_back({.at = end, .name = std::move(name)});
  }
  return candidates;
}

// Returns those that are there, ascending. Where an engine can be asked for few at once, it is asked for evenly spaced
// ones, then between the deepest of them that is there and the next: shallow ends are there if deeper ones are, or what
// continues them is of little use, so a hole costs depth, not truth.
std::vector<Lookup::Candidate> Lookup::probe(std::vector<Candidate> left, Limits& limits) {
  const std::size_t at_once = std::max<std::size_t>(engine_.pace().heads_at_once, 1);
  std::vector<Candidate> there;
  while (!left.empty()) {
    const std::vector<Candidate> asked = evenly_spaced(left, at_once);
    const std::vector<Candidate> found = present(asked, limits);
    there.insert(there.end(), found.begin(), found.end());
    if (asked.size() == left.size() || is_over(limits)) break;
    const Position low = found.empty() ? Position{} : found.back().at;
    const auto next = std::ranges::find_if(asked, [&](const Candidate& one) { return one.at > low; });
    const auto is_outside = [&](const Candidate& one) {
      return one.at <= low || (next != asked.end() && one.at >= next->at);
    };
    std::erase_if(left, is_outside);
  }
  return there;
}

std::optional<format::SharedHead> Lookup::open(const ObjectName& name, const HeadBytes& bytes) {
  if (!bytes.ok()) return std::nullopt;
  auto head = vault_.open_head(name, *bytes);
  if (!head.ok()) {
    nodes_.note_damaged(name, head.error());
    return std::nullopt;
  }
  seen_.put(name, head->envelope, clock_.monotonic_ns() + kSeenNs);
  return std::move(*head);
}

// Returns true if the segment is one of this prompt as far as `used`, and its names are those of its own ids.
bool Lookup::belongs(const ShareQuery& query, Prompt& prompt, const format::SharedHead& head, Position used) const {
  const format::SegmentHeader& segment = head.segment;
  const format::SegmentName& name = segment.name;
  if (segment.fingerprint != fingerprint_ || segment.tenant != query.tenant) return false;
  if (name.begin > used || !prompt.has(used) || prompt.at(name.begin) != name.begin_hash) return false;
  const TokenSpan ids = segment.tokens;
  if (prompt.with(name.begin, ids) != name.end_hash) return false;
  const std::size_t count = std::min(used - name.begin, ids.size());
  return std::ranges::equal(ids.first(count), prompt.tokens(name.begin, count));
}

// Returns true if each step is a prefix of this prompt.
bool Lookup::is_own_path(Prompt& prompt, const std::vector<format::PathStep>& path) {
  const bool own = std::ranges::all_of(path, [&](const format::PathStep& step) {
    return prompt.has(step.end) && format::short_hash(prompt.at(step.end)) == step.hash;
  });
  if (!own) counting_.add(&ShareCounters::foreign_paths);
  return own;
}

std::vector<HeadBytes> Lookup::ask_for_way(const std::vector<ObjectName>& names, Way& way) {
  std::vector<HeadBytes> heads(names.size(), HeadBytes(not_found("not asked for")));
  std::vector<ObjectName> asked;
  std::vector<std::size_t> places;
  for (std::size_t i = 0; i < names.size(); ++i) {
    const auto come = way.ahead.find(names[i]);
    if (come != way.ahead.end()) {
      heads[i] = std::move(come->second);
      way.ahead.erase(come);
    } else {
      asked.push_back(names[i]);
      places.push_back(i);
    }
  }
  if (asked.empty()) return heads;
  std::vector<HeadBytes> answers = whole_heads(asked, way.likely_bytes, way.limits);
  for (std::size_t i = 0; i < places.size(); ++i) heads[places[i]] = std::move(answers[i]);
  return heads;
}

// Adds the heads of these steps to the path, up to the first that is missing. Returns false if one is.
//
// Two servers may have cut a prompt elsewhere, and under one end the first object stays. So a segment may begin before
// the end of the last one, which it then replaces; or after it, and then its own path leads to it.
bool Lookup::add_rows(const ShareQuery& query, Prompt& prompt, std::span<const format::PathStep> steps, Way& way,
                      std::size_t detours) {
  std::vector<ObjectName> names;
  for (const format::PathStep& step : steps) {
    names.push_back(vault_.name_of(step.object_hash, format::PartKind::kRows));
  }
  std::vector<HeadBytes> bytes = ask_for_way(names, way);
  for (std::size_t i = 0; i < names.size(); ++i) {
    // The bytes leave with each turn, so that the next head is decoded into their memory.
    const HeadBytes own = std::exchange(bytes[i], HeadBytes(not_found("")));
    auto head = open(names[i], own);
    if (!head || head->segment.name.end != steps[i].object_end || !belongs(query, prompt, *head, steps[i].end)) {
      return false;
    }
    const Position begin = head->segment.name.begin;
    if (begin > way.path.end) {
      const auto leads = [&](const format::PathStep& step) { return step.end > way.path.end && step.end <= begin; };
      std::vector<format::PathStep> detour;
      std::ranges::copy_if(head->path, std::back_inserter(detour), leads);
      if (detours == 0 || !add_rows(query, prompt, detour, way, detours - 1) || way.path.end < begin) return false;
    }
    auto& rows = way.path.rows;
    while (!rows.empty() && rows.back().segment.name.begin >= begin) rows.pop_back();
    rows.push_back(std::move(*head));
    way.path.end = steps[i].end;
  }
  return true;
}

// Fills in the heads on the way, from the first whose rows are used after `query.known` up to the first that is
// missing.
void Lookup::fetch_rows(const ShareQuery& query, Prompt& prompt, const format::SharedHead& end_head, Way& way) {
  const auto first = std::ranges::find_if(end_head.path, [&](const auto& step) { return step.end > query.known; });
  // Heads on the way have shorter paths than this one, and mostly the ids after the step before them. Where head and
  // payload are one file, bytes that are asked for in vain come from the payload.
  std::size_t most_ids = 0;
  for (auto step = first; step != end_head.path.end(); ++step) {
    const Position before = step == end_head.path.begin() ? Position{} : std::prev(step)->end;
    most_ids = std::max(most_ids, step->object_end - std::min(before, step->object_end));
  }
  const std::size_t header = format::encoded_header_size(1, std::min(most_ids, format::kMaxSegmentTokens));
  way.likely_bytes = format::kEnvelopeBytes + end_head.path.size() * format::kPathStepBytes + header +
                     end_head.envelope.extension_bytes;
  way.path.end = first == end_head.path.begin() ? Position{} : std::prev(first)->end;
  add_rows(query, prompt, {first, end_head.path.end()}, way, kMostDetours);
}

// Returns the deepest one, then those before it of which each ends where the next begins. They are likely to be the way
// to it: asked for together with it, they save a round trip. Its path says whether they are.
std::vector<Lookup::Candidate> Lookup::likely_way(const std::vector<Candidate>& there, std::size_t most) {
  std::vector<Candidate> way{there.back()};
  for (auto before = std::next(there.rbegin()); before != there.rend() && way.size() < most; ++before) {
    if (before->at == way.back().begin) way.push_back(*before);
  }
  return way;
}

std::optional<SharedPath> Lookup::follow(const ShareQuery& query, Prompt& prompt, const std::vector<Candidate>& likely,
                                         Limits& limits) {
  const Candidate& deepest = likely.front();
  std::vector<ObjectName> names;
  std::size_t most_bytes = 0;
  for (const Candidate& candidate : likely) {
    names.push_back(candidate.name);
    most_bytes = std::max(most_bytes, candidate.head_bytes);
  }
  std::vector<HeadBytes> bytes = ask(names, most_bytes, limits);
  auto end_head = open(deepest.name, bytes.front());
  if (!end_head || !is_own_path(prompt, end_head->path)) return std::nullopt;
  SharedPath path{.rows = {}, .leaf = {}, .end = query.known};
  Way way{.path = path, .likely_bytes = 0, .ahead = {}, .limits = limits};
  for (std::size_t i = 0; i < names.size(); ++i) way.ahead.emplace(names[i], std::move(bytes[i]));
  fetch_rows(query, prompt, *end_head, way);
  if (path.rows.empty()) return std::nullopt;
  if (query.kind == format::PartKind::kRows) return path;
  if (path.end != deepest.at || !belongs(query, prompt, *end_head, deepest.at)) return std::nullopt;
  path.leaf = std::move(*end_head);
  return path;
}

std::optional<SharedPath> Lookup::find(const ShareQuery& query, std::int64_t patient_until_ns) {
  Limits limits = limits_until(patient_until_ns);
  const std::int64_t from_ns = clock_.monotonic_ns();
  const std::size_t at_once = std::max<std::size_t>(engine_.pace().heads_at_once, 1);
  Prompt prompt(fingerprint_, query);
  std::vector<Candidate> there = probe(candidates(query, prompt), limits);
  for (std::size_t i = 0; i < kMostPaths && !there.empty(); ++i) {
    auto path = follow(query, prompt, likely_way(there, at_once), limits);
    if (path) {
      path->ms = os::elapsed_ms(from_ns, clock_.monotonic_ns());
      return path;
    }
    there.pop_back();
  }
  return std::nullopt;
}

// Returns how many bytes to ask for: what is remembered of these heads may be out of date.
std::size_t Lookup::known_bytes(const std::vector<ObjectName>& names, std::size_t likely_bytes) const {
  const std::int64_t now_ns = clock_.monotonic_ns();
  std::size_t most = format::kEnvelopeBytes;
  for (const ObjectName& name : names) {
    const auto known = seen_.find(name, now_ns);
    most = std::max(most, known ? known->head_bytes() : likely_bytes);
  }
  return most;
}

std::vector<HeadBytes> Lookup::whole_heads(const std::vector<ObjectName>& names, std::size_t likely_bytes,
                                           Limits& limits) {
  const std::size_t first_bytes = known_bytes(names, likely_bytes);
  std::vector<HeadBytes> answers = ask(names, first_bytes, limits);
  std::vector<ObjectName> longer;
  std::vector<std::size_t> places;
  std::size_t most_bytes = 0;
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (!answers[i].ok() || answers[i]->size() < first_bytes) continue;
    const auto envelope = vault_.open_envelope(names[i], *answers[i]);
    if (!envelope.ok() || envelope->head_bytes() <= first_bytes) continue;
    most_bytes = std::max(most_bytes, envelope->head_bytes());
    longer.push_back(names[i]);
    places.push_back(i);
  }
  if (longer.empty()) return answers;
  std::vector<HeadBytes> whole = ask(longer, most_bytes, limits);
  for (std::size_t i = 0; i < places.size(); ++i) answers[places[i]] = std::move(whole[i]);
  return answers;
}

std::vector<std::optional<format::SharedHead>> Lookup::heads(const ShareQuery& query, std::int64_t patient_until_ns) {
  Prompt prompt(fingerprint_, query);
  std::vector<ObjectName> names;
  std::vector<std::size_t> places;
  for (std::size_t i = 0; i < query.ends.size(); ++i) {
    if (!prompt.has(query.ends[i])) continue;
    names.push_back(vault_.name_of(format::short_hash(prompt.at(query.ends[i])), query.kind));
    places.push_back(i);
  }
  Limits limits = limits_until(patient_until_ns);
  const auto bytes = whole_heads(names, kUsualHeadBytes, limits);
  std::vector<std::optional<format::SharedHead>> heads(query.ends.size());
  for (std::size_t i = 0; i < names.size(); ++i) {
    const Position end = query.ends[places[i]];
    auto head = open(names[i], bytes[i]);
    if (head && head->segment.name.end == end && belongs(query, prompt, *head, end)) heads[places[i]] = std::move(head);
  }
  return heads;
}

Result<format::Envelope> Lookup::envelope(const ObjectName& name, std::int64_t patient_until_ns) {
  if (auto known = seen_.find(name, clock_.monotonic_ns())) return *known;
  Limits limits = limits_until(patient_until_ns);
  const auto bytes = ask({name}, format::kEnvelopeBytes, limits);
  if (!bytes.front().ok()) return bytes.front().error();
  auto envelope = vault_.open_envelope(name, *bytes.front());
  if (envelope.ok()) seen_.put(name, *envelope, clock_.monotonic_ns() + kSeenNs);
  return envelope;
}

}  // namespace kvkeep::share
