#pragma once

// The lists below what runs, as lines: requests that ended, texts that cost most, prefixes used most, tenants. Pure.

#include <cstddef>
#include <string>
#include <vector>

#include "top/frame.h"

namespace kvkeep::top {

// What the columns of the list are; or, if it is empty, why.
std::string heading_of(const View& view, List list);
// The line of the entry at this place of the shown list, which is there.
Line entry_line(const View& view, const Look& look, std::size_t at, std::size_t columns);
// More about the chosen entry, which is there.
std::vector<Line> details(const View& view, const Look& look, std::size_t columns);

}  // namespace kvkeep::top
