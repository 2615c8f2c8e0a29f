#pragma once

// Work on texts that filters and methods share.

#include "chat/jinja/interpreter.h"

namespace kvkeep::chat::jinja {

enum class Case { kUpper, kLower, kCapitalized, kTitle, kTitleMethod, kSwapped, kFolded };

Text mapped(Interpreter& in, const Text& text, Case to);
// `characters`: null or none for white space.
Text stripped(Interpreter& in, const Text& text, const Value* characters, bool front, bool back);
// At most `count` times; negative: all.
Text replaced(Interpreter& in, const Text& text, const Text& old, const Text& fresh, std::int64_t count);
// str.splitlines(), without the line ends unless they are kept.
std::vector<Value> lines_of(Interpreter& in, const Text& text, bool keep_ends);
// `width` characters, the text on the left, in the middle or on the right.
Text padded(Interpreter& in, const Text& text, std::int64_t width, const Value* fill, char align);

}  // namespace kvkeep::chat::jinja
