#pragma once

// How lines began on which prompts of a client parted, so that a point is cut there in its next conversation, whose
// path is another. Pure; not thread safe; lives as long as the process.
//
// Of the line in which two prompts part, what both have of it is remembered, up to the last whole word and without
// numbers, which change. If nothing is left of it, the line before is: the one after such a line parts.

#include <cstddef>
#include <cstdint>
#include <list>
#include <string>
#include <string_view>
#include <unordered_map>

namespace kvkeep::policy {

class PartingMemory {
 public:
  // Each of `clients` has at most `heads`; the ones used least recently are forgotten.
  explicit PartingMemory(std::size_t clients = 64, std::size_t heads = 32) : clients_(clients), heads_(heads) {}

  // Two prompts of the client parted on a line. `shared`: what both have of that line. `before`: the line before it.
  void learn(std::uint64_t client, std::string_view shared, std::string_view before);
  // Whether prompts of the client parted on such a line, or on the one after such as `before`.
  bool parted(std::uint64_t client, std::string_view line, std::string_view before);

  std::size_t clients() const { return known_.size(); }
  std::size_t heads(std::uint64_t client) const;

 private:
  struct Head {
    std::string text;
    bool next_line = false;  // the line after one that begins so
    bool operator==(const Head&) const = default;
  };
  using Heads = std::list<Head>;  // used last comes first
  struct Client {
    std::uint64_t id = 0;
    Heads heads;
  };

  Client& use(std::uint64_t id);

  const std::size_t clients_;
  const std::size_t heads_;
  std::list<Client> order_;  // used last comes first
  std::unordered_map<std::uint64_t, std::list<Client>::iterator> known_;
};

}  // namespace kvkeep::policy
