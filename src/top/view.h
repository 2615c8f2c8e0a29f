#pragma once

// A server as its routes describe it: GET /cache, /cache/explain and /cache/offenders. A field that a reply lacks keeps
// its default, so that this program shows servers of other versions, too. Pure.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace kvkeep::top {

// Tokens of prompts by where they came from.
struct Tokens {
  std::uint64_t memory = 0;
  std::uint64_t ram = 0;
  std::uint64_t disk = 0;
  std::uint64_t shared = 0;  // the tier that several machines share
  std::uint64_t prefilled = 0;

  std::uint64_t cached() const { return memory + ram + disk + shared; }
  std::uint64_t sum() const { return cached() + prefilled; }
};

struct Tier {
  std::string name;        // "memory", "ram", "disk", "shared"
  std::uint64_t used = 0;  // bytes; of the model's own memory tokens
  std::optional<std::uint64_t> budget = {};
};

// Why a request reused no more (docs/explain.md).
struct Cause {
  std::string kind = {};  // "volatile-text"; "none": the whole prompt was known
  std::string place = {};
  std::optional<std::uint64_t> at_token = {};
  std::uint64_t lost_tokens = 0;  // prefilled although they were computed before
  double lost_s = 0;
  std::string advice = {};
};

struct RequestView {
  std::string id = {};         // of one that ended
  std::uint64_t number = 0;    // of one that runs
  std::string state = {};      // of one that runs: "waiting", "loading", "prefilling", "decoding"
  std::string waits_for = {};  // of one that runs: "place", "prefix", "cells", "disk", "turn", "encoder"; "": none
  std::string client = {};     // or its dialect
  std::uint64_t prompt_tokens = 0;
  Tokens tokens = {};
  std::uint64_t reply_tokens = 0;
  std::optional<double> ttft_ms = {};       // from its arrival on; none before its first token
  std::optional<double> tokens_per_s = {};  // of the reply; none before its second token
  double ended_s = 0;                       // by the wall clock, since 1970
  std::string end = {};                     // "stop", "length", "client-left", "error"
  std::optional<Cause> cause = {};
};

// A cause that kept prompts from being reused (docs/explain.md).
struct Offender {
  std::string client = {};
  std::string kind = {};  // "volatile-text"
  std::string what = {};  // "date"
  std::string place = {};
  std::string line = {};  // that differs; "": the server does not show it
  std::uint64_t times = 0;
  std::uint64_t requests = 0;  // of that client
  std::uint64_t lost_tokens = 0;
  double lost_s = 0;
  double last_s = 0;  // by the wall clock, since 1970
  std::string advice = {};
};

// A stored prefix.
struct Prefix {
  std::string id = {};
  std::uint64_t tokens = 0;  // up to its end
  std::uint64_t uses = 0;
  std::uint64_t ram_bytes = 0;
  std::uint64_t disk_bytes = 0;
  double last_use_s = 0;
  bool pinned = false;
};

// Requests with one salt, or with none.
struct TenantView {
  std::uint64_t number = 0;
  bool own = false;  // the asking client's
  bool salted = false;
  std::uint64_t requests = 0;
  std::uint64_t prompt_tokens = 0;
  std::uint64_t cached_tokens = 0;
  std::uint64_t prefilled_tokens = 0;
  std::uint64_t ram_bytes = 0;
  std::uint64_t disk_bytes = 0;
  double last_s = 0;
};

struct View {
  std::string model = {};
  std::string memory_class = {};
  std::optional<double> uptime_s = {};
  std::uint64_t requests = 0;  // that were accepted
  std::uint64_t waiting = 0;
  Tokens totals = {};
  std::optional<double> saved_s = {};       // since the server's start
  std::optional<double> saved_ever_s = {};  // of all servers on its directory
  std::uint64_t again_tokens = 0;           // of the prefilled ones, those that were computed before
  std::vector<Tier> tiers = {};
  std::vector<std::string> problems = {};
  std::vector<RequestView> running = {};
  std::vector<RequestView> past = {};    // the last one first
  std::vector<Offender> offenders = {};  // the worst first
  std::vector<Prefix> hottest = {};      // those used most first
  std::vector<TenantView> tenants = {};  // the one that came last first
};

// Reads a reply of GET /cache, of a body that may come from any program at that address; causes and clients of past
// requests stay unknown. kInvalid if it is not JSON of this kind; the view is then as before.
Status read_cache(std::string_view body, View& view);
// Adds why past requests reused no more, and whose they are, from a reply of GET /cache/explain. kInvalid as above.
Status read_explained(std::string_view body, View& view);
// Reads the causes that cost most from a reply of GET /cache/offenders. kInvalid as above.
Status read_offenders(std::string_view body, View& view);

}  // namespace kvkeep::top
