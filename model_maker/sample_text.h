#pragma once

#include <span>
#include <string_view>

namespace kvkeep::gguf {

// Texts from which generated models learn their vocabulary: what agents and their users send. Prose, program code,
// and data (JSON, shell sessions, markdown, patches).
std::string_view sample_prose();
std::string_view sample_code();
std::string_view sample_data();
// Frequent words of English and of program code, so that texts on other subjects tokenize well too.
std::string_view sample_words();

}  // namespace kvkeep::gguf
