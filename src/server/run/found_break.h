#pragma once

// Why a request reused no more, as plain data: found on the engine thread when its prefill begins, and shown in its
// reply, the log, the trace and /cache/explain. docs/explain.md describes it for users.

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "base/types.h"
#include "explain/cache_break.h"
#include "server/run/job.h"

namespace kvkeep::server {

// The facts about a request's prompt and sender that explanations need; only the HTTP side knows them. Immutable.
struct Asker {
  std::shared_ptr<const PromptParts> parts = {};  // where the prompt's text came from; null: it has no messages
  std::uint64_t owner = 0;                        // whose text it is: of the key or address, and the tenant
  std::uint64_t named_session = 0;                // the session that the client names, whatever its tenant; 0: none
  std::uint64_t conversation = 0;                 // that the client names: a session, or the agent in it; 0: none
  std::string program = {};                       // the name of the client's program; "": it does not say
};
// Those of a job; of one that has none, the values above.
const Asker& asker_of(const Job& job);

// The part of the texts on both sides of a difference that is shown. Bytes; a character may be cut at either end.
struct ShownTexts {
  std::string before;
  std::string here;
  std::string there;
  bool shows_there = false;  // the client itself sent or received the known text; else it is another client's
};

struct FoundBreak {
  explain::CacheBreak found;
  ShownTexts texts;  // empty unless found.differs
  std::string line;  // the beginning of the line that differs, for offenders: text that both sides share
};

// A request at its end, for those who explain it later. `found` is null if it never began.
struct ExplainedRequest {
  std::string id;
  std::string kind;
  std::uint64_t owner = 0;  // as of its Asker
  Tenant tenant = kNoTenant;
  std::string client;         // the name of its program; "": it does not say
  std::int64_t ended_ns = 0;  // by the wall clock
  JobStats stats;
  std::shared_ptr<const FoundBreak> found;
};

// What became of a break when its request ended: of the lost tokens only those count that were prefilled, for a client
// may leave before. Null if `found` is. What is found stays as it is.
std::shared_ptr<const FoundBreak> at_end(std::shared_ptr<const FoundBreak> found, const JobStats& stats);

// Prefill time that the lost tokens took, in milliseconds, at the rate of this request's own prefill.
double lost_ms(const explain::CacheBreak& found, const JobStats& stats);

// Receives each request that began, on the engine thread; must return at once.
class ExplainSink {
 public:
  virtual ~ExplainSink() = default;
  virtual void on_explained(ExplainedRequest request) = 0;
};

}  // namespace kvkeep::server
