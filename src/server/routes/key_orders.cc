#include "server/routes/key_orders.h"

namespace kvkeep::server {

void KeyOrders::settle(nlohmann::ordered_json& value) {
  using Sorted = nlohmann::json;
  // Broken UTF-8 has the same text as its replacement, but is another value.
  std::string sorted;
  try {
    sorted = Sorted(value).dump();
  } catch (const Sorted::exception&) {
    return;
  }
  if (const auto first = first_.find(sorted)) {
    value = *first;
    return;
  }
  first_.remember(sorted, value, sorted.size());
}

}  // namespace kvkeep::server
