#include "bench/report/demo_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>

#include "text/terminal.h"

namespace kvkeep::bench {
namespace {

constexpr std::size_t kBarColumns = 24;

using text::fixed;
using text::grouped;

std::string seconds(double ms) { return ms >= 995 ? fixed(ms / 1e3, 2) + " s" : fixed(ms, 0) + " ms"; }

// "turn A 3" is shown as "A 3".
std::string_view name_of(const RequestFigures& turn) {
  std::string_view name = turn.label;
  if (name.starts_with("turn ")) name.remove_prefix(5);
  return name;
}

// "disk-token" is shown as "disk".
std::string tier_of(const RequestFigures& turn) {
  const std::string tier = turn.cache_source.substr(0, turn.cache_source.find('-'));
  return tier.empty() || turn.cached_tokens == 0 ? "-" : tier;
}

// A prefilled part is visible, however short it is.
std::string bar(std::uint64_t cached, std::uint64_t prompt) {
  const auto known = static_cast<std::size_t>(kBarColumns * cached / std::max<std::uint64_t>(prompt, 1));
  const std::size_t light = cached < prompt ? std::min(known, kBarColumns - 1) : known;
  std::string drawn;
  for (std::size_t i = 0; i < kBarColumns; ++i) drawn += i < light ? "░" : "█";
  return drawn;
}

double ttft_ms(const RunFigures& run) {
  double sum = 0;
  for (const RequestFigures& turn : run.requests) sum += turn.ttft_ms;
  return sum;
}

std::string row(std::string_view name, std::uint64_t prompt, std::uint64_t cached, std::uint64_t prefilled,
                std::string_view tier, double ms, std::uint64_t plain_prefilled, double plain_ms) {
  return fmt::format("{:>6} {:>7}   {:>7} {:>10} {:<7} {:>9}   {:>9} {:>9}\n", name, grouped(prompt), grouped(cached),
                     grouped(prefilled), tier, seconds(ms), grouped(plain_prefilled), seconds(plain_ms));
}

double ratio(std::uint64_t part, std::uint64_t whole) {
  return static_cast<double>(part) / static_cast<double>(std::max<std::uint64_t>(whole, 1));
}

}  // namespace

std::string demo_heading() {
  return fmt::format("{:>6}  {:<{}}  {:>7} {:>7} {:>10}  {:<7} {:>9}", "turn", "░ cached  █ prefilled", kBarColumns,
                     "prompt", "cached", "prefilled", "from", "TTFT");
}

std::string demo_turn(const RequestFigures& turn) {
  return fmt::format("{:>6}  {}  {:>7} {:>7} {:>10}  {:<7} {:>9}", name_of(turn),
                     bar(turn.cached_tokens, turn.prompt_tokens), grouped(turn.prompt_tokens),
                     grouped(turn.cached_tokens), grouped(turn.prefilled_tokens), tier_of(turn), seconds(turn.ttft_ms));
}

std::string demo_comparison(const RunFigures& with_cache, const RunFigures& without, std::size_t kill_before,
                            std::size_t equal_replies) {
  std::string text = fmt::format("{:>14}   {:<37}   without it\n", "", "with the cache");
  text += fmt::format("{:>6} {:>7}   {:>7} {:>10} {:<7} {:>9}   {:>9} {:>9}\n", "turn", "prompt", "cached", "prefilled",
                      "from", "TTFT", "prefilled", "TTFT");
  std::uint64_t cached = 0;
  for (std::size_t i = 0; i < with_cache.requests.size(); ++i) {
    const RequestFigures& turn = with_cache.requests[i];
    const RequestFigures& plain = without.requests[i];
    if (i == kill_before) text += "       -- kill -9, new server --\n";
    text += row(name_of(turn), turn.prompt_tokens, turn.cached_tokens, turn.prefilled_tokens, tier_of(turn),
                turn.ttft_ms, plain.prefilled_tokens, plain.ttft_ms);
    cached += turn.cached_tokens;
  }
  text += row("all", with_cache.prompt_tokens(), cached, with_cache.prefilled_tokens(), "", ttft_ms(with_cache),
              without.prefilled_tokens(), ttft_ms(without));
  const std::uint64_t ideal = with_cache.ideal_tokens();
  text += fmt::format("\n  {:<37} {:>8}\n", "ideal: tokens never computed before", grouped(ideal));
  text += fmt::format("  {:<37} {:>8.2f}\n", "prefilled / ideal, with the cache",
                      ratio(with_cache.prefilled_tokens(), ideal));
  text += fmt::format("  {:<37} {:>8.2f}\n", "prefilled / ideal, without it", ratio(without.prefilled_tokens(), ideal));
  text += fmt::format("  {:<37} {:>8.2f}   (sums over all turns)\n", "TTFT without the cache / with it",
                      ttft_ms(without) / std::max(ttft_ms(with_cache), 1e-3));
  text += fmt::format("  {:<37} {:>8} of {}\n", "replies that are equal in both runs", equal_replies,
                      with_cache.requests.size());
  return text;
}

}  // namespace kvkeep::bench
