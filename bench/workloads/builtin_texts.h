#pragma once

// The files of bench/workloads, which the build puts into the program (cmake/BuiltinTexts.cmake).

#include <span>
#include <string_view>

namespace kvkeep::bench {

struct BuiltinText {
  std::string_view name;  // of the file, without folder and extension
  std::string_view text;
};

std::span<const BuiltinText> builtin_texts();

}  // namespace kvkeep::bench
