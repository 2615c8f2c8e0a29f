#pragma once

// The trace: requests and audits as JSON, and the file of --trace. docs/trace.md describes every field.

#include <cstddef>
#include <cstdint>
#include <memory>

#include "base/mutex.h"
#include "base/vocabulary.h"
#include "cache/shared_access.h"
#include "os/append_file.h"
#include "os/executor.h"
#include "server/api/json_body.h"
#include "server/run/lookup.h"
#include "server/run/trace.h"

namespace kvkeep::server {

inline constexpr int kTraceVersion = 1;

// Returns one line of the trace. `private_text`: also a few tokens of both sides where prompts part, the other one
// perhaps another client's. Pure; thread safe, as the next two.
api::Json trace_json(const RequestTrace& trace, const Vocabulary& vocabulary, bool private_text);
api::Json trace_json(const AuditReport& report);

// Replaces the base64 of each file in a recorded body, of whatever dialect, by "kvkeep-media:KIND:HASH:BYTES": picture
// or sound, 32 digits of BLAKE3 of the base64, and its length. What is before it, as "data:image/png;base64,", stays.
// `kvkeep replay` knows the form (bench/run/stand_ins.cc).
void hide_media(api::Json& body);

// Returns the answer of /cache/lookup. `private_text`: also first_difference's known side, perhaps another client's.
api::Json lookup_json(const Inspection& found, const Vocabulary& vocabulary, bool private_text);
// The same with {index_only}.
api::Json stored_json(const cache::StoredPrefix& found, std::size_t prompt_tokens);

struct TraceLimits {
  std::size_t requests = 1024;  // that may wait to be written
  std::size_t bytes = std::size_t{64} << 20;
};

// The file of --trace: one line of JSON per request and per audit, written by a thread of its own.
//
// The engine thread only hands over plain data; rendering and writing happen on the executor. The number and bytes of
// waiting requests are bounded: requests beyond the bound are not traced, which is counted and logged once. A file that
// cannot be written is logged once and tried again with each line; requests never notice.
//
// Thread safe. The executor must outlive it.
class TraceFile final : public TraceSink {
 public:
  // `private_text`: see trace_json().
  TraceFile(os::AppendFile file, std::shared_ptr<const Vocabulary> vocabulary, os::Executor& executor,
            bool private_text, TraceLimits limits = {});
  // Waits until all lines are written, and logs how many are missing.
  ~TraceFile() override;

  void on_request(RequestTrace trace) override;
  void on_audit(const AuditReport& report) override;
  // Soon makes a new file if the file was renamed or removed; without it the next line does.
  void reopen();

  std::uint64_t dropped() const;  // requests for which there was no room
  std::uint64_t failed() const;   // requests whose line could not be written

 private:
  bool has_room(std::size_t bytes) EXCLUDES(mutex_);
  void made_room(std::size_t bytes) EXCLUDES(mutex_);
  void write(const api::Json& line);
  void note_written(const Status& status);

  os::AppendFile file_;  // executor only
  const std::shared_ptr<const Vocabulary> vocabulary_;
  os::Executor& executor_;
  const bool private_text_;
  const TraceLimits limits_;

  mutable Mutex mutex_;
  std::size_t waiting_ GUARDED_BY(mutex_) = 0;
  std::size_t waiting_bytes_ GUARDED_BY(mutex_) = 0;
  std::uint64_t dropped_ GUARDED_BY(mutex_) = 0;
  std::uint64_t failed_ GUARDED_BY(mutex_) = 0;
};

}  // namespace kvkeep::server
