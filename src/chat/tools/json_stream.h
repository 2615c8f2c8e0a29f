#pragma once

// A JSON object while it is written: checked byte by byte, so that what has come can be passed on before the rest does.
//
// What the model forgot to escape within strings (line ends, tabs, other control characters) is escaped; all other
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
    kBroken,  // none can come of it
  };

  // The next byte. After the object only white space may follow, which is dropped.
  State feed(char byte);
  // Feeds all of them.
  State feed(std::string_view text);
  State state() const { return state_; }

  // What is certain and was not taken yet. All of it together is JSON from the moment the object is whole, and cannot
  // be parsed before. Deeper nesting than 100, and numbers that no double holds, break it.
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
  std::string_view word_;  // what of it must follow
  bool is_key_ = false;
  int hex_digits_ = 0;
  std::uint32_t hex_ = 0;
  bool wants_low_ = false;  // the second half of a surrogate pair
};

}  // namespace kvkeep::chat::tools
