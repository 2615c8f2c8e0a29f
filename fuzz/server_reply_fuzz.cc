// Replies of servers, as the replayer reads them: whatever comes, and however it is cut, gives the same facts. The
// first byte is the dialect, the second the status, the third cuts the rest.

#include "bench/sessions/dialect.h"
#include "bench/sessions/json_fields.h"
#include "fuzz.h"

namespace kvkeep::bench {
namespace {

template <typename Cut>
std::string facts_of(Dialect dialect, int status, std::string_view body, Cut cut) {
  ReplyReader reader(dialect, status);
  bool has_begun = false;
  while (!body.empty()) {
    const std::size_t size = std::min(body.size(), cut());
    const bool begins = reader.feed(body.substr(0, size));
    KVKEEP_ASSERT(begins || !has_begun, "what has begun has begun");
    has_begun = begins;
    body.remove_prefix(size);
  }
  const ReplyFacts facts = reader.finish();
  const auto count = [](const std::optional<std::uint64_t>& number) { return number ? Json(*number) : Json(nullptr); };
  return to_line(Json{facts.text, facts.message, facts.finish_reason, count(facts.prompt_tokens),
                      count(facts.cached_tokens), count(facts.prefilled_tokens), count(facts.reply_tokens),
                      facts.cache_source, facts.error, has_begun});
}

}  // namespace
}  // namespace kvkeep::bench

KVKEEP_FUZZ_TARGET(server_reply)(const std::uint8_t* data, std::size_t size) {
  using namespace kvkeep;
  fuzz::Input input(data, size);
  const auto dialect = static_cast<bench::Dialect>(input.number<std::uint8_t>() % 5);
  const int status = input.flag() ? 200 : 400;
  std::uint32_t state = input.number<std::uint8_t>();
  const std::string_view body = fuzz::text_of(input.rest());
  const std::string whole = bench::facts_of(dialect, status, body, [&] { return body.size(); });
  const auto cut = [&] { return std::size_t{1} + (state = state * 1664525 + 1013904223) % 50; };
  KVKEEP_ASSERT(bench::facts_of(dialect, status, body, cut) == whole, "cuts do not matter");
  return 0;
}
