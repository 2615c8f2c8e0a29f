#pragma once

// A JSON object while it is written: checked byte by byte, so that its beginning can be passed on before its end comes.
//
// Line ends, tabs and other control characters within strings, which models forget to escape, are escaped; all other
// bytes are passed on as they are. Numbers are passed on when they have ended. The result is the same however the
// object is cut.
//
// Not thread safe.

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

namespace kvkeep::chat::tools {

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
