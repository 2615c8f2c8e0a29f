#pragma once

// Lists the known prefixes of a client's tenants for people who look at a running server, and names those that a person
// wants to be forgotten. These are queries of the table, which change nothing. Call them with the cache's lock.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "base/tenant_scope.h"
#include "cache/segment_table.h"

namespace kvkeep::cache {

// A known segment of rows, with the leaves in it.
struct ListedPrefix {
  SegmentId segment;    // its number, as long as it is known
  SegmentId parent;     // the root: it begins a prompt
  PrefixHash hash;      // of all tokens up to its end
  TokenRange range;     // its own tokens
  ByteCount ram = {};   // leaves included
  ByteCount disk = {};  // the same
  std::uint32_t points = 0;
  std::uint32_t hits = 0;  // uses since this server started
  std::int64_t last_used_ns = 0;
  std::int64_t kept_until_ns = 0;  // 0: not kept
};

// The state to forget, of a client's tenants.
struct ClearScope {
  TenantScope tenants = kNoTenant;
  std::optional<PrefixHash> below = {};        // only the prefix of this name and everything that goes on from it
  bool with_own_beginning = false;             // and what is before it, as far as nothing else goes on from that
  std::optional<std::int64_t> unused_ns = {};  // only state that was unused for so long, and is not kept
};

struct Cleared {
  std::uint64_t prefixes = 0;  // listed ones
  std::uint64_t tokens = 0;
  ByteCount ram;
  ByteCount disk;
};

// A page of them, by ascending number.
struct Listing {
  std::vector<ListedPrefix> prefixes;
  std::optional<SegmentId> next;  // there may be more after this number
};

// At most `most` prefixes after the number `after`. Looks at no more than kMostLooked segments.
inline constexpr std::size_t kMostLooked = 1 << 16;
Listing list_prefixes(const SegmentTable& table, SegmentId after, std::size_t most, const TenantScope& tenants)
    REQUIRES(kCacheLock);

// Those that were used most, of equal ones the longest; of a path only ends after which it was used less. Cost:
// O(segments).
std::vector<ListedPrefix> hottest_prefixes(const SegmentTable& table, std::size_t most, const TenantScope& tenants)
    REQUIRES(kCacheLock);

// The prefix whose hash begins with these hexadecimal digits. kNotFound: none of these tenants'; kInvalid: several.
// Cost: O(segments).
Result<ListedPrefix> find_prefix(const SegmentTable& table, std::string_view digits, const TenantScope& tenants)
    REQUIRES(kCacheLock);

// Segments that together with everything below them are what is to be cleared. kNotFound if the named prefix is not
// known. Cost: O(segments).
Result<std::vector<SegmentId>> beginnings_to_clear(const SegmentTable& table, const ClearScope& scope,
                                                   std::int64_t now_ns) REQUIRES(kCacheLock);
// Adds up a segment and everything below it.
void count_cleared(const SegmentTable& table, SegmentId beginning, Cleared& sum) REQUIRES(kCacheLock);

}  // namespace kvkeep::cache
