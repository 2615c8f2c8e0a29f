#include "chat/jinja/builtins.h"
#include "chat/jinja/parser.h"

namespace kvkeep::chat::jinja {

Body Parser::parse_body(Ends ends) {
  const ParserDepth deeper(*this);
  Body body;
  while (true) {
    const Token& token = current();
    if (token.kind == TokenKind::kData) {
      auto data = std::make_unique<PrintData>();
      data->line = token.line;
      data->text = make_constant(program_.arena, take().text, Origin::kTemplate);
      body.push_back(std::move(data));
    } else if (token.kind == TokenKind::kVariableBegin) {
      auto print = std::make_unique<Print>();
      print->line = take().line;
      print->expression = parse_tuple(true, TupleEnd::kNone, false);
      expect(TokenKind::kVariableEnd, "end of print statement");
      body.push_back(std::move(print));
    } else if (token.kind == TokenKind::kBlockBegin) {
      take();
      const bool ended = std::ranges::any_of(ends, [&](std::string_view end) { return current().is_name(end); });
      if (ended) return body;
      body.push_back(parse_statement());
      expect(TokenKind::kBlockEnd, "end of statement block");
    } else {
      if (token.kind == TokenKind::kEnd && ends.size() != 0) {
        error(say("unexpected end of template, '", *ends.begin(), "' is missing"));
      }
      if (token.kind != TokenKind::kEnd) unexpected();
      return body;
    }
  }
}

Body Parser::parse_block(Ends ends, bool drop) {
  skip_operator(":");
  expect(TokenKind::kBlockEnd, "end of statement block");
  Body body = parse_body(ends);
  if (drop) take();
  return body;
}

std::unique_ptr<Statement> Parser::parse_statement() {
  using Parse = std::unique_ptr<Statement> (Parser::*)();
  static constexpr std::pair<std::string_view, Parse> kStatements[] = {
      {"for", &Parser::parse_for},         {"if", &Parser::parse_if},
      {"set", &Parser::parse_set},         {"macro", &Parser::parse_macro},
      {"call", &Parser::parse_call_block}, {"filter", &Parser::parse_filter_block},
      {"with", &Parser::parse_with},       {"generation", &Parser::parse_generation},
      {"do", &Parser::parse_do},           {"break", &Parser::parse_jump},
      {"continue", &Parser::parse_jump},   {"print", &Parser::parse_print}};
  static constexpr std::string_view kOtherFiles[] = {"include", "import", "from", "extends", "block"};
  if (current().kind != TokenKind::kName) error("tag name expected");
  const int line = current().line;
  const auto* found = std::ranges::find(kStatements, current().text, &std::pair<std::string_view, Parse>::first);
  if (found == std::end(kStatements)) {
    if (std::ranges::find(kOtherFiles, current().text) != std::end(kOtherFiles)) {
      error(say("'", current().text, "' is for templates of several files, which chat templates are not"));
    }
    error(say("unknown tag '", current().text, "'"));
  }
  std::unique_ptr<Statement> statement = (this->*found->second)();
  statement->line = line;
  return statement;
}

std::unique_ptr<Statement> Parser::parse_for() {
  auto node = std::make_unique<For>();
  expect_name("for");
  node->target = parse_target(false, TupleEnd::kIn);
  expect_name("in");
  node->items = parse_tuple(false, TupleEnd::kRecursive, false);
  if (skip_name("if")) node->filter = parse_expression();
  node->recursive = skip_name("recursive");
  node->loop_symbol = symbol("loop");
  loop_mentions_.push_back(&node->uses_loop);
  ++loops_;
  node->body = parse_block({"endfor", "else"}, false);
  --loops_;
  loop_mentions_.pop_back();
  if (take().text == "else") node->otherwise = parse_block({"endfor"});
  return node;
}

std::unique_ptr<Statement> Parser::parse_if() {
  auto node = std::make_unique<If>();
  while (true) {
    take();  // if, elif
    ExpressionPointer test = parse_tuple(false, TupleEnd::kNone, false);
    Body body = parse_block({"elif", "else", "endif"}, false);
    node->branches.emplace_back(std::move(test), std::move(body));
    if (current().is_name("elif")) continue;
    if (take().text == "else") node->otherwise = parse_block({"endif"});
    return node;
  }
}

Target Parser::parse_name_target() {
  const Token& token = expect(TokenKind::kName, "a name");
  constexpr std::string_view kReserved[] = {"true", "false", "none", "True", "False", "None"};
  if (std::ranges::find(kReserved, token.text) != std::end(kReserved)) error(say("can't assign to '", token.text, "'"));
  Target target;
  target.symbol = symbol(token.text);
  target.name = kept(token.text);
  return target;
}

Target Parser::parse_single_target(bool with_namespace) {
  if (skip_operator("(")) {
    Target tuple = parse_target(with_namespace, TupleEnd::kNone);
    expect_operator(")");
    return tuple;
  }
  Target target = parse_name_target();
  if (with_namespace && skip_operator(".")) {
    target.form = Target::Form::kNamespaceAttribute;
    target.attribute = constant_text(expect(TokenKind::kName, "a name").text);
  }
  return target;
}

Target Parser::parse_target(bool with_namespace, TupleEnd end) {
  const ParserDepth deeper(*this);
  Target first = parse_single_target(with_namespace);
  if (!current().is_operator(",")) return first;
  Target tuple;
  tuple.form = Target::Form::kTuple;
  tuple.parts.push_back(std::move(first));
  while (skip_operator(",")) {
    if (at_tuple_end(end) || current().is_operator("=")) break;
    tuple.parts.push_back(parse_single_target(with_namespace));
  }
  return tuple;
}

std::unique_ptr<Statement> Parser::parse_set() {
  take();
  Target target = parse_target(true, TupleEnd::kNone);
  if (skip_operator("=")) {
    auto node = std::make_unique<Set>();
    node->target = std::move(target);
    node->value = parse_tuple(true, TupleEnd::kNone, false);
    return node;
  }
  auto node = std::make_unique<SetBlock>();
  node->target = std::move(target);
  while (skip_operator("|")) node->filter = parse_filter(std::move(node->filter));
  node->body = parse_block({"endset"});
  return node;
}

void Parser::parse_parameters(MacroBody& macro) {
  expect_operator("(");
  while (!current().is_operator(")")) {
    if (!macro.parameters.empty()) expect_operator(",");
    const Target target = parse_name_target();
    Parameter parameter{target.symbol, constant_text(target.name), nullptr};
    if (skip_operator("=")) {
      parameter.fallback = parse_expression();
    } else if (!macro.parameters.empty() && macro.parameters.back().fallback != nullptr) {
      error("non-default argument follows default argument");
    }
    macro.parameters.push_back(std::move(parameter));
  }
  expect_operator(")");
}

void Parser::parse_macro_body(MacroBody& macro, std::string_view end) {
  macro.caller = symbol("caller");
  macro.varargs = symbol("varargs");
  macro.kwargs = symbol("kwargs");
  macros_.push_back(&macro);
  const int loops = std::exchange(loops_, 0);  // no jump leaves a macro
  macro.body = parse_block({end});
  loops_ = loops;
  macros_.pop_back();
}

std::unique_ptr<Statement> Parser::parse_macro() {
  auto node = std::make_unique<Macro>();
  take();
  const Target name = parse_name_target();
  node->symbol = name.symbol;
  node->macro.name = name.name;
  parse_parameters(node->macro);
  parse_macro_body(node->macro, "endmacro");
  return node;
}

std::unique_ptr<Statement> Parser::parse_call_block() {
  auto node = std::make_unique<CallBlock>();
  take();
  node->macro.name = kept("caller");
  if (current().is_operator("(")) parse_parameters(node->macro);
  ExpressionPointer call = parse_expression();
  if (dynamic_cast<const Call*>(call.get()) == nullptr) error("expected call");
  node->call.reset(static_cast<const Call*>(call.release()));
  parse_macro_body(node->macro, "endcall");
  return node;
}

std::unique_ptr<Statement> Parser::parse_filter_block() {
  auto node = std::make_unique<FilterBlock>();
  take();
  node->filter = parse_filter(nullptr);
  while (skip_operator("|")) node->filter = parse_filter(std::move(node->filter));
  node->body = parse_block({"endfilter"});
  return node;
}

std::unique_ptr<Statement> Parser::parse_with() {
  auto node = std::make_unique<With>();
  take();
  while (current().kind != TokenKind::kBlockEnd) {
    if (!node->variables.empty()) expect_operator(",");
    Target target = parse_single_target(false);
    expect_operator("=");
    node->variables.emplace_back(std::move(target), parse_expression());
  }
  node->body = parse_block({"endwith"});
  return node;
}

std::unique_ptr<Statement> Parser::parse_generation() {
  auto node = std::make_unique<With>();
  take();
  const int loops = std::exchange(loops_, 0);
  node->body = parse_block({"endgeneration"});
  loops_ = loops;
  return node;
}

std::unique_ptr<Statement> Parser::parse_do() {
  auto node = std::make_unique<Evaluate>();
  take();
  node->expression = parse_tuple(true, TupleEnd::kNone, false);
  return node;
}

std::unique_ptr<Statement> Parser::parse_jump() {
  auto node = std::make_unique<Jump>();
  node->flow = current().text == "break" ? Flow::kBreak : Flow::kContinue;
  if (loops_ == 0) error(say("'", current().text, "' outside a loop"));
  take();
  return node;
}

std::unique_ptr<Statement> Parser::parse_print() {
  auto node = std::make_unique<Print>();
  take();
  node->expression = parse_expression();
  return node;
}

}  // namespace kvkeep::chat::jinja
