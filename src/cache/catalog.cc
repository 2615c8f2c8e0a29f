#include "cache/catalog.h"

#include <algorithm>
#include <unordered_map>

namespace kvkeep::cache {

namespace {

// Tells whose segments are; forgotten ones, with all that goes on from them, are nobody's. A path may be as long as
// there are segments, so each is climbed once.
class Owners {
 public:
  Owners(const SegmentTable& table, const TenantScope& tenants) : table_(table), tenants_(tenants) {}

  bool own(SegmentId segment) REQUIRES(kCacheLock) {
    std::vector<SegmentId> climbed;
    SegmentId at = segment;
    while (!known_.contains(at) && table_.info(at).parent != kRootSegment && !table_.entry(at).forgotten) {
      climbed.push_back(at);
      at = table_.info(at).parent;
    }
    const auto [found, added] = known_.try_emplace(at, false);
    if (added) found->second = !table_.entry(at).forgotten && tenants_.has(table_.index().tenant(at));
    const bool is_own = found->second;
    for (const SegmentId below : climbed) known_.emplace(below, is_own);
    return is_own;
  }

 private:
  const SegmentTable& table_;
  const TenantScope& tenants_;
  std::unordered_map<SegmentId, bool> known_;
};

bool is_listed(const Entry& entry) { return entry.available() && !entry.is_leaf(); }

void add_sizes(const SegmentTable& table, SegmentId segment, ListedPrefix& listed) REQUIRES(kCacheLock) {
  const Entry& known = table.entry(segment);
  if (known.in_ram()) listed.ram += table.size_in(kRamTier, segment);
  if (known.on_disk()) listed.disk += table.size_in(kDiskTier, segment);
}

ListedPrefix describe(const SegmentTable& table, SegmentId segment) REQUIRES(kCacheLock) {
  const Entry& known = table.entry(segment);
  const index::SegmentInfo& info = table.info(segment);
  ListedPrefix listed{.segment = segment,
                      .parent = info.parent,
                      .hash = info.end_hash,
                      .range = info.range,
                      .hits = known.hits,
                      .last_used_ns = known.last_used_ns,
                      .kept_until_ns = known.kept_until_ns};
  add_sizes(table, segment, listed);
  for (const SegmentId leaf : table.index().leaves_of(segment)) {
    if (!table.entry(leaf).available()) continue;
    ++listed.points;
    add_sizes(table, leaf, listed);
  }
  return listed;
}

bool begins_with(const PrefixHash& hash, std::string_view digits) {
  return hash.hex(std::min<std::size_t>(32, (digits.size() + 1) / 2)).starts_with(digits);
}

SegmentId after(SegmentId segment) { return SegmentId{segment.value() + 1}; }

// Calls `visit` for each listed segment of these tenants.
template <typename Visit>
void for_each_own(const SegmentTable& table, const TenantScope& tenants, Visit visit) REQUIRES(kCacheLock) {
  Owners owners(table, tenants);
  for (SegmentId segment{1}; segment < table.end(); segment = after(segment)) {
    if (is_listed(table.entry(segment)) && owners.own(segment)) visit(segment);
  }
}

// The first of the segments before this one from which nothing else goes on.
SegmentId own_beginning(const SegmentTable& table, SegmentId segment) REQUIRES(kCacheLock) {
  const auto is_other = [&](SegmentId child) REQUIRES(kCacheLock) {
    return child != segment && table.info(child).kind == format::PartKind::kRows;
  };
  for (SegmentId above = table.info(segment).parent; above != kRootSegment; above = table.info(above).parent) {
    if (std::ranges::any_of(table.index().children(above), is_other)) break;
    segment = above;
  }
  return segment;
}

// Segments of which nothing that goes on from them must stay either, but those before them must.
std::vector<SegmentId> unused_beginnings(const SegmentTable& table, const ClearScope& scope, std::int64_t now_ns)
    REQUIRES(kCacheLock) {
  std::vector<bool> stays(table.end().value());
  stays[kRootSegment.value()] = true;
  std::vector<SegmentId> own;
  for_each_own(table, scope.tenants, [&](SegmentId segment) REQUIRES(kCacheLock) {
    own.push_back(segment);
    const Entry& known = table.entry(segment);
    const bool is_old = !scope.unused_ns || now_ns - known.last_used_ns > *scope.unused_ns;
    if (is_old && (!scope.unused_ns || known.kept_until_ns <= now_ns)) return;
    for (SegmentId above = segment; !stays[above.value()]; above = table.info(above).parent) {
      stays[above.value()] = true;  // what is used needs its path
    }
  });
  std::erase_if(own, [&](SegmentId segment) REQUIRES(kCacheLock) {
    return stays[segment.value()] || !stays[table.info(segment).parent.value()];
  });
  return own;
}

}  // namespace

Listing list_prefixes(const SegmentTable& table, SegmentId from, std::size_t most, const TenantScope& tenants) {
  Listing listing;
  Owners owners(table, tenants);
  SegmentId segment = after(from);
  for (std::size_t looked = 0; segment < table.end(); segment = after(segment), ++looked) {
    if (looked == kMostLooked || listing.prefixes.size() == most) {
      listing.next = SegmentId{segment.value() - 1};
      break;
    }
    if (is_listed(table.entry(segment)) && owners.own(segment)) listing.prefixes.push_back(describe(table, segment));
  }
  return listing;
}

std::vector<ListedPrefix> hottest_prefixes(const SegmentTable& table, std::size_t most, const TenantScope& tenants) {
  std::vector<std::uint32_t> hits_below(table.end().value());
  std::vector<SegmentId> used;
  for_each_own(table, tenants, [&](SegmentId segment) REQUIRES(kCacheLock) {
    std::uint32_t& below = hits_below[table.info(segment).parent.value()];
    below = std::max(below, table.entry(segment).hits);
    if (table.entry(segment).hits > 0) used.push_back(segment);
  });
  std::erase_if(used, [&](SegmentId segment)
                          REQUIRES(kCacheLock) { return table.entry(segment).hits == hits_below[segment.value()]; });
  const auto is_hotter = [&](SegmentId a, SegmentId b) REQUIRES(kCacheLock) {
    const Entry& first = table.entry(a);
    const Entry& second = table.entry(b);
    return first.hits != second.hits ? first.hits > second.hits : table.info(a).range.end > table.info(b).range.end;
  };
  const auto end = used.begin() + static_cast<std::ptrdiff_t>(std::min(most, used.size()));
  std::ranges::partial_sort(used, end, is_hotter);
  std::vector<ListedPrefix> hottest;
  for (auto segment = used.begin(); segment != end; ++segment) hottest.push_back(describe(table, *segment));
  return hottest;
}

Result<ListedPrefix> find_prefix(const SegmentTable& table, std::string_view digits, const TenantScope& tenants) {
  std::vector<SegmentId> found;
  Owners owners(table, tenants);
  for (SegmentId segment{1}; segment < table.end(); segment = after(segment)) {
    if (!is_listed(table.entry(segment)) || !begins_with(table.info(segment).end_hash, digits)) continue;
    if (owners.own(segment)) found.push_back(segment);
  }
  if (found.empty()) return not_found("no cached prefix has this id");
  if (found.size() > 1) return invalid("several cached prefixes have ids that begin so: give more digits");
  return describe(table, found.front());
}

Result<std::vector<SegmentId>> beginnings_to_clear(const SegmentTable& table, const ClearScope& scope,
                                                   std::int64_t now_ns) {
  std::optional<SegmentId> top;
  if (scope.below) {
    TRY_ASSIGN(const ListedPrefix named, find_prefix(table, scope.below->hex(), scope.tenants));
    top = named.segment;
  }
  if (top && scope.with_own_beginning) top = own_beginning(table, *top);
  if (top && !scope.unused_ns) return std::vector{*top};
  std::vector<SegmentId> beginnings = unused_beginnings(table, scope, now_ns);
  std::erase_if(beginnings, [&](SegmentId segment) REQUIRES(kCacheLock) {
    return top && std::ranges::count(table.index().path(segment), *top) == 0;
  });
  return beginnings;
}

void count_cleared(const SegmentTable& table, SegmentId beginning, Cleared& sum) {
  for (const SegmentId segment : table.subtree(beginning)) {
    if (!is_listed(table.entry(segment))) continue;
    const ListedPrefix listed = describe(table, segment);
    ++sum.prefixes;
    sum.tokens += listed.range.size();
    sum.ram += listed.ram;
    sum.disk += listed.disk;
  }
}

}  // namespace kvkeep::cache
