#include "server/run/request_figures.h"

#include <algorithm>

#include "explain/cache_break.h"

namespace kvkeep::server {

namespace {

double seconds(double ms) { return ms / 1e3; }

}  // namespace

void RequestFigures::note_start(const JobStats& stats, bool ahead) {
  memory_tokens += stats.memory_tokens;
  ram_tokens += stats.ram_tokens;
  disk_tokens += stats.disk_tokens;
  shared_tokens += stats.shared_tokens;
  ++missed[static_cast<std::size_t>(stats.miss)].prompts;
  queue.add(seconds(stats.queue_ms));
  if (stats.load_ms > 0) load.add(seconds(stats.load_ms));
  if (ahead) return;
  reused_tokens += stats.cached_tokens;
  reuse_load_ms += stats.load_ms;
}

void RequestFigures::note_prefilled(const PrefilledTokens& tokens, double ms) {
  missed[static_cast<std::size_t>(tokens.why)].tokens += tokens.all;
  new_tokens += tokens.unseen;
  again_tokens += tokens.again;
  slice.add(seconds(ms));
}

void RequestFigures::note_token(const JobStats& stats, double gap_ms) {
  if (stats.predicted_tokens == 1) return first_token.add(seconds(stats.queue_ms + stats.prompt_ms));
  token_gap.add(seconds(gap_ms));
}

void RequestFigures::note_end(Finish how, const JobStats& stats) {
  ++ends[static_cast<std::size_t>(how)];
  failed_reads += stats.failed_reads;
  refused_restores += stats.refused_restores;
  failed_calls += stats.failed_calls;
  read.add(stats.read.bytes, stats.read.ms);
  shared_read.add(stats.shared_read.bytes, stats.shared_read.ms);
  restored.add(stats.restored.bytes, stats.restored.ms);
}

static_assert(kExplainedKinds == explain::kBreakKinds);

void RequestFigures::note_break(const explain::CacheBreak& found) {
  Broken& sum = breaks[static_cast<std::size_t>(found.kind)];
  ++sum.requests;
  sum.lost_tokens += found.lost_tokens;
}

void TenantSums::note_end(const Tenant& tenant, const JobStats& stats, std::int64_t now_ns) {
  auto found = std::ranges::find(tenants_, tenant, &TenantFigures::tenant);
  if (found == tenants_.end()) {
    if (tenants_.size() == kMostTenants) tenants_.pop_back();
    found = tenants_.insert(tenants_.end(), {.tenant = tenant, .number = ++numbers_});
  }
  found->requests += 1;
  found->prompt_tokens += stats.prompt_tokens;
  found->cached_tokens += stats.cached_tokens;
  found->prefilled_tokens += stats.prefilled_tokens;
  found->predicted_tokens += stats.predicted_tokens;
  found->last_ns = now_ns;
  std::rotate(tenants_.begin(), found, found + 1);
}

}  // namespace kvkeep::server
