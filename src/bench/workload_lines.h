#pragma once

// A text taken apart: lines, words, and pieces of it for messages. Views are into the text given.

#include <string>
#include <string_view>
#include <vector>

namespace kvkeep::bench {

// Without their "\n" or "\r\n". At least one; what follows the last "\n" is a line only if it is not empty.
std::vector<std::string_view> lines_of(std::string_view text);

// What blanks and tabs separate.
std::vector<std::string_view> words_of(std::string_view line);

// Without blanks and tabs at both ends.
std::string_view trimmed(std::string_view line);

// Whether it is UTF-8 without control characters other than the tab: it can be shown and put into a report.
bool is_printable(std::string_view line);

// 'word', cut after 40 bytes or fewer, for messages. Precondition: is_printable(word).
std::string in_quotes(std::string_view word);

}  // namespace kvkeep::bench
