#pragma once

// The pinned prefixes of a fingerprint: a text file next to the segments, one line for each. Without it they are like
// all others.

#include <string>
#include <string_view>
#include <vector>

#include "format/notes.h"
#include "inspect/view.h"

namespace kvkeep::inspect {

using format::decode_pins;
using format::encode_pins;
using format::kMostPins;

// Empty if there is no such file.
Result<std::vector<PrefixHash>> read_pins(os::FileSystem& files, const std::string& directory);
Status write_pins(os::FileSystem& files, const std::string& directory, const std::vector<PrefixHash>& pins);

// The runs whose ends, or ends of segments within, are pinned.
std::vector<std::size_t> pinned_runs(const Forest& forest, std::size_t model);

// Pins these runs, or unpins them. kNoSpace: more than kMostPins of one model. Returns how many changed; a run that is
// pinned already did not.
Result<std::size_t> change_pins(os::FileSystem& files, const Forest& forest, const std::vector<IdTarget>& runs,
                                bool pin);

}  // namespace kvkeep::inspect
