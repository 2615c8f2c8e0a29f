#pragma once

// The sequences of the model's memory: whose rows each one holds, which are idle, and what of them is captured.
//
// A sequence is free, or a request runs on it, or it is idle: its request has ended, its rows stay for requests that
// continue them, and it leaves when others need its cells. A sequence is captured before it leaves, so that it comes
// back from the cache. Engine thread only.

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/hash.h"
#include "base/types.h"
#include "cache/cache_options.h"
#include "cache/lease.h"
#include "cache/model_memory.h"
#include "os/clock.h"
#include "policy/cut.h"
#include "policy/plan.h"
#include "server/run/trace.h"

namespace kvkeep::cache {
class Cache;
}

namespace kvkeep {
class TenantScope;
}

namespace kvkeep::policy {
struct IdleSequence;
}

namespace kvkeep::server {

// The request that takes a sequence.
struct Occupant {
  std::string id = "-";  // of the request, for the log
  Tenant tenant = kNoTenant;
  bool cached = true;                    // false: no state of it is captured or shared
  std::vector<TokenRange> sampled = {};  // ids that this server sampled, including those to come: ascending, disjoint
};

struct Sequence {
  enum class State : std::uint8_t { kFree, kIdle, kBusy } state = State::kFree;
  std::vector<TokenId> tokens;        // the tokens whose rows it holds
  std::size_t part = 0;               // ids after them, of a chunk of which the rest is not computed yet
  Occupant occupant;                  // the request that runs on it, or ran on it last
  std::optional<cache::Track> track;  // none: nothing of it is captured (yet)
  std::size_t refused_at = 0;         // length at the last capture that the cache did not take whole
  std::size_t point_at = 0;           // length at the last point that was captured to stay
  policy::StreamedPoints streamed;    // along the reply that it decodes
  std::int64_t last_used_ns = 0;

  // Where it can be captured and forked; within a chunk, where that begins.
  Position end() const { return Position{} + tokens.size(); }
  std::size_t computed() const { return tokens.size() + part; }
  // Only requests of the same tenant continue its rows, and only if they may be shared at all.
  bool shared_with(const Tenant& tenant) const { return track.has_value() && occupant.tenant == tenant; }
};

struct SequenceOptions {
  std::size_t capture_every_tokens = 256;  // decoded tokens between captures
  std::int64_t idle_to_live_ns = 0;        // idle ones leave after this time; 0: when others need the room
  policy::CutOptions cuts = {};
};

// Cells of the model's memory, now.
struct CellCounts {
  std::uint32_t total = 0;
  std::uint32_t used = 0;     // distinct ones
  std::uint32_t shared = 0;   // of these, by more than one sequence
  std::uint64_t counted = 0;  // so often the shared ones were counted
};

class Sequences {
 public:
  using OnCut = std::function<void(SeqId, const TraceCut&)>;  // receives all that is captured, and from which sequence

  // All arguments must outlive this.
  Sequences(const SequenceOptions& options, cache::ModelMemory& memory, cache::Cache& cache, os::Clock& clock,
            OnCut on_cut);

  const Sequence& operator[](SeqId seq) const { return sequences_[static_cast<std::size_t>(seq.value())]; }
  std::span<const Sequence> all() const { return sequences_; }
  std::optional<SeqId> free() const;
  std::vector<policy::IdleSequence> idle() const;
  bool share_cells() const { return !memory_.own_cells() && memory_.rows_bytes(1) > 0; }  // of common rows
  std::uint32_t cells_free() const { return memory_.cells_total() - memory_.cells_used(); }
  // Counts the cells that sequences share once a second at most, because that looks at each cell.
  CellCounts count_cells();
  // For a plan: the length of each sequence in use, and how much of it the prompt shares: nothing if `tenant` is null.
  // kLeaveOut: without cells_owned, for which each cell is looked at.
  enum class Cells : std::uint8_t { kCount, kLeaveOut };
  std::vector<policy::Resident> residents(TokenSpan prompt, const Tenant* tenant, Cells cells = Cells::kCount) const;

  // ---- a request's way ----

  // Returns a sequence that holds [0, plan.from_memory) as the plan says; the plan has made sure that it is complete
  // there. Sequences that must leave for it do. Returns nullopt if the model's memory refused; the source is then lost,
  // unless a request runs on it.
  std::optional<SeqId> place(const policy::Plan& plan);
  void occupy(SeqId seq, Occupant occupant, TokenSpan tokens);  // `tokens` are those whose rows it holds now
  // Appends rows, so that the sequence holds `tokens`. After an error it is empty.
  Status restore_rows(SeqId seq, std::span<const cache::RowPiece> pieces, TokenSpan tokens);
  Status restore_point(SeqId seq, std::span<const cache::RowPiece> pieces);  // or a window; after all rows
  // From now on, state computed after the cached part is captured. Returns the sequence, whose track is now known.
  // Precondition: the sequence is complete.
  const Sequence& begin_capture(SeqId seq);
  void append(SeqId seq, TokenSpan tokens);  // they were decoded at its end
  // The next `count` ids of a chunk were. Before the last ones are, the sequence ends at the chunk's beginning for all
  // who capture, fork or keep it, and no point of it is captured.
  void append_part(SeqId seq, TokenSpan chunk, std::size_t count);
  // Captures the sequence, then drops these tokens, so that its rows are approximate: it is never captured or shared
  // again. Idle sequences that share rows which move leave. kBusy: a request shares some, and nothing has changed.
  Status shift(SeqId seq, TokenRange dropped);
  // The request on the sequence is done. The sequence is captured and becomes idle, or free if nothing may be shared.
  // `keep_s`: see Cache::keep.
  void release(SeqId seq, policy::CutReason reason, std::int64_t keep_s);
  // Captures the sequence once more and frees it. Rows that the cache refused, since the disk was slow, may now fit.
  void leave(SeqId seq);
  void clear(SeqId seq);
  // As clear(), and the cache forgets what it has of this conversation, as far as nothing else goes on from it.
  void clear_and_forget(SeqId seq);

  // ---- idle ones ----

  // Clears sequences whose time to live is over. Captures nothing anew: their state in the cache may leave now, too.
  void expire_idle();
  void clear_idle();
  // Clears those that hold nothing but a part of this conversation, or go on from its end, and are idle for so long.
  // Captures nothing.
  void forget(TokenSpan conversation, const TenantScope& tenants, std::int64_t idle_ns = 0);
  void keep_idle();  // at shutdown: captures rows that the cache refused, as fast as the disk writes

  // ---- another layout ----

  // Captures what is not yet, if the sequence may be. Returns true if all of it comes back from the cache.
  bool store(SeqId seq);
  void leave_idle();
  // Returns true if no sequence holds anything that is not known here, as an audit's does.
  bool none_is_hidden() const;
  // The model's memory was made anew, and has perhaps another number of sequences. Precondition: all were free.
  void begin_anew();

  // ---- capture ----

  void capture(SeqId seq, policy::CutReason reason);
  // Captures a point or window at the end of the sequence. Does nothing for models that need only rows.
  void capture_point(SeqId seq, policy::CutReason reason, cache::Keeping keeping = cache::Keeping::kOnDisk);
  // Captures rows of decoded tokens now and then, so that a crash loses few; points at the interval's frontiers, and
  // along a reply, so that a client that leaves in the middle (Esc) finds a point near what it saw.
  void capture_decoded(SeqId seq);
  // The reply is over: few or none of the points along it stay. Call it before the end of the sequence is captured, so
  // that a point that lies there stays.
  void end_streamed(SeqId seq, bool client_left);

 private:
  Sequence& at(SeqId seq) { return sequences_[static_cast<std::size_t>(seq.value())]; }
  SeqId number(std::size_t index) const { return SeqId{static_cast<std::int32_t>(index)}; }
  std::optional<SeqId> oldest_idle() const;
  bool cut_part(SeqId seq, policy::CutReason reason);
  bool point_captured(const Sequence& held) const;
  std::size_t next_capture(const Sequence& held) const;
  bool streams_points() const;
  void capture_streamed(SeqId seq);
  void keep(SeqId seq);
  double ms_since(std::int64_t from_ns) const { return os::elapsed_ms(from_ns, clock_.monotonic_ns()); }

  const SequenceOptions options_;
  cache::ModelMemory& memory_;
  cache::Cache& cache_;
  os::Clock& clock_;
  const OnCut on_cut_;
  std::vector<Sequence> sequences_;
  std::uint32_t shared_cells_ = 0;
  std::int64_t shared_counted_ns_ = 0;
  std::uint64_t shared_counted_ = 0;  // times
};

}  // namespace kvkeep::server
