#include "server/trace/trace_file.h"

#include <spdlog/spdlog.h>

#include <utility>

#include "server/trace/trace_json.h"

namespace kvkeep::server {

namespace {

// The approximate size of a trace: that of the parts that may be large.
std::size_t size_of(const RequestTrace& trace) {
  std::size_t bytes = sizeof(RequestTrace) + trace.reply.size() * sizeof(TokenId) +
                      trace.cuts.size() * sizeof(TraceCut) +
                      trace.explanation.candidates.size() * sizeof(policy::Candidate);
  if (trace.origin != nullptr) bytes += trace.origin->body.size();
  return bytes;
}

}  // namespace

TraceFile::TraceFile(os::AppendFile file, std::shared_ptr<const Vocabulary> vocabulary, os::Executor& executor,
                     TraceLimits limits)
    : file_(std::move(file)), vocabulary_(std::move(vocabulary)), executor_(executor), limits_(limits) {}

TraceFile::~TraceFile() {
  executor_.drain();
  const MutexLock lock(mutex_);
  if (dropped_ + failed_ == 0) return;
  spdlog::warn("trace: {} requests are missing: {} because too many waited to be written, {} because of errors",
               dropped_ + failed_, dropped_, failed_);
}

void TraceFile::on_request(RequestTrace trace) {
  const std::size_t bytes = size_of(trace);
  if (!has_room(bytes)) return;
  executor_.post([this, bytes, held = std::make_shared<const RequestTrace>(std::move(trace))] {
    write(trace_json(*held, *vocabulary_));
    made_room(bytes);
  });
}

void TraceFile::on_audit(const AuditReport& report) {
  if (!has_room(sizeof report)) return;
  executor_.post([this, report] {
    write(trace_json(report));
    made_room(sizeof report);
  });
}

// A trace that waits by itself is never too large.
bool TraceFile::has_room(std::size_t bytes) {
  const MutexLock lock(mutex_);
  const bool full = waiting_ >= limits_.requests || (waiting_ > 0 && waiting_bytes_ + bytes > limits_.bytes);
  if (full) {
    if (dropped_++ == 0) spdlog::warn("trace: requests come faster than they are written; lines will be missing");
    return false;
  }
  ++waiting_;
  waiting_bytes_ += bytes;
  return true;
}

void TraceFile::made_room(std::size_t bytes) {
  const MutexLock lock(mutex_);
  --waiting_;
  waiting_bytes_ -= bytes;
}

void TraceFile::write(const api::Json& line) { note_written(file_.append(api::to_line(line) + "\n")); }

void TraceFile::note_written(const Status& status) {
  if (status) return;
  const MutexLock lock(mutex_);
  if (failed_++ == 0) spdlog::warn("trace: {}; serving without it", status.error().message);
}

std::uint64_t TraceFile::dropped() const {
  const MutexLock lock(mutex_);
  return dropped_;
}

std::uint64_t TraceFile::failed() const {
  const MutexLock lock(mutex_);
  return failed_;
}

}  // namespace kvkeep::server
