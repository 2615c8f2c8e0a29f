#include "cache/seeking.h"

#include <algorithm>
#include <utility>

#include "cache/cache_options.h"
#include "policy/share.h"

namespace kvkeep::cache {

namespace {

// Window rows are asked for at so many ends of a found path: a window covers few segments.
constexpr std::size_t kMostWindows = 32;

// Returns the kind of state that lies at the end of a path where a sequence can be restored. Windows lie before many
// ends, so rows decide how deep to go.
format::PartKind wanted_kind(const StateShape& shape) {
  const bool by_rows = !shape.needs_points() || shape.window_tokens > 0;
  return by_rows ? format::PartKind::kRows : point_kind(shape);
}

}  // namespace

void Seeking::seek(SeekOrder order, std::function<void(SeekResult)> done) {
  searcher_.post([this, asked = std::make_shared<SeekOrder>(std::move(order)), done = std::move(done)] {
    done(asked->begins() ? answer(*asked) : SeekResult{});
  });
}

std::optional<double> Seeking::patience_ms(TokenSpan prompt, const Tenant& tenant) const {
  if (!policy::worth_searching(prompt.size(), Position{})) return std::nullopt;
  return patience_ms(prompt, known_end(prompt, tenant));
}

std::optional<double> Seeking::patience_ms(TokenSpan prompt, Position known) const {
  if (!possible() || !policy::worth_searching(prompt.size(), known)) return std::nullopt;
  const policy::Rates rates{.prefill_tokens_per_s = tier_.prefill_tokens_per_s()};
  const double patience_ms = policy::search_patience_ms(prompt.size() - known.value(), rates);
  if (policy::search_ms(store_.latency_ms()) > patience_ms) return std::nullopt;
  return patience_ms;
}

// More may be known by now than when the search was ordered.
SeekResult Seeking::answer(const SeekOrder& order) {
  SeekResult result;
  const Position known = known_end(order.prompt, order.tenant);
  const std::optional<double> patience = patience_ms(order.prompt, known);
  if (!patience) return result;
  const std::int64_t begin_ns = clock_.monotonic_ns();
  const std::int64_t deadline_ns = begin_ns + static_cast<std::int64_t>(*patience * 1e6);
  std::vector<format::SegmentHeader> found = find(order, known, deadline_ns, result);
  if (!found.empty()) adopt(std::move(found), order.tenant);
  result.ms = os::elapsed_ms(begin_ns, clock_.monotonic_ns());
  return result;
}

// The last position to which a sequence can be restored by what is known here.
Position Seeking::known_end(TokenSpan prompt, const Tenant& tenant) const {
  const StateShape& shape = table_.shape();
  CacheLock lock(mutex_);
  Position end;
  for (const index::Step& step : table_.index().match(prompt, tenant)) {
    if (!table_.entry(step.segment).available()) break;
    if (!shape.needs_points() || shape.window_tokens > 0) {
      end = step.range.end;
      continue;
    }
    for (const SegmentId leaf : table_.index().leaves_of(step.segment)) {
      const index::SegmentInfo& info = table_.info(leaf);
      const bool counts = info.kind == point_kind(shape) && info.range.end <= step.range.end;
      if (counts && table_.entry(leaf).available()) end = std::max(end, info.range.end);
    }
  }
  return end;
}

// Heads of segments and leaves, each after the rows in which it lies.
std::vector<format::SegmentHeader> Seeking::find(const SeekOrder& order, Position known, std::int64_t deadline_ns,
                                                 SeekResult& result) {
  const share::ShareQuery query{.prompt = order.prompt,
                                .tenant = order.tenant,
                                .kind = wanted_kind(table_.shape()),
                                .ends = policy::probable_ends(order.prompt.size(), known, order.markers),
                                .known = known};
  result.asked = true;
  std::optional<share::SharedPath> path = store_.find(query, deadline_ns);
  std::vector<format::SegmentHeader> found;
  if (!path) return found;
  result.found = path->end;
  for (format::SharedHead& head : path->rows) found.push_back(std::move(head.segment));
  if (path->leaf) found.push_back(std::move(path->leaf->segment));
  if (table_.shape().window_tokens > 0) add_windows(order, deadline_ns, found);
  return found;
}

void Seeking::add_windows(const SeekOrder& order, std::int64_t deadline_ns, std::vector<format::SegmentHeader>& found) {
  share::ShareQuery query{
      .prompt = order.prompt, .tenant = order.tenant, .kind = format::PartKind::kWindowRows, .ends = {}, .known = {}};
  for (const format::SegmentHeader& rows : found) {
    if (rows.name.end.value() <= order.prompt.size()) query.ends.push_back(rows.name.end);
  }
  if (query.ends.size() > kMostWindows) query.ends.erase(query.ends.begin(), query.ends.end() - kMostWindows);
  for (std::optional<format::SharedHead>& head : store_.heads(query, deadline_ns)) {
    if (head) found.push_back(std::move(head->segment));
  }
}

// ---- into the table ----

void Seeking::adopt(std::vector<format::SegmentHeader> found, const Tenant& tenant) {
  std::erase_if(found, [&](const format::SegmentHeader& header) {
    return header.tenant != tenant || header.parts.size() != 1 || header.parts.front().kind != header.name.kind ||
           header.parts.front().built();
  });
  std::vector<index::NamedSegment> named;
  for (const format::SegmentHeader& header : found) {
    named.push_back({{header.name.begin, header.name.end},
                     header.name.begin_hash,
                     header.name.end_hash,
                     header.tokens,
                     header.name.kind,
                     header.origin,
                     header.tenant});
  }
  CacheLock lock(mutex_);
  const std::vector<index::Placement> placements = table_.rebuild(named);
  for (std::size_t i = 0; i < found.size(); ++i) place(found[i], placements[i]);
  // The ends of paths first: they are the first to be forgotten.
  for (auto placed = placements.rbegin(); placed != placements.rend(); ++placed) {
    if (placed->outcome != index::Placement::Outcome::kPlaced) continue;
    found_.push_back({placed->segment, table_.entry(placed->segment).serial});
  }
  forgetting_.sweep();
  bound();
}

// A segment that is known here already was published before: by this server, or by another that computed the same.
void Seeking::place(const format::SegmentHeader& header, const index::Placement& placement) {
  if (placement.outcome != index::Placement::Outcome::kPlaced) {
    if (const auto same = table_.named(header.name)) published_.add(*same);
    return;
  }
  const SegmentId placed = placement.segment;
  table_.begin_life(placed, header, kRootSegment);
  const std::int64_t now_ns = clock_.wall_ns();
  table_.note_file_time(placed, now_ns, now_ns);
  published_.add(placed);
  table_.set_copy(placed, kSharedTier, CopyState::kHere);
  // Rows of no bytes are all here with their ids.
  if (header.parts.front().size_bytes == 0) {
    ram_.hold(placed, store::PayloadBuffer::allocate(0).freeze());
    write_back_.offer(placed);
  }
}

// Each of those that are too many is looked at once: some may have to stay a while.
void Seeking::bound() {
  for (std::size_t over = found_.size() - std::min(found_.size(), most_); over > 0; --over) {
    const Found oldest = found_.front();
    found_.pop_front();
    const Entry& known = table_.entry(oldest.segment);
    if (!known.live || known.serial != oldest.serial || known.in(kSharedTier) != CopyState::kHere) continue;
    const bool only_copy = !known.in_ram() && !known.on_disk();
    if (only_copy && (known.in_use() || !table_.nothing_below(oldest.segment))) {
      found_.push_back(oldest);
    } else {
      forgetting_.forget_copy(oldest.segment, kSharedTier);
    }
  }
}

}  // namespace kvkeep::cache
