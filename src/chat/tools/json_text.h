#pragma once

// Reads JSON as a model wrote it, without building values: arguments are passed on in the model's own words, since
// numbers would lose digits and keys their doubles on the way through a tree.

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace kvkeep::chat::tools {

// Deeper arguments would exhaust the stack of code that walks them later.
inline constexpr std::size_t kDeepestJson = 100;

inline bool is_white(char byte) { return byte == ' ' || byte == '\t' || byte == '\r' || byte == '\n'; }
std::string_view trimmed(std::string_view text);

// Follows strings and brackets, byte by byte, without checking what lies between them.
class JsonScanner {
 public:
  void feed(char byte);
  bool in_string() const { return in_string_; }
  std::size_t depth() const { return depth_; }  // brackets that are open

 private:
  std::size_t depth_ = 0;
  bool in_string_ = false;
  bool escaped_ = false;
};

// The end of the value that begins at `begin`; nullopt if the text ends before it, or if none begins there. The text in
// between may still be invalid JSON.
std::optional<std::size_t> value_end(std::string_view text, std::size_t begin);

struct JsonMember {
  std::string key;
  std::string_view value;
};
// The members of an object that fills the text; nullopt if it is no object.
std::optional<std::vector<JsonMember>> members_of(std::string_view object);

// The text of a JSON string; nullopt if it is none.
std::optional<std::string> string_of(std::string_view literal);
std::string json_string(std::string_view text);

bool is_json(std::string_view text);
// Returns the text if it is a JSON object; escapes line ends and tabs within strings, which models forget to escape, if
// that makes it an object.
std::optional<std::string> object_text(std::string_view text);

}  // namespace kvkeep::chat::tools
