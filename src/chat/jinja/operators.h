#pragma once

// + - * / // % ** and `in`, as Python computes them. Integers have 64 bits: a larger result is an error, where Python
// would go on.

#include "chat/jinja/ast.h"
#include "chat/jinja/interpreter.h"

namespace kvkeep::chat::jinja {

Value binary(Interpreter& in, BinaryOperator sign, const Value& left, const Value& right);
Value negative(const Value& operand);
// A value that is a number; booleans become integers.
Value positive(const Value& operand);
bool contains(Interpreter& in, const Value& container, const Value& item);
bool compare(Interpreter& in, Comparator comparator, const Value& left, const Value& right);
// Both texts in one; in place if possible.
Value joined(Interpreter& in, const Text& left, const Text& right);

}  // namespace kvkeep::chat::jinja
