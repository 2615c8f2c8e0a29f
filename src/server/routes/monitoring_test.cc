// The metrics without a server: docs/monitoring.md describes each one, and their values are those of the statistics.

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <fstream>
#include <future>
#include <set>
#include <sstream>
#include <thread>
#include <vector>

#include "server/routes/routes.h"
#include "server/run/found_break.h"

namespace kvkeep::server {
namespace {

// The names in the first cells of the page's tables.
std::set<std::string> documented_metrics() {
  std::ifstream file(KVKEEP_DOCS "/monitoring.md");
  std::set<std::string> names;
  for (std::string line; std::getline(file, line);) {
    std::istringstream cell(line.substr(0, line.find(" |", 1)));
    if (!line.starts_with("| `llamacpp:") && !line.starts_with("| `kvkeep_")) continue;
    for (std::string name; std::getline(cell, name, '`');) {
      if (name.starts_with("llamacpp:") || name.starts_with("kvkeep_")) names.insert(name);
    }
  }
  return names;
}

double value_of(const std::vector<api::Metric>& metrics, const std::string& name, const std::string& labels = {},
                const std::string& suffix = {}) {
  const auto metric = std::ranges::find(metrics, name, &api::Metric::name);
  if (metric == metrics.end()) return -1;
  for (const api::Metric::Sample& sample : metric->samples) {
    if (sample.labels == labels && sample.suffix == suffix) return sample.value;
  }
  return -1;
}

TEST(Metrics, EachIsDocumented) {
  std::set<std::string> names;
  for (const api::Metric& metric : metrics_of({}, {}, {}, {}, {}, share::ShareCounters{})) {
    EXPECT_TRUE(names.insert(metric.name).second) << metric.name;
    EXPECT_TRUE(metric.help.ends_with('.')) << metric.help;
    const bool counts = metric.name.ends_with("_total") || metric.name == "llamacpp:n_tokens_max";  // as llama-server
    EXPECT_EQ(metric.kind == api::Metric::Kind::kCounter, counts) << metric.name;
  }
  EXPECT_EQ(names, documented_metrics());
}

TEST(Metrics, AreThoseOfTheStatistics) {
  SchedulerStats before;
  before.note_prefilled({.why = MissReason::kNewTokens, .all = 1'000}, 5'000, 1);
  SchedulerStats stats = before;
  stats.running = 2;
  stats.waiting = 3;
  stats.note_prefilled({.why = MissReason::kNoPoint, .all = 500, .unseen = 300, .again = 200}, 250, 900);
  stats.note_predicted({.predicted_tokens = 2}, 20, 901);
  stats.note_predicted({.predicted_tokens = 3}, 30, 902);
  stats.note_call(1, false);
  stats.note_call(2, true);
  stats.waited.add(WaitCause::kPrefix, 1'500);
  stats.cells = {.total = 100, .used = 60, .shared = 20};
  stats.audits.add(AuditOutcome::kWrong);
  stats.note_start({.prompt_tokens = 900, .cached_tokens = 400}, /*ahead=*/false);
  stats.figures.note_break({.kind = explain::BreakKind::kVolatileText, .lost_tokens = 70});
  stats.figures.note_break({.kind = explain::BreakKind::kVolatileText, .lost_tokens = 30});
  stats.waiting_for.add(WaitCause::kDisk, 2);
  const Savings::Sums saved{.own = {.reused_tokens = 400, .saved_ms = 1'400},
                            .ever = {.reused_tokens = 5'000, .saved_ms = 9'000}};
  cache::CacheStats cache;
  cache.ram_used = ByteCount{17};
  cache.from_disk.add(cache::EvictCause::kExpired, 3'000'000'000);
  stats.open_tokens = 77;
  const UnreadCounts unread{.bytes = 5, .ended = {1, 2, 3}};
  const std::vector<api::Metric> metrics = metrics_of(stats, before, saved, cache, unread);
  EXPECT_EQ(value_of(metrics, "llamacpp:prompt_tokens_total"), 1'500);
  EXPECT_EQ(value_of(metrics, "llamacpp:prompt_seconds_total"), 5.25);
  EXPECT_EQ(value_of(metrics, "llamacpp:prompt_tokens_seconds"), 2000);
  EXPECT_EQ(value_of(metrics, "llamacpp:tokens_predicted_total"), 2);
  EXPECT_EQ(value_of(metrics, "llamacpp:predicted_tokens_seconds"), 40);
  EXPECT_EQ(value_of(metrics, "llamacpp:n_tokens_max"), 902);
  EXPECT_EQ(value_of(metrics, "llamacpp:n_busy_slots_per_decode"), 1.5);
  EXPECT_EQ(value_of(metrics, "kvkeep_joint_calls_total"), 1);
  EXPECT_EQ(value_of(metrics, "llamacpp:requests_processing"), 2);
  EXPECT_EQ(value_of(metrics, "llamacpp:requests_deferred"), 3);
  EXPECT_EQ(value_of(metrics, "kvkeep_audits_total", "outcome=\"wrong\""), 1);
  EXPECT_EQ(value_of(metrics, "kvkeep_audits_total", "outcome=\"agreed\""), 0);
  EXPECT_EQ(value_of(metrics, "kvkeep_wait_seconds_total", "cause=\"prefix\""), 1.5);
  EXPECT_EQ(value_of(metrics, "kvkeep_wait_seconds_total", "cause=\"place\""), 0);
  EXPECT_EQ(value_of(metrics, "kvkeep_waiting", "cause=\"disk\""), 2);
  EXPECT_EQ(value_of(metrics, "kvkeep_waiting", "cause=\"cells\""), 0);
  EXPECT_EQ(value_of(metrics, "kvkeep_breaks_total", "kind=\"volatile-text\""), 2);
  EXPECT_EQ(value_of(metrics, "kvkeep_lost_tokens_total", "kind=\"volatile-text\""), 100);
  EXPECT_EQ(value_of(metrics, "kvkeep_lost_tokens_total", "kind=\"damaged\""), 0);
  EXPECT_EQ(value_of(metrics, "kvkeep_prompt_tokens_total", "source=\"prefill\""), 1'500);
  EXPECT_EQ(value_of(metrics, "kvkeep_missed_tokens_total", "reason=\"no-point\""), 500);
  EXPECT_EQ(value_of(metrics, "kvkeep_new_tokens_total"), 300);
  EXPECT_EQ(value_of(metrics, "kvkeep_reused_tokens", "since=\"start\""), 400);
  EXPECT_EQ(value_of(metrics, "kvkeep_reused_tokens", "since=\"ever\""), 5'000);
  EXPECT_EQ(value_of(metrics, "kvkeep_saved_seconds", "since=\"start\""), 1.4);
  EXPECT_EQ(value_of(metrics, "kvkeep_saved_seconds", "since=\"ever\""), 9);
  EXPECT_EQ(value_of(metrics, "kvkeep_open_prompt_tokens"), 77);
  EXPECT_EQ(value_of(metrics, "kvkeep_unread_reply_bytes"), 5);
  EXPECT_EQ(value_of(metrics, "kvkeep_unread_replies_ended_total", "cause=\"time\""), 2);
  EXPECT_EQ(value_of(metrics, "kvkeep_unread_replies_ended_total", "cause=\"sum\""), 3);
  EXPECT_EQ(value_of(metrics, "kvkeep_cells"), 100);
  EXPECT_EQ(value_of(metrics, "kvkeep_cells_used"), 60);
  EXPECT_EQ(value_of(metrics, "kvkeep_cells_shared"), 20);
  EXPECT_EQ(value_of(metrics, "kvkeep_cache_used_bytes", "tier=\"ram\""), 17);
  EXPECT_EQ(value_of(metrics, "kvkeep_cache_evicted_total", "tier=\"disk\",reason=\"expired\""), 1);
  EXPECT_EQ(value_of(metrics, "kvkeep_cache_evict_idle_seconds", "tier=\"disk\"", "_sum"), 3);
  EXPECT_EQ(value_of(metrics, "kvkeep_prefill_slice_seconds", "", "_count"), 2);
  EXPECT_EQ(value_of(metrics, "kvkeep_token_gap_seconds", "", "_sum"), 0.05);
  EXPECT_EQ(value_of(metrics_of(stats, stats, {}, cache, unread), "llamacpp:prompt_tokens_seconds"), 0)
      << "nothing since then";
}

SchedulerStats prefilled(std::uint64_t tokens) {
  SchedulerStats stats;
  stats.prefilled_tokens = tokens;
  return stats;
}

TEST(LastScrape, OfTwoScrapesAtOnceOneIsBeforeTheOther) {
  LastScrape last;
  std::atomic<std::uint64_t> tokens = 0;
  const auto read = [&tokens] { return prefilled(++tokens); };
  std::promise<void> began;
  std::promise<LastScrape::Totals> later;
  std::thread other([&] {
    began.get_future().wait();
    later.set_value(last.take(read));
  });
  auto of_other = later.get_future();
  const auto first = last.take([&] {
    const SchedulerStats now = read();
    began.set_value();
    of_other.wait_for(std::chrono::milliseconds(200));  // must not come to an end meanwhile
    return now;
  });
  other.join();
  EXPECT_EQ(first.before.prefilled_tokens, 0U);
  EXPECT_EQ(first.now.prefilled_tokens, 1U);
  const auto second = of_other.get();
  EXPECT_EQ(second.before.prefilled_tokens, 1U);
  EXPECT_EQ(second.now.prefilled_tokens, 2U);
}

TEST(LastScrape, TimeNeverRunsBackwards) {
  LastScrape last;
  std::atomic<std::uint64_t> tokens = 0;
  std::atomic<std::uint64_t> sum = 0;
  std::atomic<bool> backwards = false;
  const auto scrape = [&] {
    for (int i = 0; i < 2'000; ++i) {
      const auto totals = last.take([&tokens] { return prefilled(++tokens); });
      backwards = backwards || totals.now.prefilled_tokens <= totals.before.prefilled_tokens;
      sum += totals.now.prefilled_tokens - totals.before.prefilled_tokens;
    }
  };
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) threads.emplace_back(scrape);
  for (std::thread& thread : threads) thread.join();
  EXPECT_FALSE(backwards);
  EXPECT_EQ(sum, tokens) << "each token is in one scrape's average";
}

}  // namespace
}  // namespace kvkeep::server
