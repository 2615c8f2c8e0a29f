#include "share_report.h"

#include <fmt/format.h>

#include <algorithm>
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
  if (facts.max_bytes && facts.is_on_disk) memory += " (the limit of this URL)";
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
  if (facts.used_bytes) text += row(facts.is_on_disk ? "size" : "memory", memory_of(facts));
  if (facts.keys && facts.is_on_disk) text += row("objects", text::grouped(*facts.keys));
  if (facts.keys && !facts.is_on_disk) text += row("keys", text::grouped(*facts.keys) + ", of all users");
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

// ---- kvkeep share ----

namespace {

constexpr std::size_t kShownDigits = 12;  // of a fingerprint

std::string label_of(const ListedNamespace& listed) {
  if (!listed.found.fingerprint) return "another key, or damaged";
  std::string label = listed.found.fingerprint->hex().substr(0, kShownDigits) + ", " + listed.device;
  if (listed.found.note && !listed.found.note->name.empty()) label += ", " + listed.found.note->name;
  return label;
}

// "12 objects of 3.4 MiB"
std::string count_text(const carry::Count& count, const char* one) {
  return fmt::format("{} {}{}, {}", text::grouped(count.items), one, count.items == 1 ? "" : "s",
                     size_text(count.bytes.value()));
}

nlohmann::ordered_json count_json(const carry::Count& count) {
  return {{"objects", count.items}, {"bytes", count.bytes.value()}};
}

std::string rest_text(const carry::CarryReport& report) {
  std::string text;
  if (report.present.items > 0) text += row("there", count_text(report.present, "object"));
  if (report.left.items > 0) {
    text += row("left", count_text(report.left, "object") + ": beyond a limit, or after something that is missing");
  }
  if (report.lost.items > 0) {
    text += row("no use", fmt::format("{}: their beginnings are gone, or others hold the same",
                                      text::grouped(report.lost.items)));
  }
  if (report.turns_left > 0) {
    text += row("turns", fmt::format("{} left: a server keeps that file; stop it and pull again, or serve with --share",
                                     text::grouped(report.turns_left)));
  }
  for (const carry::Unusable& one : report.named) {
    text += row("unusable", text::printable(one.name, 120) + ": " + one.reason);
  }
  if (report.unusable > report.named.size()) {
    text += row("", fmt::format("and {} more", text::grouped(report.unusable - report.named.size())));
  }
  if (!report.stopped.empty()) text += row("stopped", report.stopped + "; the same command goes on from here");
  return text;
}

}  // namespace

std::string namespaces_text(const std::vector<ListedNamespace>& listed) {
  if (listed.empty()) return "nothing is stored there\n";
  std::string text;
  for (const ListedNamespace& one : listed) {
    text += fmt::format("{}  {:>9} objects  {}\n", one.found.space, text::grouped(one.found.names.size()),
                        text::printable(label_of(one), 300));
  }
  return text;
}

std::string namespaces_json(const std::vector<ListedNamespace>& listed) {
  nlohmann::ordered_json json{{"version", 1}, {"namespaces", nlohmann::ordered_json::array()}};
  for (const ListedNamespace& one : listed) {
    nlohmann::ordered_json entry{{"space", one.found.space}, {"objects", one.found.names.size()}};
    entry["fingerprint"] = one.found.fingerprint ? nlohmann::ordered_json(one.found.fingerprint->hex()) : nullptr;
    entry["device"] = one.found.fingerprint ? nlohmann::ordered_json(one.device) : nullptr;
    entry["name"] = one.found.note ? nlohmann::ordered_json(one.found.note->name) : nullptr;
    json["namespaces"].push_back(std::move(entry));
  }
  return json.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

bool CarriedModels::complete() const {
  return std::ranges::all_of(
      models, [](const CarriedModel& one) { return one.report.unusable == 0 && one.report.stopped.empty(); });
}

std::string carried_text(const CarriedModels& carried) {
  const char* done = carried.direction == Direction::kPush ? "published" : "added";
  std::string text;
  for (const CarriedModel& one : carried.models) {
    const carry::CarryReport& report = one.report;
    text += fmt::format("{} ({}), namespace {}\n", one.fingerprint.substr(0, kShownDigits),
                        text::printable(one.device, 200), one.space);
    text +=
        row(carried.dry ? "would be" : done,
            count_text(report.carried, "object") + (carried.dry ? std::string(" ") + done : std::string()) +
                fmt::format(", {} sampled {}", text::grouped(report.turns), report.turns == 1 ? "reply" : "replies"));
    text += rest_text(report);
  }
  return text;
}

std::string carried_json(const CarriedModels& carried) {
  nlohmann::ordered_json json{{"version", 1},
                              {"dry_run", carried.dry},
                              {"seconds", carried.seconds},
                              {"models", nlohmann::ordered_json::array()}};
  for (const CarriedModel& one : carried.models) {
    const carry::CarryReport& report = one.report;
    nlohmann::ordered_json unusable = nlohmann::ordered_json::array();
    for (const carry::Unusable& bad : report.named) unusable.push_back({{"name", bad.name}, {"reason", bad.reason}});
    json["models"].push_back(
        {{"fingerprint", one.fingerprint},
         {"space", one.space},
         {"device", one.device},
         {carried.direction == Direction::kPush ? "published" : "added", count_json(report.carried)},
         {"present", count_json(report.present)},
         {"left", count_json(report.left)},
         {"lost", report.lost.items},
         {"turns", report.turns},
         {"turns_left", report.turns_left},
         {"unusable", report.unusable},
         {"findings", std::move(unusable)},
         {"stopped",
          report.stopped.empty() ? nlohmann::ordered_json(nullptr) : nlohmann::ordered_json(report.stopped)}});
  }
  return json.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

}  // namespace kvkeep::cli
