#pragma once

// The order of keys in the definitions of tools. Clients that build them anew may send the same definition in another
// order; templates print the keys in the order sent, and the prompt would part there, before everything else.
//
// A definition is printed in the order in which an equal one of the same tenant came first. No order is chosen here:
// the model always sees an order that a client wrote.

#include <nlohmann/json.hpp>

#include "server/routes/text_memo.h"

namespace kvkeep::server {

// Thread safe.
class KeyOrders {
 public:
  // `limit`: bytes of remembered definitions.
  explicit KeyOrders(ByteCount limit) : first_(limit) {}

  // Puts the keys of `value`, at every depth, into the order in which an equal value came first; the first one is
  // remembered unchanged. Elements of arrays keep their places. Cost: O(value).
  void settle(nlohmann::ordered_json& value, const Tenant& tenant = kNoTenant);

 private:
  TextMemo<nlohmann::ordered_json> first_;  // by the text with sorted keys
};

}  // namespace kvkeep::server
