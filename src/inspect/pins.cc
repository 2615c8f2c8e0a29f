#include "inspect/pins.h"

#include <algorithm>
#include <set>
#include <utility>

#include "inspect/model_note.h"
#include "store/small_files.h"

namespace kvkeep::inspect {
namespace {

std::string path_of(const std::string& directory) { return directory + "/" + std::string(store::kPinsName); }

}  // namespace

Result<std::vector<PrefixHash>> read_pins(os::FileSystem& files, const std::string& directory) {
  const auto text = read_small_file(files, path_of(directory), format::kMostPinBytes);
  if (!text && text.error().kind != ErrorKind::kNotFound) return text.error();
  return text ? decode_pins(*text) : std::vector<PrefixHash>();
}

Status write_pins(os::FileSystem& files, const std::string& directory, const std::vector<PrefixHash>& pins) {
  if (pins.size() > kMostPins)
    return no_space("at most " + std::to_string(kMostPins) + " prefixes of a model are pinned");
  return store::replace_small_file(files, path_of(directory), encode_pins(pins));
}

std::vector<std::size_t> pinned_runs(const Forest& forest, std::size_t model) {
  std::set<std::size_t> runs;
  for (const PrefixHash& pin : forest.directory.models[model].pins) {
    const auto target = forest.ids.find(pin.hex());
    if (target && target->model == model) runs.insert(target->run);
  }
  return {runs.begin(), runs.end()};
}

Result<std::size_t> change_pins(os::FileSystem& files, const Forest& forest, const std::vector<IdTarget>& runs,
                                bool pin) {
  std::size_t changed = 0;
  for (std::size_t model = 0; model < forest.trees.size(); ++model) {
    std::vector<PrefixHash> pins = forest.directory.models[model].pins;
    const std::size_t before = changed;
    for (const IdTarget& target : runs) {
      if (target.model != model) continue;
      const auto leads_there = [&](const PrefixHash& hash) {
        const auto found = forest.ids.find(hash.hex());
        return found && *found == target;
      };
      const PrefixHash& whole = forest.trees[model].runs[target.run].end_hash;
      if (pin && std::ranges::find(pins, whole) != pins.end()) continue;
      const std::size_t removed = std::erase_if(pins, leads_there);
      // A pin of an earlier end of the line is replaced by one of the whole line.
      if (pin) pins.push_back(whole);
      if (pin || removed > 0) ++changed;
    }
    if (changed > before) TRY(write_pins(files, forest.directory.models[model].path, pins));
  }
  return changed;
}

}  // namespace kvkeep::inspect
