// Files that a recording has only hashes of (kvkeep's trace without --trace-media): noise takes their places, the same
// for the same hash, so that what was known when the session was recorded is known when it is replayed.

#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "bench/run/replayer.h"
#include "bench/sessions/json_fields.h"
#include "bench/workloads/pictures.h"

namespace kvkeep::bench {
namespace {

constexpr std::string_view kMediaMark = "kvkeep-media:";
constexpr std::string_view kPictureMark = "picture:";
constexpr std::string_view kSoundMark = "sound:";
constexpr std::size_t kMarkDigits = 32;

bool consists_of(std::string_view text, std::string_view letters) {
  return !text.empty() && text.find_first_not_of(letters) == std::string_view::npos;
}

// Returns the text after the mark, "KIND:HASH:BYTES", if there is one and nothing but a data: URL's head before it.
std::optional<std::string> mark_in(std::string_view text, std::size_t& begin) {
  begin = text.find(kMediaMark);
  if (begin == std::string_view::npos) return std::nullopt;
  const std::string_view head = text.substr(0, begin);
  if (!head.empty() && !(head.starts_with("data:") && head.ends_with(";base64,"))) return std::nullopt;
  const std::string_view mark = text.substr(begin + kMediaMark.size());
  const bool is_sound = mark.starts_with(kSoundMark);
  if (!is_sound && !mark.starts_with(kPictureMark)) return std::nullopt;
  const std::string_view rest = mark.substr(is_sound ? kSoundMark.size() : kPictureMark.size());
  const bool is_whole = rest.size() > kMarkDigits + 1 && consists_of(rest.substr(0, kMarkDigits), "0123456789abcdef") &&
                        rest[kMarkDigits] == ':' && consists_of(rest.substr(kMarkDigits + 1), "0123456789");
  return is_whole ? std::optional(std::string(mark)) : std::nullopt;
}

class StandIns {
 public:
  void put(Json& value) {
    if (value.is_structured()) {
      for (Json& member : value) put(member);
    } else if (value.is_string()) {
      auto& text = value.get_ref<std::string&>();
      std::size_t begin = 0;
      if (const auto mark = mark_in(text, begin)) text.replace(begin, std::string::npos, file_of(*mark));
    }
  }
  std::size_t count() const { return files_.size(); }

 private:
  const std::string& file_of(const std::string& mark) {
    const auto [found, is_new] = files_.try_emplace(mark);
    if (is_new) found->second = in_base64(mark.starts_with(kSoundMark) ? sound_file(mark) : picture_file(mark));
    return found->second;
  }

  std::map<std::string, std::string> files_;  // in base64, by their marks
};

}  // namespace

void put_stand_ins(Session& session) {
  StandIns stand_ins;
  for (RecordedRequest& request : session.requests) stand_ins.put(request.body);
  session.stand_ins = stand_ins.count();
}

}  // namespace kvkeep::bench
