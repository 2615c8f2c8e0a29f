#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <numeric>
#include <set>
#include <utility>

#include "bench/run/crowd.h"
#include "bench/run/load_scenarios.h"
#include "bench/run/stream_times.h"
#include "bench/sessions/json_fields.h"
#include "os/clock.h"
#include "os/threads.h"

namespace kvkeep::bench {
namespace {

double seconds_since(std::int64_t from_ns) {
  return static_cast<double>(os::real_clock().monotonic_ns() - from_ns) / 1e9;
}

// ---- many clients in a loop ----

// A client that asks the same again and again.
struct Looping {
  Json messages;
  std::vector<Exchange> replies;
};

std::size_t count_replies(const std::vector<Looping>& clients, bool (*counts)(const Exchange&)) {
  std::size_t count = 0;
  for (const Looping& client : clients)
    count += static_cast<std::size_t>(std::ranges::count_if(client.replies, counts));
  return count;
}

bool is_refused(const Exchange& reply) { return reply.status == 429 || reply.status == 503 || reply.status == 529; }
bool is_failed(const Exchange& reply) { return !reply.answered() && !is_refused(reply); }

// Counts the replies with the text of another client's first one, and not of its own.
std::size_t mixed_up(const std::vector<Looping>& clients) {
  std::set<std::string> firsts;
  for (const Looping& client : clients) {
    if (!client.replies.empty()) firsts.insert(client.replies.front().facts.text);
  }
  std::size_t count = 0;
  for (const Looping& client : clients) {
    for (const Exchange& reply : client.replies) {
      const std::string& text = reply.facts.text;
      count += reply.answered() && text != client.replies.front().facts.text && firsts.contains(text) ? 1 : 0;
    }
  }
  return count;
}

LoadFigure none_of(std::string name, std::size_t count) {
  return {.name = std::move(name),
          .unit = "count",
          .value = static_cast<double>(count),
          .goal = at_most(0),
          .is_count = true};
}

std::vector<double> ttfts_of(const std::vector<Looping>& clients) {
  std::vector<double> ttfts_ms;
  for (const Looping& client : clients) {
    for (const Exchange& reply : client.replies) {
      if (reply.answered()) ttfts_ms.push_back(reply.ttft_ms);
    }
  }
  if (ttfts_ms.empty()) ttfts_ms.push_back(0);
  return ttfts_ms;
}

LoadRun figures_of_clients(const std::vector<Looping>& clients, double seconds) {
  const std::vector<double> ttfts_ms = ttfts_of(clients);
  std::vector<double> served;
  for (const Looping& client : clients) {
    served.push_back(0);
    for (const Exchange& reply : client.replies) served.back() += reply.answered() ? 1 : 0;
  }
  const std::string who = fmt::format("{} clients in a loop: ", clients.size());
  const double all = std::accumulate(served.begin(), served.end(), 0.0);
  return {.figures = {none_of(who + "refused (429, 503, 529)", count_replies(clients, is_refused)),
                      none_of(who + "failed or broken off", count_replies(clients, is_failed)),
                      none_of(who + "with another client's reply", mixed_up(clients)),
                      {.name = who + "served", .unit = "/s", .value = all / seconds, .more_is_better = true},
                      {.name = who + "TTFT, median", .unit = "ms", .value = percentile(ttfts_ms, 0.5)},
                      {.name = who + "TTFT, 99th percentile", .unit = "ms", .value = percentile(ttfts_ms, 0.99)},
                      {.name = who + "replies to the one with fewest / median",
                       .unit = "share",
                       .value = percentile(served, 0) / std::max(1.0, percentile(served, 0.5)),
                       .more_is_better = true}}};
}

// Clients that ask again and again for so long, once at least. Their prompts begin with `what`.
Result<std::vector<Looping>> loop(LoadedServer& server, std::string_view what, std::size_t count, int for_ms) {
  std::vector<Looping> clients(count);
  for (std::size_t i = 0; i < clients.size(); ++i) {
    // Few words, and no questions of their length: 256 of them would take longer than the load.
    clients[i].messages =
        one_message(fmt::format("{} {} {} asks {} and {}", what, server.label, i * 7919 % 1000, i, i * i));
  }
  const std::int64_t end_ns = os::real_clock().monotonic_ns() + std::int64_t{for_ms} * 1'000'000;
  Crowd crowd(server.process.base_url(), clients.size(), server.interrupt);
  for (Looping& one : clients) {
    crowd.run([&one, end_ns](ServerClient& client) {
      constexpr std::chrono::milliseconds kAfterRefusal{1'000};  // they do not wait as long as Retry-After says
      do {
        one.replies.push_back(client.chat(one.messages, {.reply_tokens = 16, .whole_length = true}));
        if (!one.replies.back().answered()) os::pause(kAfterRefusal);
      } while (os::real_clock().monotonic_ns() < end_ns);
    });
  }
  crowd.wait();
  TRY(crowd.answered());
  return clients;
}

}  // namespace

Result<LoadRun> run_clients(LoadedServer& server) {
  const std::int64_t begin_ns = os::real_clock().monotonic_ns();
  TRY_ASSIGN(const std::vector<Looping> clients, loop(server, "client", server.sizes.clients, server.sizes.clients_ms));
  return figures_of_clients(clients, seconds_since(begin_ns));
}

// ---- more clients than the queue has room for ----

// Each asks once.
Result<LoadRun> run_held(LoadedServer& server) {
  const std::int64_t begin_ns = os::real_clock().monotonic_ns();
  TRY_ASSIGN(const double begin_cpu_s, server.process.cpu_seconds());
  TRY_ASSIGN(const std::vector<Looping> clients, loop(server, "client", server.sizes.held_clients, 0));
  const double wall_ms = seconds_since(begin_ns) * 1e3;
  TRY_ASSIGN(const double end_cpu_s, server.process.cpu_seconds());
  const std::string who = fmt::format("{} clients once: ", clients.size());
  return LoadRun{.figures = {none_of(who + "refused (429, 503, 529)", count_replies(clients, is_refused)),
                             none_of(who + "failed or broken off", count_replies(clients, is_failed)),
                             {.name = who + "all", .unit = "ms", .value = wall_ms, .ratio_goal = at_most(1)},
                             {.name = "the same, processor time",
                              .unit = "s",
                              .value = end_cpu_s - begin_cpu_s,
                              .ratio_goal = at_most(1.1)}}};
}

// As many clients as in run_clients(), then more than may wait: those that are served shall not notice.
Result<LoadRun> run_full(LoadedServer& server) {
  TRY_ASSIGN(const std::vector<Looping> fitting,
             loop(server, "client", server.sizes.clients, server.sizes.clients_ms / 2));
  TRY_ASSIGN(const std::vector<Looping> many,
             loop(server, "another", server.sizes.held_clients, server.sizes.clients_ms / 2));
  const double before_ms = percentile(ttfts_of(fitting), 0.5);
  const double full_ms = percentile(ttfts_of(many), 0.5);
  const std::string who = fmt::format("{} clients, of which 256 may wait: ", many.size());
  return LoadRun{.figures = {none_of(who + "failed or broken off", count_replies(many, is_failed)),
                             {.name = who + "refused (429, 503, 529)",
                              .unit = "count",
                              .value = static_cast<double>(count_replies(many, is_refused)),
                              .goal = at_least(1),
                              .is_count = true},
                             {.name = who + "TTFT of those served, median", .unit = "ms", .value = full_ms},
                             {.name = fmt::format("the same / with {} clients", fitting.size()),
                              .unit = "share",
                              .value = before_ms > 0 ? full_ms / before_ms : 0,
                              .goal = at_most(1.15)}}};
}

}  // namespace kvkeep::bench
