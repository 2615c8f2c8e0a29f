#include "share_report.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "text/terminal.h"

namespace kvkeep::cli {
namespace {

std::string row(const char* name, const std::string& value) { return fmt::format("  {:<13}{}\n", name, value); }

std::string size_text(std::uint64_t bytes) {
  constexpr double kMebibyte = 1 << 20;
  if (bytes >= std::uint64_t{1} << 30) return text::memory_size(bytes);
  return text::fixed(static_cast<double>(bytes) / kMebibyte, 1) + " MiB";
}

std::string memory_of(const share::EngineFacts& facts) {
  std::string memory = size_text(*facts.used_bytes);
  if (facts.max_bytes) memory += *facts.max_bytes == 0 ? " without a limit" : " of " + size_text(*facts.max_bytes);
  if (facts.policy) memory += ", evicts " + *facts.policy;
  return memory;
}

std::string reads_of(const share::EngineFacts& facts) {
  const std::uint64_t reads = *facts.reads_found + *facts.reads_missed;
  if (reads == 0) return "none so far";
  const double share = static_cast<double>(*facts.reads_found) / static_cast<double>(reads);
  return fmt::format("{} of {} found ({} %)", text::grouped(*facts.reads_found), text::grouped(reads),
                     text::fixed(100 * share, 1));
}

}  // namespace

std::string share_text(const ShareReport& report) {
  const share::EngineFacts& facts = report.facts;
  std::string text = fmt::format("{}: {}\n", report.address, facts.description);
  text += row("answers in", text::fixed(report.answer_ms, 2) + " ms");
  if (facts.used_bytes) text += row("memory", memory_of(facts));
  if (facts.keys) text += row("keys", text::grouped(*facts.keys) + ", of all users");
  if (facts.reads_found && facts.reads_missed) text += row("reads", reads_of(facts));
  for (const std::string& warning : facts.warnings) text += row("warning", warning);
  return text;
}

std::string share_json(const ShareReport& report) {
  const share::EngineFacts& facts = report.facts;
  nlohmann::ordered_json json{
      {"version", 1}, {"address", report.address}, {"description", facts.description}, {"answer_ms", report.answer_ms}};
  const auto add = [&](const char* name, const auto& value) {
    if (value) json[name] = *value;
  };
  add("policy", facts.policy);
  add("used_bytes", facts.used_bytes);
  add("max_bytes", facts.max_bytes);
  add("keys", facts.keys);
  add("reads_found", facts.reads_found);
  add("reads_missed", facts.reads_missed);
  json["warnings"] = facts.warnings;
  return json.dump(2) + "\n";
}

}  // namespace kvkeep::cli
