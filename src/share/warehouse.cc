#include "share/warehouse.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "base/assert.h"
#include "os/process.h"
#include "share/recent_names.h"

namespace kvkeep::share {
namespace {

constexpr std::int64_t kAnswerNs = 10'000'000'000;
constexpr std::uint64_t kSlowestBytesPerS = 1 << 20;
constexpr std::int64_t kTidyAfterPutNs = 20'000'000;  // after each object, where something is to be done
// Heads that one call asks for: enough for a round trip to cost little.
constexpr std::size_t kLeastAtOnce = 64;

bool may_pass(const Error& error) { return error.kind == ErrorKind::kIo || error.kind == ErrorKind::kBusy; }

Error named(const EngineAccess& access, const Error& error) {
  return {error.kind, access.engine.address() + ": " + error.message};
}

// Calls until it succeeds, the trouble is none that passes, or it was tried often enough.
template <typename Call>
auto patiently(const EngineAccess& access, const Call& call) {
  auto outcome = call();
  for (int tries = 1; !outcome.ok() && may_pass(outcome.error()); ++tries) {
    if (!access.wait(tries, outcome.error())) return decltype(outcome)(named(access, outcome.error()));
    outcome = call();
  }
  return outcome;
}

std::uint64_t random_writer() {
  std::uint64_t number = 0;
  os::fill_random(std::as_writable_bytes(std::span(&number, 1)));
  return number;
}

Vault::Identity with_writer(Vault::Identity identity) {
  identity.writer = random_writer();
  return identity;
}

}  // namespace

bool Patience::wait(int tries, const Error& trouble) {
  constexpr std::int64_t kPauseMs = 1'000;  // a server that restarts is there after one or two
  const std::int64_t now_ns = clock_.monotonic_ns();
  if (tries == 1) began_ns_ = now_ns;
  if (now_ns - began_ns_ >= kLongestNs) was_in_vain_ = true;
  if (was_in_vain_) return false;
  if (tries == 1) tell_(trouble);
  pause_(tries * kPauseMs);
  return true;
}

Result<std::vector<ObjectName>> list_names(const EngineAccess& access, const std::string& space) {
  std::vector<ObjectName> names;
  std::string from;
  do {
    TRY_ASSIGN(NamesPage page, patiently(access, [&] {
                 return access.engine.list(space, from, access.clock.monotonic_ns() + kAnswerNs);
               }));
    if (names.size() + page.names.size() > kMostListedObjects) {
      return no_space("the shared tier has more objects than this program lists");
    }
    std::ranges::move(page.names, std::back_inserter(names));
    if (!page.next.empty() && page.next == from) return damaged("a list of objects does not go on");
    from = std::move(page.next);
  } while (!from.empty());
  std::ranges::sort(names);
  names.erase(std::unique(names.begin(), names.end()), names.end());
  return names;
}

Warehouse::Warehouse(EngineAccess access, Vault::Identity identity, std::int64_t ttl_s)
    : access_(std::move(access)), vault_(with_writer(std::move(identity))), ttl_s_(ttl_s) {}

std::int64_t Warehouse::deadline_ns(std::uint64_t bytes) const {
  const std::uint64_t transfer_s = bytes / kSlowestBytesPerS;
  return access_.clock.monotonic_ns() + kAnswerNs + static_cast<std::int64_t>(transfer_s) * kSecondNs;
}

// Answers that may pass are asked for again, only they.
std::vector<HeadBytes> Warehouse::ask(const std::vector<ObjectName>& names, std::size_t first_bytes,
                                      const Asked& asked) {
  std::vector<HeadBytes> answers;
  const std::size_t at_once =
      heads_in_one_call(std::max(access_.engine.pace().heads_at_once, kLeastAtOnce), first_bytes);
  for (std::size_t from = 0; from < names.size(); from += at_once) {
    const auto begin = names.begin() + static_cast<std::ptrdiff_t>(from);
    std::vector<ObjectName> left(begin, begin + static_cast<std::ptrdiff_t>(std::min(at_once, names.size() - from)));
    std::vector<std::size_t> places(left.size());
    std::iota(places.begin(), places.end(), answers.size());
    answers.resize(answers.size() + left.size(), HeadBytes(not_found("not asked for")));
    for (int tries = 1; !left.empty(); ++tries) {
      std::vector<HeadBytes> given = access_.engine.heads(left, first_bytes, deadline_ns(left.size() * first_bytes));
      KVKEEP_ASSERT(given.size() == left.size(), "an engine answers for each name");
      std::vector<ObjectName> again;
      std::vector<std::size_t> again_places;
      for (std::size_t i = 0; i < given.size(); ++i) {
        if (!given[i].ok() && may_pass(given[i].error())) {
          again.push_back(std::move(left[i]));
          again_places.push_back(places[i]);
        }
        answers[places[i]] = std::move(given[i]);
      }
      left = std::move(again);
      places = std::move(again_places);
      if (left.empty() || access_.wait(tries, answers[places.front()].error())) continue;
      for (const std::size_t place : places) answers[place] = named(access_, answers[place].error());
      break;
    }
    if (asked) asked(answers.size());
  }
  return answers;
}

Result<std::vector<bool>> Warehouse::has(const std::vector<ObjectName>& names, const Asked& asked) {
  std::vector<bool> there;
  const std::vector<HeadBytes> answers = ask(names, format::kEnvelopeBytes, asked);
  for (std::size_t i = 0; i < names.size(); ++i) {
    const HeadBytes& answer = answers[i];
    if (!answer.ok() && answer.error().kind != ErrorKind::kNotFound) return answer.error();
    there.push_back(answer.ok() && vault_.open_envelope(names[i], *answer).ok());
  }
  return there;
}

// First the envelopes, which tell the sizes, then heads of about one size at once.
std::vector<Result<format::SharedHead>> Warehouse::heads(const std::vector<ObjectName>& names, const Asked& asked) {
  std::vector<Result<format::SharedHead>> heads(names.size(),
                                                Result<format::SharedHead>(not_found("it is not there any more")));
  const std::vector<HeadBytes> envelopes = ask(names, format::kEnvelopeBytes, asked);
  std::vector<std::pair<std::size_t, std::size_t>> sizes;  // and places
  for (std::size_t i = 0; i < names.size(); ++i) {
    const auto envelope = envelopes[i].ok() ? vault_.open_envelope(names[i], *envelopes[i])
                                            : Result<format::Envelope>(envelopes[i].error());
    if (envelope.ok()) {
      sizes.emplace_back(envelope->head_bytes(), i);
    } else {
      heads[i] = envelope.error();
    }
  }
  std::ranges::sort(sizes);
  for (std::size_t from = 0, end = 0; from < sizes.size(); from = end) {
    std::vector<ObjectName> together;
    while (end < sizes.size() && end - from < kLeastAtOnce && sizes[end].first <= 2 * sizes[from].first) {
      together.push_back(names[sizes[end++].second]);
    }
    const std::vector<HeadBytes> whole = ask(together, sizes[end - 1].first, {});
    for (std::size_t i = from; i < end; ++i) {
      const std::size_t place = sizes[i].second;
      const HeadBytes& bytes = whole[i - from];
      heads[place] = bytes.ok() ? vault_.open_head(names[place], *bytes) : Result<format::SharedHead>(bytes.error());
    }
  }
  return heads;
}

Result<std::shared_ptr<const store::Payload>> Warehouse::payload(const format::SharedHead& head) {
  const ObjectName name = name_of(head.segment.name);
  const std::uint64_t size = head.envelope.payload_bytes;
  const PayloadSlice whole{.head_bytes = head.envelope.head_bytes(), .begin = 0, .payload_bytes = size};
  auto buffer = store::PayloadBuffer::allocate(size);
  TRY(patiently(access_,
                [&] { return access_.engine.get(name, whole, buffer.span(), [](std::size_t) {}, deadline_ns(size)); }));
  Vault::Opening opening(vault_, name, head.envelope, buffer.span());
  return unpack(opening, head.segment, std::move(buffer));
}

Status Warehouse::write(const ObjectName& name, ByteSpan head, ByteSpan payload) {
  return patiently(access_, [&] {
    return access_.engine.put(name, head, payload, ttl_s_, deadline_ns(head.size() + payload.size()));
  });
}

Status Warehouse::put(const Publication& publication) {
  const Vault::Sealed sealed =
      vault_.seal(publication.segment, publication.path, publication.payload->bytes(), Cipher::random_salt());
  TRY(write(sealed.name, sealed.head, sealed.payload));
  access_.engine.tidy(ttl_s_, access_.clock.monotonic_ns() + kTidyAfterPutNs);
  return {};
}

std::vector<Result<std::vector<std::byte>>> Warehouse::records(const std::vector<ObjectName>& names) {
  const std::vector<HeadBytes> answers = ask(names, format::kMostStoredRecordBytes, {});
  std::vector<Result<std::vector<std::byte>>> records;
  for (std::size_t i = 0; i < names.size(); ++i) {
    records.push_back(answers[i].ok() ? vault_.open_record(names[i], *answers[i]) : answers[i]);
  }
  return records;
}

Status Warehouse::put_record(const PrefixHash& key, ByteSpan contents) {
  if (contents.size() > format::kMostRecordBytes) return invalid("a record is too large");
  const ObjectName name = vault_.record_name(key);
  return write(name, vault_.seal_record(name, contents, Cipher::random_salt()), {});
}

}  // namespace kvkeep::share
