#include "policy/parting_memory.h"

#include <algorithm>

namespace kvkeep::policy {

namespace {

// Fewer bytes begin too many lines.
constexpr std::size_t kLeastHead = 4;
constexpr std::size_t kMostHead = 48;

// Up to the first digit and the last whole word; empty: nothing that could be told from others.
std::string_view stable_head(std::string_view line, bool is_whole) {
  const std::size_t digit = line.find_first_of("0123456789");
  std::string_view head = line.substr(0, std::min(digit, kMostHead));
  const bool cut_in_word = head.size() == line.size() ? !is_whole : digit > kMostHead;
  if (cut_in_word) head = head.substr(0, head.find_last_of(" \t:=([{<\"'") + 1);
  head = head.substr(0, head.find_last_not_of(" \t") + 1);
  return head.size() < kLeastHead ? std::string_view() : head;
}

}  // namespace

PartingMemory::Client& PartingMemory::use(std::uint64_t id) {
  if (const auto found = known_.find(id); found != known_.end()) {
    order_.splice(order_.begin(), order_, found->second);
    return order_.front();
  }
  if (order_.size() >= std::max<std::size_t>(clients_, 1)) {
    known_.erase(order_.back().id);
    order_.pop_back();
  }
  order_.push_front({id, {}});
  known_[id] = order_.begin();
  return order_.front();
}

void PartingMemory::learn(std::uint64_t client, std::string_view shared, std::string_view before) {
  std::string_view head = stable_head(shared, /*is_whole=*/false);
  const bool next_line = head.empty();
  if (next_line) head = stable_head(before, /*is_whole=*/true);
  if (head.empty()) return;
  Heads& heads = use(client).heads;
  Head learnt{std::string(head), next_line};
  std::erase(heads, learnt);
  heads.push_front(std::move(learnt));
  if (heads.size() > heads_) heads.pop_back();
}

bool PartingMemory::parted(std::uint64_t client, std::string_view line, std::string_view before) {
  const auto known = known_.find(client);
  if (known == known_.end()) return false;
  Heads& heads = known->second->heads;
  const auto found = std::ranges::find_if(
      heads, [&](const Head& head) { return (head.next_line ? before : line).starts_with(head.text); });
  if (found == heads.end()) return false;
  heads.splice(heads.begin(), heads, found);
  return true;
}

std::size_t PartingMemory::heads(std::uint64_t client) const {
  const auto known = known_.find(client);
  return known == known_.end() ? 0 : known->second->heads.size();
}

}  // namespace kvkeep::policy
