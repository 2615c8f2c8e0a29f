#pragma once

// The sequences of the model's memory: whose rows each one holds, which of them lie idle, and what of them is captured.
//
// A sequence is free, or a request runs on it, or it lies idle: its request has ended, its rows stay for whoever goes
// on from them, and it leaves when others need its cells. Whatever leaves was captured before, so that it comes back
// from the cache. Engine thread only.

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/tenant.h"
#include "base/types.h"
#include "cache/cache_options.h"
#include "cache/lease.h"
#include "cache/model_memory.h"
#include "os/clock.h"
#include "policy/cut.h"
#include "policy/next_call.h"
#include "policy/plan.h"
#include "policy/streamed_points.h"
#include "server/run/trace.h"

namespace kvkeep::cache {
class Cache;
}

namespace kvkeep::server {

// Who takes a sequence.
struct Occupant {
  std::string id = "-";  // of the request, for the log
  Tenant tenant = kNoTenant;
  bool cached = true;                    // false: nothing of it is captured or shared
  std::vector<TokenRange> sampled = {};  // ids that this server sampled: ascending, apart, those to come included
};

struct Sequence {
  enum class State : std::uint8_t { kFree, kIdle, kBusy } state = State::kFree;
  std::vector<TokenId> tokens;        // whose rows it holds
  Occupant occupant;                  // the request that has it, or had it last
  std::optional<cache::Track> track;  // none: nothing of it is captured (yet)
  std::size_t refused_at = 0;         // length at the last capture that the cache did not take whole
  std::size_t point_at = 0;           // length at the last point that was captured to stay
  policy::StreamedPoints streamed;    // of the reply that it decodes
  std::int64_t last_used_ns = 0;

  Position end() const { return Position{} + tokens.size(); }
  // Only a tenant's own requests go on from its rows, and only where they may be shared at all.
  bool shared_with(const Tenant& tenant) const { return track.has_value() && occupant.tenant == tenant; }
};

struct SequenceOptions {
  std::size_t capture_every_tokens = 256;  // decoded tokens between captures
  // Idle sequences that nobody went on with for so long leave; 0: when others need the room.
  std::int64_t idle_to_live_ns = 0;
  policy::CutOptions cuts = {};
};

class Sequences {
 public:
  // Told of all that is captured, with the sequence it is of.
  using OnCut = std::function<void(SeqId, const TraceCut&)>;

  // All outlive this.
  Sequences(const SequenceOptions& options, cache::ModelMemory& memory, cache::Cache& cache, os::Clock& clock,
            OnCut on_cut);

  const Sequence& operator[](SeqId seq) const { return sequences_[static_cast<std::size_t>(seq.value())]; }
  std::span<const Sequence> all() const { return sequences_; }
  std::optional<SeqId> free() const;
  std::vector<policy::IdleSequence> idle() const;
  std::uint32_t cells_free() const { return memory_.cells_total() - memory_.cells_used(); }
  // For a plan: what each one that is not free holds, and how much of it the prompt shares. `tenant` null: none may.
  std::vector<policy::Resident> residents(TokenSpan prompt, const Tenant* tenant) const;

  // ---- a request's way ----

  // A sequence that holds [0, plan.from_memory) as the plan says; whether it stands there is the plan's business. Those
  // that must leave for it do. nullopt: the model's memory refused, and the source is lost, unless a request runs on
  // it.
  std::optional<SeqId> place(const policy::Plan& plan);
  // `tokens` are what it holds now.
  void occupy(SeqId seq, Occupant occupant, TokenSpan tokens);
  // Restores rows at its end, so that it holds `tokens`. On an error it is empty.
  Status restore_rows(SeqId seq, std::span<const cache::RowPiece> pieces, TokenSpan tokens);
  // What rows cannot give, last.
  Status restore_point(SeqId seq, std::span<const cache::RowPiece> pieces);
  // What is computed from now on is captured behind what the cache knows of it. Precondition: it stands.
  void begin_capture(SeqId seq);
  // These were decoded at its end.
  void append(SeqId seq, TokenSpan tokens);
  // The request on it is done. It lies idle, captured; or it is free, where nothing may be shared. `keep_s`: see
  // Cache::keep.
  void release(SeqId seq, policy::CutReason reason, std::int64_t keep_s);
  // Captured once more, then free. What the cache refused of it, because the disk was slow, may find room by now.
  void leave(SeqId seq);
  void clear(SeqId seq);

  // ---- idle ones ----

  // A time to live is over. Nothing is captured anew: what the cache has of it may leave now, too.
  void expire_idle();
  void clear_idle();
  // At the end: what the cache refused of idle sequences is captured as fast as the disk writes.
  void keep_idle();

  // ---- capture ----

  void capture(SeqId seq, policy::CutReason reason);
  // What rows cannot give, at the end of the sequence. Nothing for models whose rows are all.
  void capture_point(SeqId seq, policy::CutReason reason, cache::Keeping keeping = cache::Keeping::kOnDisk);
  // Rows of decoded tokens now and then, so that a crash loses few; points at the interval's frontiers, and along a
  // reply, so that a client that leaves in its middle (Esc) finds one near what it saw.
  void capture_decoded(SeqId seq);
  // The reply is over: of the points along it few stay, or none. Before the end of the sequence is captured: a point
  // that lies there stays.
  void end_streamed(SeqId seq, bool client_left);

 private:
  Sequence& at(SeqId seq) { return sequences_[static_cast<std::size_t>(seq.value())]; }
  SeqId number(std::size_t index) const { return SeqId{static_cast<std::int32_t>(index)}; }
  std::optional<SeqId> oldest_idle() const;
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
};

}  // namespace kvkeep::server
