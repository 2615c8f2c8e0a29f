// The forms that may stand after a value: .name, [index], (arguments), |filter, is test.

#include "chat/jinja/builtins.h"
#include "chat/jinja/parser.h"

namespace kvkeep::chat::jinja {

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
