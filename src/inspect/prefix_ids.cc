#include "inspect/prefix_ids.h"

#include <fmt/format.h>

#include <algorithm>

namespace kvkeep::inspect {
namespace {

constexpr std::size_t kCandidatesTold = 4;

std::size_t common_digits(const std::string& a, const std::string& b) {
  return static_cast<std::size_t>(std::ranges::mismatch(a, b).in1 - a.begin());
}

}  // namespace

std::vector<std::size_t> runs_of_model(const std::vector<IdTarget>& targets, std::size_t model) {
  std::vector<std::size_t> runs;
  for (const IdTarget& target : targets) {
    if (target.model == model) runs.push_back(target.run);
  }
  return runs;
}

void PrefixIds::sort() {
  std::ranges::sort(entries_, {}, &Entry::hex);
  for (std::size_t i = 1; i < entries_.size(); ++i) {
    shown_length_ = std::max(shown_length_, common_digits(entries_[i - 1].hex, entries_[i].hex) + 1);
  }
  shown_length_ = std::min(shown_length_, 2 * sizeof(PrefixHash));
}

Result<IdTarget> PrefixIds::find(std::string_view typed) const {
  if (typed.size() < kShortestTypedId || typed.size() > 2 * sizeof(PrefixHash) ||
      typed.find_first_not_of("0123456789abcdef") != std::string_view::npos) {
    return invalid(fmt::format("'{:.80}' is no id: {} to 64 hexadecimal digits, as kvkeep cache ls shows them", typed,
                               kShortestTypedId));
  }
  const auto first =
      std::ranges::lower_bound(entries_, typed, {}, [](const Entry& entry) { return std::string_view(entry.hex); });
  std::vector<std::string> candidates;
  for (auto entry = first; entry != entries_.end() && entry->hex.starts_with(typed); ++entry) {
    // Several names of one run are one answer.
    if (entry != first && entry->target == first->target) continue;
    candidates.push_back(entry->hex.substr(0, std::max(shown_length_, typed.size())));
    if (candidates.size() > kCandidatesTold) break;
  }
  if (candidates.empty()) return not_found(fmt::format("no prefix has the id '{}'; see kvkeep cache ls", typed));
  if (candidates.size() == 1) return first->target;
  std::string told = candidates.front();
  for (std::size_t i = 1; i < std::min(candidates.size(), kCandidatesTold); ++i) told += ", " + candidates[i];
  if (candidates.size() > kCandidatesTold) told += ", ...";
  return invalid(fmt::format("the id '{}' is ambiguous: {}", typed, told));
}

}  // namespace kvkeep::inspect
