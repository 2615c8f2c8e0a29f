#pragma once

// Recorded sessions: the requests that a client sent, with their times, as values. Three sources:
//
//   JSONL   one request a line: {"t": seconds, "method", "path", "headers": {}, "body": {}, ...}; "client", "session",
//           "kind", "turn", "inflight", "reply_status" and "reply" are used if they are there
//   trace   kvkeep's own (--trace), which is such JSONL
//   HAR     HTTP Archive 1.2, as browsers and proxies save it
//   body    of a request alone, over any number of lines, or several, one a line
//
// docs/bench.md describes the JSONL fields for users.

#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"

namespace kvkeep::bench {

struct RecordedRequest {
  double sent_s = 0;  // since the first request of the session
  std::string label;  // for people: "main turn 3"
  std::string method;
  std::string path;  // with its query
  // Only headers that a server's answer depends on (content type, API version and betas, session ids); keys and
  // hop-by-hop fields are left out.
  std::vector<std::pair<std::string, std::string>> headers;
  nlohmann::ordered_json body;         // as it was sent, with its key order; null: none; a string: no JSON
  std::optional<int> recorded_status;  // of the recorded reply
  std::optional<nlohmann::ordered_json> recorded_reply;  // the assistant's message, if the recording has it
  std::uint32_t in_flight = 1;  // requests under way when it was sent, including itself; 1 if not recorded
};

struct Session {
  std::string name;                       // "opencode-oai 01-fresh", or the file's name
  std::string client;                     // empty: unknown
  std::vector<RecordedRequest> requests;  // by time, at least one
  std::size_t stand_ins = 0;              // files that the recording lacks, and others stand in their places
};

// Recognises the formats by content. kInvalid with "FILE:LINE: reason" (for an archive, "FILE: entry N: reason").
// Lines that are no chat request (GET, HEAD, token counting, telemetry) are kept: replay sends them, too. From a HAR
// file only requests to hosts that were asked for a chat reply are kept: a browser's archive is full of others.
// Recordings that were appended to one another (cat) are played one after the other. At most 1 GiB of text and 100,000
// requests.
Result<Session> parse_session(const std::string& file_name, std::string_view text);

// Returns, for each request, the earlier ones that had ended when it was sent but not when its predecessor was, by
// their place in session.requests. A recording says how many requests were under way (in_flight), not which: a request
// whose conversation this one continues has ended; of the others, the ones sent last are taken to be under way.
std::vector<std::vector<std::size_t>> ended_before(const Session& session);

}  // namespace kvkeep::bench
