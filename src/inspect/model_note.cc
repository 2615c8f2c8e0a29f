#include "inspect/model_note.h"

#include <nlohmann/json.hpp>
#include <span>

#include "store/layout.h"
#include "store/small_files.h"

namespace kvkeep::inspect {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t kMostFieldBytes = 1024;  // a path: four times that, escaped bytes included

std::string string_at(const Json& json, const char* key, std::size_t most) {
  const auto found = json.find(key);
  return found != json.end() && found->is_string() ? found->get<std::string>().substr(0, most) : std::string();
}

}  // namespace

std::string encode_model_note(const ModelNote& note) {
  const Json json = {{"name", note.name.substr(0, kMostFieldBytes)},
                     {"description", note.description.substr(0, kMostFieldBytes)},
                     {"path", note.path.size() <= 4 * kMostFieldBytes ? note.path : std::string()},
                     {"settings", note.settings.substr(0, kMostFieldBytes)},
                     {"computed_by", note.computed_by.substr(0, kMostFieldBytes)},
                     {"first_used", note.first_used_s}};
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
  const auto used = json.find("first_used");
  if (used != json.end() && used->is_number_integer()) note.first_used_s = used->get<std::int64_t>();
  return note;
}

std::optional<ModelNote> read_model_note(os::FileSystem& files, const std::string& directory) {
  const auto text = read_small_file(files, directory + "/" + std::string(store::kModelNoteName), kMaxNoteBytes);
  return text ? decode_model_note(*text) : std::nullopt;
}

Status write_model_note(os::FileSystem& files, const std::string& directory, ModelNote note) {
  if (const auto before = read_model_note(files, directory)) {
    note.first_used_s = before->first_used_s;
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

}  // namespace kvkeep::inspect
