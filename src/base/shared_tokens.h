#pragma once

// Token ids that several owners share until one of them changes its own: a prompt that waits lies in memory once,
// although a job and its request both have it.

#include <cstddef>
#include <initializer_list>
#include <memory>
#include <utility>
#include <vector>

#include "base/types.h"

namespace kvkeep {

// A copy shares the ids. Each object belongs to one thread at a time; its copies may belong to others.
class SharedTokens {
 public:
  SharedTokens() = default;
  // Implicit: ids are given to a prompt as a vector or a list.
  SharedTokens(std::vector<TokenId> tokens)  // NOLINT(google-explicit-constructor)
      : shared_(std::make_shared<const std::vector<TokenId>>(std::move(tokens))) {}
  SharedTokens(std::initializer_list<TokenId> tokens) : SharedTokens(std::vector<TokenId>(tokens)) {}

  const std::vector<TokenId>& all() const { return shared_ != nullptr ? *shared_ : own_; }
  operator const std::vector<TokenId>&() const { return all(); }  // NOLINT(google-explicit-constructor)
  const TokenId* data() const { return all().data(); }
  const TokenId* begin() const { return data(); }
  const TokenId* end() const { return data() + size(); }
  std::size_t size() const { return all().size(); }
  bool empty() const { return all().empty(); }
  TokenId back() const { return all().back(); }  // Precondition: not empty.

  // Returns the ids to be changed; no other owner sees that.
  std::vector<TokenId>& own() {
    if (shared_ != nullptr) own_ = *std::exchange(shared_, nullptr);
    return own_;
  }

  friend bool operator==(const SharedTokens& a, const SharedTokens& b) { return a.all() == b.all(); }

 private:
  // A count of owners could tell when a copy is needless, but not without looking at what other threads do with theirs.
  std::shared_ptr<const std::vector<TokenId>> shared_;  // null: own_ has the ids
  std::vector<TokenId> own_;
};

}  // namespace kvkeep
