#pragma once

#include <cstdint>

#include "format/segment_file.h"

namespace kvkeep::format {

// Of the file that encode_header() makes: the least that tells the header.
std::uint32_t version_of(const SegmentHeader& header);

}  // namespace kvkeep::format
