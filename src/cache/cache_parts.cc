#include "cache/cache_parts.h"

#include <utility>

#include "base/assert.h"

namespace kvkeep::cache {

namespace {

// The tiers below RAM: one line each.
std::vector<LowerTier> list_tiers(DiskTier* disk, const std::vector<FurtherTier>& further, os::Executor& writer,
                                  os::Executor& reader, SharedTier* shared, const SharedSetup& setup) {
  std::vector<LowerTier> tiers;
  if (disk != nullptr) tiers.push_back({kDiskTier, disk, &writer, &reader});
  KVKEEP_ASSERT(kFirstFurtherTier.value() + further.size() <= kSharedTier.value(),
                "more tiers than an entry can tell of");
  std::uint8_t next = kFirstFurtherTier.value();
  for (const FurtherTier& tier : further)
    tiers.push_back({TierId{next++}, tier.port.get(), &tier.writer, &tier.reader});
  if (shared != nullptr) tiers.push_back({kSharedTier, shared, setup.worker, setup.reader});
  return tiers;
}

}  // namespace

// ---- opening and closing ----

Cache::Parts::Parts(CacheOptions given, std::unique_ptr<store::DiskStore> store, os::Clock& given_clock,
                    os::Executor& given_writer, os::Executor& given_reader, std::vector<FurtherTier> given_further,
                    SharedSetup given_shared)
    : options(given),
      clock(given_clock),
      writer(given_writer),
      reader(given_reader),
      pool({.idle_limit = staging_limit(given.ram_budget, given.point_bytes)}),
      table(given.fingerprint, given.shape, given.vocabulary_size),
      ram(mutex, table, given.ram_budget),
      distrust(store.get(), writer, given.distrusted),
      disk(store == nullptr
               ? nullptr
               : std::make_unique<DiskTier>(std::move(store), mutex, table, clock, writer, options.save_index_after)),
      further(std::move(given_further)),
      shared(std::move(given_shared)),
      shared_tier(shared.store == nullptr ? nullptr
                                          : std::make_unique<SharedTier>(*shared.store, clock, shared.helpers)),
      lower(list_tiers(disk.get(), further, writer, reader, shared_tier.get(), shared)),
      forgetting(mutex, table, ram, lower, clock),
      ram_evictor(mutex, table, forgetting, ram, kRamTier, lower, clock),
      ram_room(options, mutex, ram, ram_evictor, disk != nullptr),
      disk_evictor(disk == nullptr
                       ? nullptr
                       : std::make_unique<Evictor>(mutex, table, forgetting, *disk, kDiskTier, lower, clock)),
      disk_room(disk == nullptr ? nullptr : std::make_unique<DiskRoom>(options, mutex, table, *disk, *disk_evictor)),
      copies(mutex, table, ram, forgetting, lower, clock),
      chains(mutex, table, ram, ram_room, forgetting, disk != nullptr),
      fetcher(mutex, table, ram, ram_room, forgetting, chains, lower, clock,
              [this](SegmentId arrived) REQUIRES(kCacheLock) { write_back.offer(arrived); }),
      published(table),
      disk_writer(disk == nullptr ? nullptr
                                  : std::make_unique<DiskWriter>(options, mutex, table, ram, forgetting, *disk_room,
                                                                 distrust, clock)),
      publishing(shared_tier == nullptr || !shared.publishes
                     ? nullptr
                     : std::make_unique<Publishing>(mutex, table, ram, fetcher, published, forgetting, *shared.store,
                                                    *shared_tier, distrust, options.most_read_to_publish)),
      write_back(options, mutex, table, ram, ram_room, fetcher, copies, publishing.get(), disk_writer.get(), writer),
      seeking(shared_tier == nullptr
                  ? nullptr
                  : std::make_unique<Seeking>(mutex, table, ram, forgetting, write_back, published, *shared.store,
                                              *shared_tier, clock, *shared.searcher, options.most_shared)),
      peer(disk == nullptr
               ? nullptr
               : std::make_unique<Peer>(mutex, table, ram, forgetting, chains, *disk_room, write_back, clock, writer)),
      loader(fetcher, reader, clock, [this](const format::SegmentName& gone) { peer->forget_gone({gone}); }),
      expiry(mutex, table, forgetting, disk.get(), disk_evictor.get(), clock, options.time_to_live_ns) {}

// A load may go from reader to reader, and a writer drops segments that any of them finds damaged.
void Cache::Parts::finish() {
  write_back.close();
  const auto drain = [this] {
    reader.drain();
    for (const FurtherTier& tier : further) tier.reader.drain();
    if (shared_tier != nullptr) {
      shared.searcher->drain();
      shared.reader->drain();
      shared_tier->stop();
      for (os::Executor* helper : shared.helpers) helper->drain();
    }
    writer.drain();
    copies.drain();
    if (shared_tier == nullptr) return;
    if (shared.store->counters().waiting > 0) shared.store->distrust();  // drops it: a slow engine may take minutes
    shared.worker->drain();
    if (shared.prober != nullptr) shared.prober->drain();
  };
  do drain();
  while (loader.busy());
  drain();
}

// ---- uses ----

std::vector<SegmentId> Cache::Parts::use(const Lease& lease, std::optional<Position> restored) {
  const std::vector<policy::Restorable> restorable = lease.restorable();
  if (!restored && !restorable.empty()) restored = restorable.back().last;
  const auto leaves = restored ? lease.cover(*restored) : std::nullopt;
  CacheLock lock(mutex);
  const std::int64_t now_ns = clock.wall_ns();
  reuse.add(static_cast<double>(now_ns - table.entry(lease.steps().back().segment).last_used_ns) / 1e9);
  std::vector<SegmentId> used;
  for (const LeasedStep& step : lease.steps()) {
    table.use(step.segment, now_ns);
    used.push_back(step.segment);
  }
  // The time of the last segment's file carries recency over a restart; its ancestors are at least as recent.
  touch(lease.steps().back().segment);
  write_back.note_use(lease.steps().back().segment);
  if (!leaves) return used;
  for (const Lease::Cover& part : *leaves) {
    const SegmentId leaf = lease.points()[part.point].id;
    table.use(leaf, now_ns);
    write_back.keep_on_disk(leaf);
    touch(leaf);
    write_back.note_use(leaf);
    used.push_back(leaf);
  }
  return used;
}

void Cache::Parts::report_uses(const std::vector<SegmentId>& used) {
  if (shared_tier == nullptr) return;
  std::vector<format::SegmentHeader> headers;
  {
    CacheLock lock(mutex);
    for (const SegmentId segment : used) {
      const Entry& known = table.entry(segment);
      if (!known.live || !published.has(segment)) continue;
      headers.push_back(table.named_item(segment).header);
      headers.back().parts = {known.part};
    }
  }
  if (!headers.empty()) shared.store->touch(headers);
}

// ---- storing ----

void Cache::Parts::admit(SegmentId added, TierPort::Bytes bytes, Keeping keeping) {
  ++stored;
  stored_bytes += ByteCount{bytes->size()};
  ram.hold(added, std::move(bytes));
  if (keeping == Keeping::kOnDisk) return write_back.offer(added);
  table.set_unwritten(added, Waits::kContinuation);
  write_back.post_settle(added);
}

bool Cache::Parts::add_leaf(index::Cursor at, TokenRange range, format::PartKind kind, const PrefixHash& begin_hash,
                            const PrefixHash& end_hash, TierPort::Bytes bytes, Keeping keeping) {
  CacheLock lock(mutex);
  const bool there = table.index().leaf(at, kind) != kRootSegment;
  if (there || forgetting.forgotten_from(at.segment) || !accepts() || !ram_room.has(bytes->size())) {
    ++refused;
    return false;
  }
  const Fresh fresh{bytes->size(), clock.wall_ns(), keeping};
  admit(table.insert_leaf(at, kind, range.begin, begin_hash, end_hash, fresh), std::move(bytes), keeping);
  return true;
}

// ---- background work, on the writer ----

// At the start every segment is looked at, portion by portion; the writer's other tasks come between.
void Cache::Parts::expire_all() {
  if (expiry.next_portion() && !write_back.closing()) writer.post([this] { expire_all(); });
}

void Cache::Parts::share(store::Look look) {
  distrust.look();
  const bool more_room = peer->look(look);
  expiry.expire_foreign();
  disk_room->fit();
  write_back.go_on(more_room);
}

}  // namespace kvkeep::cache
