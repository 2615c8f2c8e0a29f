// Flags of `serve` about the threads that compute: where they run, how urgently, and how they wait for each other.

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include "flag_values.h"
#include "serve_flags.h"

namespace kvkeep::cli {
namespace {

using engine::llama::ModelOptions;
using engine::llama::ThreadRules;
using engine::llama::ThreadRulesForPrompts;

constexpr std::uint32_t kProcessorsMax = 512;  // libggml's limit

// "f0" or "0xf0": processors 4 to 7.
Result<std::vector<std::uint32_t>> parse_processor_mask(const std::string& text) {
  const std::string digits = text.starts_with("0x") || text.starts_with("0X") ? text.substr(2) : text;
  const bool is_hex = !digits.empty() && digits.find_first_not_of("0123456789abcdefABCDEF") == std::string::npos;
  if (!is_hex || digits.size() > kProcessorsMax / 4) {
    return invalid(fmt::format("'{}' is not a hexadecimal mask of at most {} processors", text, kProcessorsMax));
  }
  std::vector<std::uint32_t> processors;
  for (std::uint32_t i = 0; i < digits.size() * 4; ++i) {
    const std::string digit(1, digits[digits.size() - 1 - i / 4]);
    if ((std::stoul(digit, nullptr, 16) >> (i % 4) & 1U) != 0) processors.push_back(i);
  }
  if (processors.empty()) return invalid("the mask names no processor");
  return processors;
}

// "2-5", "-5" from the first one on, "2-" to the last one.
Result<std::vector<std::uint32_t>> parse_processor_range(const std::string& text) {
  const auto dash = text.find('-');
  const auto bound = [](const std::string& number, std::uint32_t absent) -> Result<std::uint32_t> {
    return number.empty() ? absent : parse_number<std::uint32_t>(number, 0, kProcessorsMax - 1);
  };
  const auto first = bound(text.substr(0, dash), 0);
  const auto last = dash == std::string::npos ? first : bound(text.substr(dash + 1), kProcessorsMax - 1);
  if (text == "-" || dash == std::string::npos || !first || !last || *first > *last) {
    return invalid(fmt::format("'{}' is not LO-HI, processors from 0 to {}", text, kProcessorsMax - 1));
  }
  std::vector<std::uint32_t> processors;
  for (std::uint32_t i = *first; i <= *last; ++i) processors.push_back(i);
  return processors;
}

// Adds to the processors that the other flag names.
template <typename Processors>
Assign processors_into(Processors& target, Result<std::vector<std::uint32_t>> (*parse)(const std::string&)) {
  return [&target, parse](const std::string& text) -> Status {
    TRY_ASSIGN(std::vector<std::uint32_t> all, parse(text));
    const std::vector<std::uint32_t> known =
        std::optional<std::vector<std::uint32_t>>(target).value_or(std::vector<std::uint32_t>{});
    all.insert(all.end(), known.begin(), known.end());
    std::ranges::sort(all);
    const auto same = std::ranges::unique(all);
    all.erase(same.begin(), same.end());
    target = std::move(all);
    return {};
  };
}

template <typename Number>
Assign whole_into(Number& target, int lowest, int highest) {
  return parsed_into(target, [=](const std::string& text) { return parse_number(text, lowest, highest); });
}

}  // namespace

std::vector<Flag> thread_flags(ModelOptions& model) {
  ThreadRules& single = model.thread_rules;
  ThreadRulesForPrompts& batch = model.thread_rules_batch;
  return {
      {.spelling = "-C, --cpu-mask HEX",
       .default_text = "any",
       .effect = "Processors that compute, a bit for each; those of --cpu-range are added.",
       .assign = processors_into(single.processors, parse_processor_mask)},
      {.spelling = "-Cr, --cpu-range LO-HI",
       .default_text = "any",
       .effect = "Processors that compute, from LO to HI; those of --cpu-mask are added.",
       .assign = processors_into(single.processors, parse_processor_range)},
      {.spelling = "--cpu-strict 0|1",
       .default_text = "0",
       .effect = "1: each thread stays on one of the processors that are named.",
       .assign = choice_into(single.one_each, {{"0", false}, {"1", true}})},
      {.spelling = "--prio N",
       .default_text = "0",
       .effect = "Priority of the threads that compute: -1 low, 0 normal, 1 medium, 2 high, 3 realtime. Those above 0 "
                 "come before all other programs, and need the right to that.",
       .assign = whole_into(single.priority, -1, 3)},
      {.spelling = "--poll N",
       .default_text = "50",
       .effect = "How long a thread that waits for another one spins before it sleeps: 0 not at all, 100 longest.",
       .assign = whole_into(single.poll, 0, 100)},
      {.spelling = "-Cb, --cpu-mask-batch HEX",
       .default_text = "as --cpu-mask",
       .effect = "The same as --cpu-mask, for prompts.",
       .assign = processors_into(batch.processors, parse_processor_mask)},
      {.spelling = "-Crb, --cpu-range-batch LO-HI",
       .default_text = "as --cpu-range",
       .effect = "The same as --cpu-range, for prompts.",
       .assign = processors_into(batch.processors, parse_processor_range)},
      {.spelling = "--cpu-strict-batch 0|1",
       .default_text = "as --cpu-strict",
       .effect = "The same as --cpu-strict, for prompts.",
       .assign = choice_into(batch.one_each, {{"0", false}, {"1", true}})},
      {.spelling = "--prio-batch N",
       .default_text = "as --prio",
       .effect = "The same as --prio, for prompts; 0 only if --prio is 0.",
       .assign = whole_into(batch.priority, -1, 3)},
      {.spelling = "--poll-batch N",
       .default_text = "as --poll",
       .effect = "The same as --poll, for prompts; with OpenMP only the same value.",
       .assign = whole_into(batch.poll, 0, 100)},
  };
}

}  // namespace kvkeep::cli
