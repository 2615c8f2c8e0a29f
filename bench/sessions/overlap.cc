#include "bench/sessions/overlap.h"

#include <algorithm>
#include <list>
#include <string>
#include <utility>

#include "bench/sessions/canonical.h"

namespace kvkeep::bench {
namespace {

struct UnderWay {
  std::size_t place;
  std::string text;  // canonical
};

bool goes_on(const std::string& earlier, const std::string& later) {
  return !earlier.empty() && later.size() > earlier.size() && later.starts_with(earlier);
}

}  // namespace

std::vector<std::vector<std::size_t>> ended_before(const Session& session) {
  std::vector<std::vector<std::size_t>> ended(session.requests.size());
  std::list<UnderWay> under_way;  // in the order sent
  for (std::size_t place = 0; place < session.requests.size(); ++place) {
    const RecordedRequest& request = session.requests[place];
    std::string text = canonical_text(dialect_of(request.method, request.path), request.body);
    std::size_t too_many = under_way.size() - std::min<std::size_t>(under_way.size(), request.in_flight - 1);
    const auto end = [&](std::list<UnderWay>::iterator one) {
      ended[place].push_back(one->place);
      if (too_many > 0) --too_many;
      return under_way.erase(one);
    };
    for (auto one = under_way.begin(); one != under_way.end();)
      one = goes_on(one->text, text) ? end(one) : std::next(one);
    while (too_many > 0) end(under_way.begin());
    std::ranges::sort(ended[place]);
    under_way.push_back({place, std::move(text)});
  }
  return ended;
}

}  // namespace kvkeep::bench
