#include "server/routes/memos.h"

namespace kvkeep::server {

void KeyOrders::settle(nlohmann::ordered_json& value, const Tenant& tenant) {
  using Sorted = nlohmann::json;
  // Broken UTF-8 has the same text as its replacement, but is another value: keep it as it is.
  std::string sorted;
  try {
    sorted = Sorted(value).dump();
  } catch (const Sorted::exception&) {
    return;
  }
  if (const auto first = first_.find(sorted, tenant)) {
    value = *first;
    return;
  }
  first_.remember(sorted, value, sorted.size(), tenant);
}

}  // namespace kvkeep::server
