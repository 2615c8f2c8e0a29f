#pragma once

// Offenders: what keeps prompts from being reused, added up by client and place. "In 41 of 50 requests the line 'Today
// is' of the system prompt differed, which cost 1.1 million tokens."
//
// Bounded: of too many offenders one leaves that was not seen for longest, among the half that cost least. A new one
// can thus add up, and those that cost most stay; but what was mended long ago counts less and less in that choice,
// until it leaves as well. Of too many clients the one leaves that was seen longest ago. Not thread safe.

#include <cstdint>
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "explain/cache_break.h"

namespace kvkeep::explain {

struct Offender {
  std::string client;
  std::string place;  // place_name()
  std::string kind;   // to_string(BreakKind)
  std::string what;   // to_string(VolatileText) of a volatile text, else ""
  std::string line;   // the beginning of the line that differs, which both sides share; "": it is private
  std::uint64_t times = 0;
  std::uint64_t lost_tokens = 0;
  double lost_ms = 0;
  std::int64_t last_ns = 0;
  bool operator==(const Offender&) const = default;
};

class Offenders {
 public:
  struct Client {
    std::uint64_t requests = 0;
    std::int64_t last_ns = 0;
    bool operator==(const Client&) const = default;
  };

  static constexpr std::size_t kMostOffenders = 256;
  static constexpr std::size_t kMostClients = 64;
  static constexpr std::size_t kMostTextBytes = 80;

  // A request of the client ended. `now_ns`: by the wall clock; 0: not known.
  void count(const std::string& client, std::int64_t now_ns = 0);
  // It lost tokens for this reason. Ignores breaks that cost next to nothing.
  void add(const std::string& client, const CacheBreak& found, const std::string& line, double lost_ms,
           std::int64_t now_ns);
  // From an earlier process: adds up with what is there.
  void merge(const Offender& offender);
  void merge_client(const std::string& client, const Client& counted);
  void merge(const Offenders& other);

  // The worst first: those that cost most tokens.
  std::vector<Offender> worst() const;
  // 0 if the client left.
  std::uint64_t requests_of(const std::string& client) const;
  const std::map<std::string, Client>& clients() const { return clients_; }

 private:
  using Key = std::tuple<std::string, std::string, std::string, std::string, std::string>;

  void drop_one();

  std::map<Key, Offender> offenders_;
  std::map<std::string, Client> clients_;
};

// "claude-cli: 41 of 50 requests: volatile-text (date) in system, after "Today is": 1,100,000 tokens (18.3 min)
// prefilled again". Without the time if none is known, as in recordings.
std::string offence_text(const Offender& offender, std::uint64_t requests);
// The advice for its kind; "" for a kind that this version does not know.
std::string_view offence_advice(const Offender& offender);

}  // namespace kvkeep::explain
