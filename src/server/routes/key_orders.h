#pragma once

// The order of keys in the definitions of tools. Clients that build them anew may print the same definition in another
// order; templates print it as it comes, and the prompt would part there, before everything else.
//
// A definition is printed in the order in which an equal one of the same tenant came first. No order is chosen here:
// what a model is shown is what some client wrote.

#include <nlohmann/json.hpp>

#include "server/routes/text_memo.h"

namespace kvkeep::server {

// Thread safe.
class KeyOrders {
 public:
  // `limit`: bytes of the definitions that are remembered.
  explicit KeyOrders(ByteCount limit) : first_(limit) {}

  // Puts the keys of `value`, at every depth, into the order in which an equal value came first; the first one stays as
  // it is and is remembered. Elements of arrays stay where they are. Cost: O(value).
  void settle(nlohmann::ordered_json& value, const Tenant& tenant = kNoTenant);

 private:
  TextMemo<nlohmann::ordered_json> first_;  // by the text with sorted keys
};

}  // namespace kvkeep::server
