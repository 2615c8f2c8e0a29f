#pragma once

// Strings that know the origin of each byte.
//
// A Text is a slice of a buffer: slicing, splitting and trimming copy nothing. Concatenation appends in place if the
// left side ends where its buffer does, so a text built up in a loop costs its bytes, not their square. An earlier
// slice of the buffer does not change: bytes after its end are not its own. The bytes of a text stay valid as long as
// the arena does, also when its buffer grows elsewhere.
//
// Bytes are UTF-8; each byte that is not is carried along as a character of its own.

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/unicode.h"
#include "chat/jinja/arena.h"

namespace kvkeep::chat::jinja {

// Numbers above kMessage are of strings whose place in the input is known: see message_at().
enum class Origin : std::uint32_t {
  kTemplate,  // written by the template, or computed from numbers
  kMessage,   // taken from a string of the input
};
constexpr bool is_message(Origin origin) { return origin != Origin::kTemplate; }
// The origin of strings at a place of the input (Variable::first_place). 0: the place is unknown.
constexpr Origin message_at(std::uint32_t place) {
  return Origin{static_cast<std::uint32_t>(Origin::kMessage) + place};
}
// Returns the place of a message's text, 0 if it is unknown. Precondition: is_message().
constexpr std::uint32_t place_of(Origin origin) {
  return static_cast<std::uint32_t>(origin) - static_cast<std::uint32_t>(Origin::kMessage);
}

// Bytes of a buffer from the end of the run before up to `end` share an origin.
struct TextRun {
  std::uint32_t end;
  Origin origin;
};

struct TextBuffer {
  char* bytes = nullptr;
  std::uint32_t used = 0;
  std::uint32_t capacity = 0;
  TextRun* runs = nullptr;  // neighbours differ in origin; null or inline_run to begin with
  std::uint32_t run_count = 0;
  std::uint32_t run_capacity = 0;
  TextRun inline_run = {0, Origin::kTemplate};
  bool growable = false;
  bool ascii = true;  // all bytes are: an index is an offset
};

class Text {
 public:
  Text() = default;
  Text(TextBuffer* buffer, std::size_t begin, std::size_t size)
      : buffer_(buffer), begin_(static_cast<std::uint32_t>(begin)), size_(static_cast<std::uint32_t>(size)) {}

  std::string_view view() const {
    return size_ == 0 ? std::string_view() : std::string_view(buffer_->bytes + begin_, size_);
  }
  std::size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  // Every byte is ASCII (false may also mean that another part of the buffer is not).
  bool ascii() const { return size_ == 0 || buffer_->ascii; }
  Text part(std::size_t begin, std::size_t size) const { return {buffer_, begin_ + begin, size}; }
  Text from(std::size_t begin) const { return part(begin, size_ - begin); }

  TextBuffer* buffer() const { return buffer_; }
  std::size_t begin() const { return begin_; }

  // Calls visit(std::string_view bytes, Origin) for each run, in order.
  template <typename Visit>
  void for_each_run(Visit visit) const {
    if (size_ == 0) return;
    std::uint32_t at = begin_;
    const std::uint32_t end = begin_ + size_;
    for (std::uint32_t i = run_at(at); at < end; ++i) {
      const std::uint32_t stop = buffer_->runs[i].end < end ? buffer_->runs[i].end : end;
      visit(std::string_view(buffer_->bytes + at, stop - at), buffer_->runs[i].origin);
      at = stop;
    }
  }

 private:
  std::uint32_t run_at(std::size_t place) const;

  TextBuffer* buffer_ = nullptr;
  std::uint32_t begin_ = 0;
  std::uint32_t size_ = 0;
};

// Builds a text. A later builder that starts with the text of finish() may append to its buffer.
class TextBuilder {
 public:
  explicit TextBuilder(Arena& arena, std::size_t expected_bytes = 0) : arena_(arena), expected_(expected_bytes) {}
  // Continues `start`, in place if possible.
  TextBuilder(Arena& arena, const Text& start, std::size_t more_bytes);

  void append(std::string_view bytes, Origin origin);
  void append(const Text& text);
  std::size_t size() const { return buffer_ == nullptr ? 0 : buffer_->used - begin_; }
  Text finish() const { return {buffer_, begin_, size()}; }

 private:
  void reserve(std::size_t more);
  void add_run(std::size_t bytes, Origin origin);

  Arena& arena_;
  std::size_t expected_;
  TextBuffer* buffer_ = nullptr;
  std::uint32_t begin_ = 0;
};

// A text with a buffer of its own, to which nothing is appended in place: threads share constants.
Text make_constant(Arena& arena, std::string_view bytes, Origin origin);
// The same without a copy of its bytes, which must live as long as the arena: messages may be megabytes.
Text make_view(Arena& arena, std::string_view bytes, Origin origin);

// ---- characters (base/unicode.h), as Python's string methods count and strip them ----

bool is_ascii(std::string_view text);
std::size_t count_characters(std::string_view text);
// Where character number `index` begins; text.size() beyond the last.
std::size_t offset_of(std::string_view text, std::size_t index);

// Without white space at the ends; how many bytes go at the front, and how many stay.
struct Core {
  std::size_t begin;
  std::size_t size;
};
Core strip_space(std::string_view text, bool front, bool back);
// Without any of `characters` at the ends.
Core strip_characters(std::string_view text, std::string_view characters, bool front, bool back);

}  // namespace kvkeep::chat::jinja
