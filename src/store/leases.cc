#include "store/leases.h"

#include <algorithm>
#include <utility>

namespace kvkeep::store {
namespace {

// How much each member may write before the keeper looks again, and all of them together: shares of the budget.
constexpr std::uint64_t kLeaseShare = 8;
constexpr std::uint64_t kAllLeasesShare = 4;
// No server has a larger total.
constexpr std::uint64_t kMostTotal = 1ULL << 62;

std::uint64_t outstanding(const ListedServer& member) {
  return member.granted > member.used ? std::min(member.granted, kMostTotal) - std::min(member.used, kMostTotal) : 0;
}

}  // namespace

// ---- The keeper's side ----

void Leases::forget_all() {
  members_.clear();
  uncertain_ = false;
}

void Leases::hear_wishes(const ListedServers& living) {
  for (const auto& [id, member] : living) {
    if (const auto known = members_.find(id); known != members_.end()) known->second.wanted = member.wanted;
  }
}

// The larger of the known and the listed grant counts: a listing during a rename may miss the name that has the number.
void Leases::accept(ListedServers living) {
  for (auto& [id, member] : living) {
    const auto before = members_.find(id);
    if (before == members_.end()) continue;
    member.granted = std::max(member.granted, before->second.granted);
  }
  members_ = std::move(living);
  std::uint64_t leased = 0;
  for (const auto& [id, member] : members_) leased = std::min(kMostTotal, leased + outstanding(member));
  ledger_.set_leased(ByteCount{leased});
  uncertain_ = false;
}

ByteCount Leases::set_apart(ByteCount bytes) {
  ByteCount given = ledger_.lease(bytes);
  if (given < bytes && syncs_.removals()) given += ledger_.lease(bytes - given);
  return given;
}

ByteCount Leases::top_up() {
  ByteCount shortage;
  if (members_.empty() || uncertain_) return shortage;
  const std::uint64_t budget = ledger_.budget().value();
  const std::uint64_t usual =
      std::min({kLargestLease.value(), budget / kLeaseShare, budget / kAllLeasesShare / members_.size()});
  for (auto& [id, member] : members_) {
    const std::uint64_t wanted = member.wanted <= budget ? member.wanted : 0;
    const std::uint64_t has = outstanding(member);
    if (has >= wanted && has >= usual / 2) continue;
    const ByteCount lacking{std::max(usual, wanted) - has};
    const ByteCount given = set_apart(lacking);
    shortage += lacking - given;
    if (given == ByteCount{}) continue;
    // A failed grant may have taken effect all the same: until that was looked at, the bytes stay leased.
    uncertain_ = !servers_.grant(id, member.granted, member.granted + given.value());
    if (uncertain_) break;
    member.granted += given.value();
  }
  return shortage;
}

// ---- Each server's own side ----

bool OwnAccount::join() {
  ledger_.draw_on_lease();
  drawn_before_ = ledger_.drawn().value();
  granted_ = removals_ = told_used_ = told_wanted_ = 0;
  return servers_.join().ok();
}

void OwnAccount::take_lease(const ListedServers& listed) {
  const auto own = listed.find(servers_.id());
  if (own == listed.end() || own->second.granted <= granted_) return;
  const std::uint64_t more = own->second.granted - granted_;
  // Ignore an implausible grant: the keeper did not write this file name. The keeper grants by its own budget, which
  // may be a larger one.
  if (more > std::max(ledger_.budget(), kLargestLease).value()) return;
  granted_ = own->second.granted;
  ledger_.add_to_lease(ByteCount{more});
  if (ledger_.lease_left().value() < wanted_) return;
  more_room_ = true;
  wanted_ = 0;
}

Status OwnAccount::draw(ByteCount bytes) {
  wanted_ = bytes.value();
  if (const auto listed = servers_.list(); listed && servers_.joined()) {
    take_lease(*listed);
    if (ledger_.reserve(bytes)) {
      wanted_ = 0;
      return {};
    }
    tell();
  }
  return no_space("the server that keeps the budget of this directory (its --kv-disk-space-mb) has not made room yet");
}

void OwnAccount::tell() {
  if (!syncs_.removals()) return;
  const std::uint64_t used = used_to_tell();
  if (!servers_.publish(used, wanted_)) return;
  told_used_ = used;
  told_wanted_ = wanted_;
}

void OwnAccount::tell_news() {
  if (used_to_tell() != told_used_ || wanted_ != told_wanted_) tell();
}

}  // namespace kvkeep::store
