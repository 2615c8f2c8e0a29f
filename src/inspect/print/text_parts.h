#pragma once

// Parts that several texts share.

#include <cstdint>
#include <string>

#include "base/types.h"

namespace kvkeep::inspect {

inline constexpr std::size_t kShownDigits = 12;  // of a fingerprint

std::string size_text(ByteCount bytes);
// "1 file", "2,000 files".
std::string counted(std::uint64_t count, const char* one, const char* many);
// "  name        value", or nothing if there is no value.
void append_line(std::string& out, const char* name, const std::string& value);

}  // namespace kvkeep::inspect
