#pragma once

// page.html, put into the program when it is built (cmake/BuiltinTexts.cmake).

#include <string_view>

namespace kvkeep::bench {

std::string_view page_text();

}  // namespace kvkeep::bench
