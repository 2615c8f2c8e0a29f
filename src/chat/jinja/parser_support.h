#pragma once

// Shared by both halves of the parser.

#include <algorithm>
#include <string>

#include "chat/jinja/failure.h"
#include "chat/jinja/parser.h"

namespace kvkeep::chat::jinja {

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
