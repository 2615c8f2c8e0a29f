#include "inspect/model_notes.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>
#include <span>
#include <utility>

#include "inspect/view.h"
#include "store/layout.h"
#include "store/small_files.h"
#include "store/weights.h"

namespace kvkeep::inspect {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t kMostFieldBytes = 1024;  // a path: four times that, escaped bytes included

std::string string_at(const Json& json, const char* key, std::size_t most) {
  const auto found = json.find(key);
  return found != json.end() && found->is_string() ? found->get<std::string>().substr(0, most) : std::string();
}

constexpr std::size_t kMostDeviceBytes = 512;

// A device whose description would be cut is none that anything is named after.
std::vector<std::string> bounded_devices(const std::vector<std::string>& devices) {
  std::vector<std::string> bounded;
  for (const std::string& device : devices) {
    const bool fits = device.size() <= kMostDeviceBytes && bounded.size() + 1 < kMostDevices;
    const std::string known = fits ? device : std::string(kUnknownDevice);
    if (std::ranges::find(bounded, known) == bounded.end()) bounded.push_back(known);
  }
  return bounded;
}

std::vector<std::string> devices_in(const Json& json) {
  std::vector<std::string> devices;
  const auto found = json.find("devices");
  if (found == json.end() || !found->is_array()) return devices;
  for (const Json& device : *found) {
    devices.push_back(device.is_string() ? device.get<std::string>() : std::string(kUnknownDevice));
  }
  return bounded_devices(devices);
}

// An empty list stands for an unknown device.
std::vector<std::string> merged_devices(std::vector<std::string> known, const std::vector<std::string>& more) {
  if (known == more) return known;
  if (known.empty()) known.emplace_back(kUnknownDevice);
  for (const std::string& device : more) {
    if (std::ranges::find(known, device) == known.end()) known.push_back(device);
  }
  if (more.empty() && std::ranges::find(known, kUnknownDevice) == known.end()) known.emplace_back(kUnknownDevice);
  return bounded_devices(known);
}

}  // namespace

std::string encode_model_note(const ModelNote& note) {
  Json json = {{"name", note.name.substr(0, kMostFieldBytes)},
               {"description", note.description.substr(0, kMostFieldBytes)},
               {"path", note.path.size() <= 4 * kMostFieldBytes ? note.path : std::string()},
               {"settings", note.settings.substr(0, kMostFieldBytes)},
               {"computed_by", note.computed_by.substr(0, kMostFieldBytes)},
               {"first_used", note.first_used_s},
               {"devices", bounded_devices(note.devices)}};
  if (!note.weights.empty()) json["weights"] = note.weights;
  return json.dump(1, ' ', false, Json::error_handler_t::replace) + "\n";
}

std::optional<ModelNote> decode_model_note(std::string_view text) {
  const Json json = Json::parse(text, nullptr, false);
  if (!json.is_object()) return std::nullopt;
  ModelNote note;
  note.name = string_at(json, "name", kMostFieldBytes);
  note.description = string_at(json, "description", kMostFieldBytes);
  note.path = string_at(json, "path", 4 * kMostFieldBytes);
  note.settings = string_at(json, "settings", kMostFieldBytes);
  note.computed_by = string_at(json, "computed_by", kMostFieldBytes);
  note.devices = devices_in(json);
  note.weights = string_at(json, "weights", kMostFieldBytes);
  if (!store::parse_model_hash(note.weights)) note.weights.clear();
  const auto used = json.find("first_used");
  if (used != json.end() && used->is_number_integer()) note.first_used_s = used->get<std::int64_t>();
  return note;
}

std::optional<ModelNote> read_model_note(os::FileSystem& files, const std::string& directory) {
  const auto text = read_small_file(files, directory + "/" + std::string(store::kModelNoteName), kMaxNoteBytes);
  return text ? decode_model_note(*text) : std::nullopt;
}

Status write_model_note(os::FileSystem& files, const std::string& directory, ModelNote note) {
  note.weights.clear();
  if (const auto before = read_model_note(files, directory)) {
    note.first_used_s = before->first_used_s;
    note.devices = merged_devices(before->devices, note.devices);
    if (*before == note) return {};
  }
  const std::string text = encode_model_note(note);
  if (text.size() > kMaxNoteBytes) return invalid("a note of the model that is too large");
  return store::replace_small_file(files, directory + "/" + std::string(store::kModelNoteName), text);
}

Result<std::string> read_small_file(os::FileSystem& files, const std::string& path, std::size_t most) {
  TRY_ASSIGN(const std::unique_ptr<os::File> file, files.open(path));
  TRY_ASSIGN(const ByteCount size, file->size());
  if (size.value() > most) return damaged(path + " is too large");
  std::string text(size.value(), '\0');
  TRY_ASSIGN(const std::size_t count, file->read_at(0, std::as_writable_bytes(std::span(text))));
  text.resize(count);
  return text;
}

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
