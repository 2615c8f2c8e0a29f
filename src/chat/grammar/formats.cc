// Formats that are enforced, each as a pattern.

#include <array>

#include "chat/grammar/schema_writer.h"

namespace kvkeep::chat::grammar {
namespace {

struct Format {
  std::string_view name;
  std::string_view pattern;
};

// Existing days: 29 February only in leap years. No year 0, which date libraries do not accept.
#define KVKEEP_YEAR "(?:000[1-9]|00[1-9][0-9]|0[1-9][0-9]{2}|[1-9][0-9]{3})"
#define KVKEEP_LEAP_YEAR "(?:[0-9]{2}(?:0[48]|[2468][048]|[13579][26])|(?:0[48]|[2468][048]|[13579][26])00)"
#define KVKEEP_DATE                                                                                                    \
  "(?:" KVKEEP_YEAR                                                                                                    \
  "-(?:(?:0[13578]|1[02])-(?:0[1-9]|[12][0-9]|3[01])|(?:0[469]|11)-(?:0[1-9]|[12][0-9]|30)|02-(?:0[1-9]|1[0-9]|2[0-8]" \
  "))"                                                                                                                 \
  "|" KVKEEP_LEAP_YEAR "-02-29)"
#define KVKEEP_TIME \
  "(?:[01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](?:\\.[0-9]{1,9})?(?:Z|[+-](?:[01][0-9]|2[0-3]):[0-5][0-9])"
#define KVKEEP_OCTET "(?:[0-9]|[1-9][0-9]|1[0-9]{2}|2[0-4][0-9]|25[0-5])"
#define KVKEEP_LABEL "[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?"

constexpr std::array kFormats = std::to_array<Format>({
    {"date", "^" KVKEEP_DATE "$"},
    {"time", "^" KVKEEP_TIME "$"},
    {"date-time", "^" KVKEEP_DATE "T" KVKEEP_TIME "$"},
    {"uuid", "^[0-9A-Fa-f]{8}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{12}$"},
    {"ipv4", "^" KVKEEP_OCTET "(?:\\." KVKEEP_OCTET "){3}$"},
    {"email", "^[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]{1,32}(?:\\.[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]{1,15}){0,2}@" KVKEEP_LABEL
              "(?:\\." KVKEEP_LABEL "){1,3}$"},
    {"hostname", "^" KVKEEP_LABEL "(?:\\." KVKEEP_LABEL "){0,3}$"},
});

}  // namespace

std::string_view pattern_of_format(std::string_view format) {
  for (const Format& known : kFormats) {
    if (known.name == format) return known.pattern;
  }
  return "";
}

}  // namespace kvkeep::chat::grammar
