#pragma once

// Reads JSON as a model wrote it, without building values: arguments are passed on in the model's own words, since
// numbers would lose digits and keys their doubles on the way through a tree.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
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

// A JSON object while it is written: checked byte by byte, so that its beginning can be passed on before its end comes.
//
// Line ends, tabs and other control characters within strings, which models forget to escape, are escaped; all other
// bytes are passed on as they are. Numbers are passed on when they have ended. The result is the same however the
// object is cut.
//
// Not thread safe.
class JsonObjectStream {
 public:
  enum class State : std::uint8_t {
    kOpen,    // so far a strict prefix of an object
    kWhole,   // an object
    kBroken,  // it cannot become an object
  };

  // The next byte. After the object only white space may follow, which is dropped.
  State feed(char byte);
  // Feeds all bytes.
  State feed(std::string_view text);
  State state() const { return state_; }

  // Takes the bytes that are certain. Together they are JSON from the moment the object is whole, and do not parse
  // before. Nesting deeper than 100, and numbers that no double holds, break it.
  std::string take() { return std::exchange(passed_, {}); }

 private:
  enum class Expected : std::uint8_t {
    kObject,      // the first byte
    kKeyOrEnd,    // after '{'
    kKey,         // after ',' in an object
    kColon,       // after a key
    kValue,       // after ':', and after ',' in an array
    kValueOrEnd,  // after '['
    kCommaOrEnd,  // after a value
    kString,      // within one
    kEscape,      // after its '\'
    kHex,         // after "\u"
    kLowEscape,   // after a high surrogate: '\'
    kLowEscapeU,  // and 'u'
    kNumber,
    kWord,     // true, false, null
    kNothing,  // after the object
  };

  bool accept(char byte);
  bool begin_value(char byte);
  bool end_container(char byte);
  bool read_string(char byte);
  bool read_escape(char byte);
  bool read_hex(char byte);
  bool read_word(char byte);
  bool read_number(char byte);
  void pass(char byte) { passed_ += byte; }
  void open_string(bool is_key);
  void value_ended();

  State state_ = State::kOpen;
  Expected expected_ = Expected::kObject;
  std::string open_;    // '{' and '[' that have no end yet
  std::string passed_;  // not taken yet
  std::string number_;
  std::string_view word_;  // the rest of it that must follow
  bool is_key_ = false;
  int hex_digits_ = 0;
  std::uint32_t hex_ = 0;
  bool wants_low_ = false;  // the second half of a surrogate pair
};

}  // namespace kvkeep::chat::tools
