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

// The forms that may stand after a value: .name, [index], (arguments), |filter, is test.

ExpressionPointer Parser::parse_postfix(ExpressionPointer node) {
  while (true) {
    if (current().is_operator(".")) {
      node = parse_attribute(std::move(node));
    } else if (current().is_operator("[")) {
      node = parse_subscript(std::move(node));
    } else if (current().is_operator("(")) {
      node = parse_call(std::move(node));
    } else {
      return node;
    }
  }
}

ExpressionPointer Parser::parse_filters_and_tests(ExpressionPointer node) {
  while (true) {
    if (current().is_operator("|")) {
      take();
      node = parse_filter(std::move(node));
    } else if (current().is_name("is")) {
      node = parse_test(std::move(node));
    } else if (current().is_operator("(")) {
      node = parse_call(std::move(node));
    } else {
      return node;
    }
  }
}

ExpressionPointer Parser::parse_attribute(ExpressionPointer object) {
  const int line = take().line;
  if (current().kind == TokenKind::kInteger) {
    auto index = made<Constant>(line);
    index->value = Value::integer(take().integer);
    auto node = made<GetItem>(line, {object.get(), index.get()});
    node->object = std::move(object);
    node->index = std::move(index);
    return node;
  }
  auto node = made<GetAttribute>(line, {object.get()});
  const Token& name = expect(TokenKind::kName, "a name or number");
  node->name = constant_text(name.text);
  node->dict_method = find_dict_method(name.text);
  node->object = std::move(object);
  return node;
}

ExpressionPointer Parser::parse_subscript(ExpressionPointer object) {
  const int line = take().line;
  auto tuple = made<ListLiteral>(line);
  tuple->kind = Kind::kTuple;
  bool comma = false;
  while (!current().is_operator("]")) {
    if (current().is_operator(":") && !comma) return parse_slice(std::move(object), nullptr);
    tuple->items.push_back(parse_expression());
    if (current().is_operator(":") && !comma) return parse_slice(std::move(object), std::move(tuple->items.front()));
    raise(*tuple, tuple->items.back().get());
    if (current().is_operator("]")) break;
    expect_operator(",");
    comma = true;
  }
  expect_operator("]");
  ExpressionPointer index = tuple->items.size() == 1 ? std::move(tuple->items.front()) : std::move(tuple);
  auto node = made<GetItem>(line, {object.get(), index.get()});
  node->object = std::move(object);
  node->index = std::move(index);
  return node;
}

ExpressionPointer Parser::parse_slice(ExpressionPointer object, ExpressionPointer start) {
  auto node = made<GetSlice>(current().line, {object.get(), start.get()});
  node->object = std::move(object);
  node->start = std::move(start);
  expect_operator(":");
  if (!current().is_operator("]") && !current().is_operator(":")) node->stop = parse_expression();
  if (skip_operator(":") && !current().is_operator("]")) node->step = parse_expression();
  raise(*node, node->stop.get());
  raise(*node, node->step.get());
  expect_operator("]");
  return node;
}

ExpressionPointer Parser::parse_call(ExpressionPointer callee) {
  auto node = made<Call>(current().line, {callee.get()});
  node->callee = std::move(callee);
  parse_arguments(*node, node->arguments);
  return node;
}

std::string_view Parser::parse_dotted_name(std::string_view wanted) {
  std::string name = expect(TokenKind::kName, wanted).text;
  while (skip_operator(".")) name.append(".").append(expect(TokenKind::kName, "a name").text);
  return kept(name);
}

std::unique_ptr<Applied> Parser::parse_filter(ExpressionPointer value) {
  auto node = made<Applied>(current().line, {value.get()});
  node->name = parse_dotted_name("a filter's name");
  node->builtin = find_filter(node->name);
  node->value = std::move(value);
  if (current().is_operator("(")) parse_arguments(*node, node->arguments);
  return node;
}

ExpressionPointer Parser::parse_test(ExpressionPointer value) {
  const int line = take().line;
  const bool negated = skip_name("not");
  auto node = made<Applied>(line, {value.get()});
  node->is_test = true;
  node->name = parse_dotted_name("a test's name");
  node->builtin = find_test(node->name);
  node->value = std::move(value);
  const TokenKind next = current().kind;
  const bool word =
      next == TokenKind::kName && !current().is_name("else") && !current().is_name("or") && !current().is_name("and");
  if (current().is_operator("(")) {
    parse_arguments(*node, node->arguments);
  } else if (word || next == TokenKind::kText || next == TokenKind::kInteger || next == TokenKind::kFloat ||
             current().is_operator("[") || current().is_operator("{")) {
    if (current().is_name("is")) error("tests cannot be chained with 'is'");
    node->arguments.positional.push_back(parse_postfix(parse_primary()));
    raise(*node, node->arguments.positional.back().get());
  }
  if (!negated) return node;
  auto opposite = made<Unary>(line, {node.get()});
  opposite->operand = std::move(node);
  return opposite;
}

void Parser::parse_arguments(Expression& node, CallArguments& arguments) {
  expect_operator("(");
  bool comma = true;
  while (!current().is_operator(")")) {
    if (!comma) error("expected ','");
    parse_argument(node, arguments);
    comma = skip_operator(",");
  }
  expect_operator(")");
}

void Parser::parse_argument(Expression& node, CallArguments& arguments) {
  const auto ensure = [&](bool right) {
    if (!right) error("invalid syntax for function call expression");
  };
  if (skip_operator("*")) {
    ensure(!arguments.more_positional && !arguments.more_named);
    arguments.more_positional = parse_expression();
    raise(node, arguments.more_positional.get());
  } else if (skip_operator("**")) {
    ensure(!arguments.more_named);
    arguments.more_named = parse_expression();
    raise(node, arguments.more_named.get());
  } else if (current().kind == TokenKind::kName && look().is_operator("=")) {
    ensure(!arguments.more_named);
    Value name = constant_text(take().text);
    take();
    arguments.named.emplace_back(name, parse_expression());
    raise(node, arguments.named.back().second.get());
  } else {
    ensure(!arguments.more_positional && !arguments.more_named && arguments.named.empty());
    arguments.positional.push_back(parse_expression());
    raise(node, arguments.positional.back().get());
  }
}

}  // namespace kvkeep::chat::jinja
