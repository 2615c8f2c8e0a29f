#pragma once

// Finds the deepest shared path of a prompt without an index: asks for the ends that a publisher can have chosen, then
// for the heads on the way to the deepest one that is there. Two round trips, whatever the prompt's length, if the
// segments on the way end where they were guessed to; else, and for points, three.
//
// Nothing that an engine answers is believed: a head counts if its code is right, each step of its path has the
// prompt's own hash, and its token ids are the prompt's own as far as they are used.

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <vector>

#include "os/clock.h"
#include "share/nodes.h"
#include "share/object_engine.h"
#include "share/recent_names.h"
#include "share/share_types.h"
#include "share/vault.h"

namespace kvkeep::share {

// Thread safe.
class Lookup {
 public:
  Lookup(ObjectEngine& engine, const Vault& vault, const FingerprintHash& fingerprint, Nodes& nodes,
         ShareCounting& counting, os::Clock& clock);

  std::optional<SharedPath> find(const ShareQuery& query, std::int64_t patient_until_ns);
  std::vector<std::optional<format::SharedHead>> heads(const ShareQuery& query, std::int64_t patient_until_ns);

  // Returns the envelope of an object, remembered or asked for. Fails as ObjectEngine::heads() does, or with kDamaged.
  Result<format::Envelope> envelope(const ObjectName& name, std::int64_t patient_until_ns);
  void forget(const ObjectName& name) { seen_.forget(name); }

  // A look-up may wait as long as its caller has patience. Each of its round trips may take as long as the nodes'
  // deadline, and those that fail may take so long together: a node that hangs costs one deadline, however many round
  // trips a long prompt needs at one that answers. A caller with little patience says nothing of a node that answers in
  // its usual time.
  struct Limits {
    std::int64_t patient_until_ns;  // no round trip begins later
    std::int64_t spare_ns;          // that may still be spent on failures
  };
  Limits limits_until(std::int64_t patient_until_ns) const { return {patient_until_ns, nodes_.longest_lookup_ns()}; }

  // Asks for the first bytes of heads at nodes that may be asked, as many at a time as one call may ask for, and notes
  // how that went. Names at other nodes are kBusy, and so are those that are left when a limit has passed.
  std::vector<HeadBytes> ask(const std::vector<ObjectName>& names, std::size_t first_bytes, Limits& limits);
  // The same with another deadline than the nodes' own. `failed` becomes true if a node did.
  std::vector<HeadBytes> ask_until(const std::vector<ObjectName>& names, std::size_t first_bytes,
                                   std::int64_t deadline_ns, bool* failed = nullptr);

 private:
  struct Candidate;
  class Prompt;
  std::vector<Candidate> candidates(const ShareQuery& query, Prompt& prompt) const;
  static std::vector<Candidate> evenly_spaced(const std::vector<Candidate>& candidates, std::size_t most);
  std::vector<Candidate> probe(std::vector<Candidate> left, Limits& limits);
  // `likely_bytes`: of the longest of them, as far as that is not remembered; longer ones are asked for once more.
  std::vector<HeadBytes> whole_heads(const std::vector<ObjectName>& names, std::size_t likely_bytes, Limits& limits);
  std::size_t known_bytes(const std::vector<ObjectName>& names, std::size_t likely_bytes) const;
  std::vector<Candidate> present(const std::vector<Candidate>& asked, Limits& limits);
  static std::vector<Candidate> likely_way(const std::vector<Candidate>& there, std::size_t most);
  std::optional<SharedPath> follow(const ShareQuery& query, Prompt& prompt, const std::vector<Candidate>& way,
                                   Limits& limits);
  bool is_own_path(Prompt& prompt, const std::vector<format::PathStep>& path);
  // A path that is being found, and bounds of the calls for it.
  struct Way {
    SharedPath& path;
    std::size_t likely_bytes;               // of each head
    std::map<ObjectName, HeadBytes> ahead;  // that came already
    Limits& limits;
  };
  std::vector<HeadBytes> ask_for_way(const std::vector<ObjectName>& names, Way& way);
  bool add_rows(const ShareQuery& query, Prompt& prompt, std::span<const format::PathStep> steps, Way& way,
                std::size_t detours);
  void fetch_rows(const ShareQuery& query, Prompt& prompt, const format::SharedHead& end_head, Way& way);
  std::optional<format::SharedHead> open(const ObjectName& name, const HeadBytes& bytes);
  bool belongs(const ShareQuery& query, Prompt& prompt, const format::SharedHead& head, Position used) const;

  bool is_over(const Limits& limits) const {
    return limits.spare_ns <= 0 || clock_.monotonic_ns() >= limits.patient_until_ns;
  }

  ObjectEngine& engine_;
  const Vault& vault_;
  const FingerprintHash fingerprint_;
  Nodes& nodes_;
  ShareCounting& counting_;
  os::Clock& clock_;
  RecentNames<format::Envelope> seen_;  // so that a payload can be fetched without asking for its head again
  RecentNames<bool> absent_;            // so that a prompt which comes again is not asked for again at once
};

}  // namespace kvkeep::share
