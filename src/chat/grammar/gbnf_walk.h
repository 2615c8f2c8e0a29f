#pragma once

// Checks how a grammar's rules begin with each other.

#include "chat/grammar/gbnf.h"

namespace kvkeep::chat::grammar {

// kInvalid: a rule begins with itself, or begins in more than `ways` ways. libllama follows each of them, at the start
// and after every character. Takes time in proportion to the grammar.
Status check_walks(const Gbnf& grammar, std::size_t ways);

}  // namespace kvkeep::chat::grammar
