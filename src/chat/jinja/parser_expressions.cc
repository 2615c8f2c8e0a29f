#include <optional>

#include "chat/jinja/builtins.h"
#include "chat/jinja/parser.h"

namespace kvkeep::chat::jinja {

bool Parser::skip_operator(std::string_view sign) {
  if (!current().is_operator(sign)) return false;
  take();
  return true;
}

bool Parser::skip_name(std::string_view name) {
  if (!current().is_name(name)) return false;
  take();
  return true;
}

void Parser::expect_operator(std::string_view sign) {
  if (!skip_operator(sign)) error(say("expected '", sign, "'"));
}

void Parser::expect_name(std::string_view name) {
  if (!skip_name(name)) error(say("expected '", name, "'"));
}

const Token& Parser::expect(TokenKind kind, std::string_view wanted) {
  if (current().kind != kind) error(say("expected ", wanted));
  return take();
}

void Parser::error(const std::string& message) const { fail_unsupported(message, " (line ", current().line, ")"); }

void Parser::unexpected() const {
  switch (current().kind) {
    case TokenKind::kEnd: error("unexpected end of template");
    case TokenKind::kVariableEnd: error("unexpected end of print statement");
    case TokenKind::kBlockEnd: error("unexpected end of statement block");
    default: error(say("unexpected '", current().text.substr(0, 40), "'"));
  }
}

Symbol Parser::symbol(std::string_view name) {
  if (const auto found = program_.symbol_of.find(name); found != program_.symbol_of.end()) return found->second;
  char* bytes = program_.arena.make_array<char>(name.size());
  std::ranges::copy(name, bytes);
  const auto fresh = static_cast<Symbol>(program_.symbols.size());
  program_.symbols.emplace_back(bytes, name.size());
  program_.symbol_of.emplace(program_.symbols.back(), fresh);
  return fresh;
}

Value Parser::constant_text(std::string_view text) {
  return Value::text(make_constant(program_.arena, text, Origin::kTemplate));
}

ExpressionPointer Parser::parse_expression(bool with_conditional) {
  const ParserDepth deeper(*this);
  ExpressionPointer node = parse_or();
  while (with_conditional && skip_name("if")) {
    ExpressionPointer test = parse_or();
    ExpressionPointer otherwise = skip_name("else") ? parse_expression() : nullptr;
    auto conditional = made<Conditional>(node->line, {node.get(), test.get(), otherwise.get()});
    conditional->when_true = std::move(node);
    conditional->test = std::move(test);
    conditional->otherwise = std::move(otherwise);
    node = std::move(conditional);
  }
  return node;
}

ExpressionPointer Parser::parse_or() {
  ExpressionPointer left = parse_and();
  while (skip_name("or")) {
    ExpressionPointer right = parse_and();
    auto node = made<Logical>(left->line, {left.get(), right.get()});
    node->is_and = false;
    node->left = std::move(left);
    node->right = std::move(right);
    left = std::move(node);
  }
  return left;
}

ExpressionPointer Parser::parse_and() {
  ExpressionPointer left = parse_not();
  while (skip_name("and")) {
    ExpressionPointer right = parse_not();
    auto node = made<Logical>(left->line, {left.get(), right.get()});
    node->left = std::move(left);
    node->right = std::move(right);
    left = std::move(node);
  }
  return left;
}

ExpressionPointer Parser::parse_not() {
  const int line = current().line;
  if (!skip_name("not")) return parse_comparison();
  const ParserDepth deeper(*this);
  ExpressionPointer operand = parse_not();
  auto node = made<Unary>(line, {operand.get()});
  node->operand = std::move(operand);
  return node;
}

std::optional<Comparator> Parser::take_comparator() {
  constexpr std::pair<std::string_view, Comparator> kSigns[] = {
      {"==", Comparator::kEqual},     {"!=", Comparator::kNotEqual}, {"<", Comparator::kLess},
      {"<=", Comparator::kLessEqual}, {">", Comparator::kGreater},   {">=", Comparator::kGreaterEqual}};
  for (const auto& [sign, comparator] : kSigns) {
    if (skip_operator(sign)) return comparator;
  }
  if (skip_name("in")) return Comparator::kIn;
  if (!current().is_name("not") || !look().is_name("in")) return std::nullopt;
  take();
  take();
  return Comparator::kNotIn;
}

ExpressionPointer Parser::parse_comparison() {
  ExpressionPointer first = parse_sum();
  std::unique_ptr<Comparison> node;
  while (const auto comparator = take_comparator()) {
    if (node == nullptr) {
      node = made<Comparison>(first->line, {first.get()});
      node->first = std::move(first);
    }
    node->rest.emplace_back(*comparator, parse_sum());
    raise(*node, node->rest.back().second.get());
  }
  return node == nullptr ? std::move(first) : ExpressionPointer(std::move(node));
}

ExpressionPointer Parser::parse_sum() {
  ExpressionPointer left = parse_concatenation();
  while (current().is_operator("+") || current().is_operator("-")) {
    const bool add = take().text == "+";
    ExpressionPointer right = parse_concatenation();
    auto node = made<Binary>(left->line, {left.get(), right.get()});
    node->sign = add ? BinaryOperator::kAdd : BinaryOperator::kSubtract;
    node->left = std::move(left);
    node->right = std::move(right);
    left = std::move(node);
  }
  return left;
}

ExpressionPointer Parser::parse_concatenation() {
  ExpressionPointer first = parse_product();
  if (!current().is_operator("~")) return first;
  auto node = made<Concatenation>(first->line, {first.get()});
  node->parts.push_back(std::move(first));
  while (skip_operator("~")) {
    node->parts.push_back(parse_product());
    raise(*node, node->parts.back().get());
  }
  return node;
}

ExpressionPointer Parser::parse_product() {
  constexpr std::pair<std::string_view, BinaryOperator> kSigns[] = {{"*", BinaryOperator::kMultiply},
                                                                    {"/", BinaryOperator::kDivide},
                                                                    {"//", BinaryOperator::kFloorDivide},
                                                                    {"%", BinaryOperator::kRemainder}};
  ExpressionPointer left = parse_power();
  while (true) {
    const auto* found = std::ranges::find_if(kSigns, [&](const auto& sign) { return skip_operator(sign.first); });
    if (found == std::end(kSigns)) return left;
    ExpressionPointer right = parse_power();
    auto node = made<Binary>(left->line, {left.get(), right.get()});
    node->sign = found->second;
    node->left = std::move(left);
    node->right = std::move(right);
    left = std::move(node);
  }
}

ExpressionPointer Parser::parse_power() {
  ExpressionPointer left = parse_unary(true);
  while (skip_operator("**")) {
    ExpressionPointer right = parse_unary(true);
    auto node = made<Binary>(left->line, {left.get(), right.get()});
    node->sign = BinaryOperator::kPower;
    node->left = std::move(left);
    node->right = std::move(right);
    left = std::move(node);
  }
  return left;
}

ExpressionPointer Parser::parse_unary(bool with_filter) {
  const ParserDepth deeper(*this);
  const int line = current().line;
  ExpressionPointer node;
  if (current().is_operator("-") || current().is_operator("+")) {
    const bool negative = take().text == "-";
    ExpressionPointer operand = parse_unary(false);
    auto unary = made<Unary>(line, {operand.get()});
    unary->sign = negative ? UnaryOperator::kNegative : UnaryOperator::kPositive;
    unary->operand = std::move(operand);
    node = std::move(unary);
  } else {
    node = parse_primary();
  }
  node = parse_postfix(std::move(node));
  return with_filter ? parse_filters_and_tests(std::move(node)) : std::move(node);
}

ExpressionPointer Parser::parse_name() {
  const Token& token = take();
  const std::string& name = token.text;
  auto constant = made<Constant>(token.line);
  if (name == "true" || name == "True" || name == "false" || name == "False") {
    constant->value = Value::boolean(name == "true" || name == "True");
    return constant;
  }
  if (name == "none" || name == "None") {
    constant->value = Value::none();
    return constant;
  }
  for (MacroBody* macro : macros_) {
    macro->uses_caller |= name == "caller";
    macro->uses_varargs |= name == "varargs";
    macro->uses_kwargs |= name == "kwargs";
  }
  if (name == "loop") {
    for (bool* mentioned : loop_mentions_) *mentioned = true;
  }
  auto node = made<Name>(token.line);
  node->symbol = symbol(name);
  node->name = kept(name);
  return node;
}

ExpressionPointer Parser::parse_primary() {
  const int line = current().line;
  if (current().kind == TokenKind::kName) return parse_name();
  auto constant = made<Constant>(line);
  if (current().kind == TokenKind::kText) {
    std::string text = take().text;
    while (current().kind == TokenKind::kText) text += take().text;
    constant->value = constant_text(text);
    return constant;
  }
  if (current().kind == TokenKind::kInteger) {
    constant->value = Value::integer(take().integer);
    return constant;
  }
  if (current().kind == TokenKind::kFloat) {
    constant->value = Value::number(take().number);
    return constant;
  }
  if (skip_operator("(")) {
    ExpressionPointer inside = parse_tuple(true, TupleEnd::kNone, true);
    expect_operator(")");
    return inside;
  }
  if (current().is_operator("[")) return parse_list();
  if (current().is_operator("{")) return parse_dict();
  unexpected();
}

ExpressionPointer Parser::parse_list() {
  auto node = made<ListLiteral>(current().line);
  expect_operator("[");
  while (!current().is_operator("]")) {
    if (!node->items.empty()) expect_operator(",");
    if (current().is_operator("]")) break;
    node->items.push_back(parse_expression());
    raise(*node, node->items.back().get());
  }
  expect_operator("]");
  return node;
}

ExpressionPointer Parser::parse_dict() {
  auto node = made<DictLiteral>(current().line);
  expect_operator("{");
  while (!current().is_operator("}")) {
    if (!node->entries.empty()) expect_operator(",");
    if (current().is_operator("}")) break;
    ExpressionPointer key = parse_expression();
    expect_operator(":");
    ExpressionPointer value = parse_expression();
    raise(*node, key.get());
    raise(*node, value.get());
    node->entries.emplace_back(std::move(key), std::move(value));
  }
  expect_operator("}");
  return node;
}

bool Parser::at_tuple_end(TupleEnd end) const {
  if (current().kind == TokenKind::kVariableEnd || current().kind == TokenKind::kBlockEnd) return true;
  if (current().is_operator(")")) return true;
  return (end == TupleEnd::kIn && current().is_name("in")) ||
         (end == TupleEnd::kRecursive && current().is_name("recursive"));
}

ExpressionPointer Parser::parse_tuple(bool with_conditional, TupleEnd end, bool parentheses) {
  auto node = made<ListLiteral>(current().line);
  node->kind = Kind::kTuple;
  bool comma = false;
  while (!at_tuple_end(end)) {
    node->items.push_back(parse_expression(with_conditional));
    raise(*node, node->items.back().get());
    if (!skip_operator(",")) {
      if (!comma) return std::move(node->items.front());
      break;
    }
    comma = true;
  }
  if (!comma && !parentheses) unexpected();
  return node;
}

}  // namespace kvkeep::chat::jinja
