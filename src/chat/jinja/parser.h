#pragma once

// From tokens to the tree of ast.h, in the grammar of Python's jinja2 (precedences and oddities included).

#include <algorithm>
#include <cstddef>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "chat/jinja/arena.h"
#include "chat/jinja/ast.h"
#include "chat/jinja/failure.h"
#include "chat/jinja/lexer.h"

namespace kvkeep::chat::jinja {

class Parser {
 public:
  Parser(std::string_view source, Program& program) : program_(program), tokens_(tokenize(source)) {}

  // Throws Failure.
  void run() { program_.body = parse_body({}); }

 private:
  friend struct ParserDepth;

  // Tokens.
  const Token& current() const { return tokens_[at_]; }
  const Token& look() const { return tokens_[at_ + 1 < tokens_.size() ? at_ + 1 : at_]; }
  const Token& take() { return tokens_[at_ + 1 < tokens_.size() ? at_++ : at_]; }
  bool skip_operator(std::string_view sign);
  bool skip_name(std::string_view name);
  void expect_operator(std::string_view sign);
  void expect_name(std::string_view name);
  const Token& expect(TokenKind kind, std::string_view wanted);
  [[noreturn]] void error(const std::string& message) const;
  [[noreturn]] void unexpected() const;

  // Names and constants.
  Symbol symbol(std::string_view name);
  std::string_view kept(std::string_view name) { return program_.symbols[symbol(name)]; }
  Value constant_text(std::string_view text);
  // Finishes a node: its line, and its height above the highest child.
  template <typename Node>
  std::unique_ptr<Node> made(int line, std::initializer_list<const Expression*> children = {});
  void raise(Expression& node, const Expression* child) const;

  // Expressions: parser_expressions.cc.
  ExpressionPointer parse_expression(bool with_conditional = true);
  ExpressionPointer parse_or();
  ExpressionPointer parse_and();
  ExpressionPointer parse_not();
  ExpressionPointer parse_comparison();
  ExpressionPointer parse_sum();
  ExpressionPointer parse_concatenation();
  ExpressionPointer parse_product();
  ExpressionPointer parse_power();
  ExpressionPointer parse_unary(bool with_filter);
  ExpressionPointer parse_primary();
  ExpressionPointer parse_name();
  ExpressionPointer parse_postfix(ExpressionPointer node);
  ExpressionPointer parse_filters_and_tests(ExpressionPointer node);
  ExpressionPointer parse_subscript(ExpressionPointer node);
  ExpressionPointer parse_attribute(ExpressionPointer node);
  ExpressionPointer parse_slice(ExpressionPointer node, ExpressionPointer start);
  ExpressionPointer parse_call(ExpressionPointer node);
  ExpressionPointer parse_test(ExpressionPointer node);
  std::unique_ptr<Applied> parse_filter(ExpressionPointer node);
  std::string_view parse_dotted_name(std::string_view wanted);
  void parse_arguments(Expression& node, CallArguments& arguments);
  void parse_argument(Expression& node, CallArguments& arguments);
  ExpressionPointer parse_list();
  ExpressionPointer parse_dict();
  enum class TupleEnd { kNone, kIn, kRecursive };
  ExpressionPointer parse_tuple(bool with_conditional, TupleEnd end, bool parentheses);
  bool at_tuple_end(TupleEnd end) const;
  std::optional<Comparator> take_comparator();

  // Statements: parser_statements.cc.
  using Ends = std::initializer_list<std::string_view>;
  // Up to one of the names in `ends`, which stays the current token; with none, up to the end of the template.
  Body parse_body(Ends ends);
  // After a statement's head: its `%}`, the body, and, if `drop`, the end's name.
  Body parse_block(Ends ends, bool drop = true);
  std::unique_ptr<Statement> parse_statement();
  std::unique_ptr<Statement> parse_for();
  std::unique_ptr<Statement> parse_if();
  std::unique_ptr<Statement> parse_set();
  std::unique_ptr<Statement> parse_macro();
  std::unique_ptr<Statement> parse_call_block();
  std::unique_ptr<Statement> parse_filter_block();
  std::unique_ptr<Statement> parse_with();
  std::unique_ptr<Statement> parse_generation();
  std::unique_ptr<Statement> parse_do();
  std::unique_ptr<Statement> parse_jump();
  std::unique_ptr<Statement> parse_print();
  void parse_parameters(MacroBody& macro);
  void parse_macro_body(MacroBody& macro, std::string_view end);
  Target parse_target(bool with_namespace, TupleEnd end);
  Target parse_single_target(bool with_namespace);
  Target parse_name_target();

  Program& program_;
  std::vector<Token> tokens_;
  std::size_t at_ = 0;
  int depth_ = 0;
  int loops_ = 0;                     // around the current statement, within its macro
  std::vector<MacroBody*> macros_;    // around the current token
  std::vector<bool*> loop_mentions_;  // of the loops around the current token
};

// The limit for brackets and blocks, and for trees that chains of operators make. Templates in use stay below 40.
inline constexpr int kMaxNesting = 150;

struct ParserDepth {
  explicit ParserDepth(Parser& parser) : depth(parser.depth_) {
    if (++depth > kMaxNesting) parser.error(say("nested more than ", kMaxNesting, " deep"));
  }
  ~ParserDepth() { --depth; }
  ParserDepth(const ParserDepth&) = delete;
  ParserDepth& operator=(const ParserDepth&) = delete;
  int& depth;
};

template <typename Node>
std::unique_ptr<Node> Parser::made(int line, std::initializer_list<const Expression*> children) {
  auto node = std::make_unique<Node>();
  node->line = line;
  for (const Expression* child : children) raise(*node, child);
  return node;
}

inline void Parser::raise(Expression& node, const Expression* child) const {
  if (child == nullptr) return;
  node.height = std::max(node.height, child->height + 1);
  if (node.height > kMaxNesting) error(say("nested more than ", kMaxNesting, " deep"));
}

}  // namespace kvkeep::chat::jinja
