#pragma once

// page.html, which the build puts into the program (cmake/BuiltinTexts.cmake).

#include <string_view>

namespace kvkeep::bench {

std::string_view page_text();

}  // namespace kvkeep::bench
