#pragma once

// Explanations of the last requests, for /cache/explain, and the offenders that they add up to.
//
// A ring of bounded size in memory. Offenders outlive the process in a small file next to the cache, which is written
// now and then and at the end, on the executor; a damaged file is begun anew. While another server writes the file of
// this model, this one's offenders are only in its memory; once it may write, it adds them to what that server left
// there. Thread safe; the executor must outlive it.

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/mutex.h"
#include "explain/offenders.h"
#include "os/executor.h"
#include "os/file_system.h"
#include "server/api/json_body.h"
#include "server/run/found_break.h"

namespace kvkeep::server {

struct ExplanationsOptions {
  std::size_t most_requests = 1024;  // that are remembered
  std::string path = {};             // of the file of offenders; "": there is none
  // Returns false while another server writes the file. Null: no other server does. Must outlive the explanations.
  std::function<bool()> may_write = {};
  std::size_t write_every = 64;  // requests
};

class Explanations final : public ExplainSink {
 public:
  Explanations(ExplanationsOptions options, os::FileSystem& files, os::Executor& executor);
  // Writes the offenders, and waits until they are written.
  ~Explanations() override;
  Explanations(const Explanations&) = delete;
  Explanations& operator=(const Explanations&) = delete;

  void on_explained(ExplainedRequest request) override;

  using Wanted = std::function<bool(const ExplainedRequest&)>;
  // The newest first, at most `most` of those that are wanted.
  std::vector<ExplainedRequest> last(std::size_t most, const Wanted& wanted) const;
  std::optional<ExplainedRequest> find(std::string_view id, const Wanted& wanted) const;
  // Those of all clients, with a disk over restarts. Lines of requests with a salt, and the names of their clients, are
  // left out, for their text is nobody else's.
  explain::Offenders offenders() const;
  // Those of the remembered requests that are wanted, with their lines.
  explain::Offenders offenders(const Wanted& wanted) const;

 private:
  void write();
  void read_anew();

  const ExplanationsOptions options_;
  os::FileSystem& files_;
  os::Executor& executor_;
  // Executor only:
  bool reported_failure_ = false;
  bool waits_for_file_ = false;  // another server may have written the file since it was read

  mutable Mutex mutex_;
  std::deque<ExplainedRequest> requests_ GUARDED_BY(mutex_);  // the oldest first
  explain::Offenders offenders_ GUARDED_BY(mutex_);
  explain::Offenders unkept_ GUARDED_BY(mutex_);  // of these, what is not in the file
  std::size_t unwritten_ GUARDED_BY(mutex_) = 0;
};

// ---- as JSON, and as a Server-Timing header; docs/explain.md describes every field. Pure ----

enum class BreakTexts {
  kNone,  // positions and kinds only
  kOwn,   // the request's own text, and that of the known prompt if its client sent or received it
  kAll,
};

// Returns null if the whole prompt was reused.
api::Json break_json(const FoundBreak& found, const JobStats& stats, BreakTexts texts);
// The reply of /cache/offenders: the worst, with the lines that differ if `with_lines`.
api::Json offenders_json(const explain::Offenders& offenders, bool with_lines);
// An entry of /cache/explain.
api::Json explained_json(const ExplainedRequest& request, BreakTexts texts);
// "queue;dur=0.1, restore;dur=12.4, prefill;dur=340.2, cache;desc=\"1830 of 1898 tokens, volatile-text\"". Times that
// are not known yet are left out.
std::string server_timing(const FoundBreak& found, const JobStats& stats);

// ---- the file of offenders ----

// Returns the offenders of a file, none if it is missing, damaged from its beginning on, or cannot be read.
explain::Offenders read_offenders(os::FileSystem& files, const std::string& path);

}  // namespace kvkeep::server
