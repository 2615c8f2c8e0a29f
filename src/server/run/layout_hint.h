#pragma once

// Notices that requests which run in one pool of cells would decode faster with cells of their own (-no-kvu), and says
// so, once. Pure.
//
// One call of the model that decodes several requests reads the weights once, and for each request the rows of all
// cells in use, those of others included. With cells of their own each reads its own. That matters where rows are many
// bytes next to the weights and the requests share few of them; a prompt that is longer than its part of the context
// must keep the pool.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "engine/engine.h"
#include "server/run/request.h"
#include "server/run/sequences.h"

namespace kvkeep::server {

class LayoutHint {
 public:
  LayoutHint(const engine::Description& model, std::size_t parallel);

  // The requests that run, and the cells, in each round. Returns the line for the log, if it is time to tell.
  std::optional<std::string> look(std::span<const std::unique_ptr<Request>> running, const CellCounts& cells);

 private:
  bool would_help(std::size_t decoding, const CellCounts& cells) const;

  const bool possible_;
  const double row_bytes_;     // of a token
  const double weight_bytes_;  // of the model
  const std::size_t own_cells_;
  std::size_t longest_tokens_ = 0;  // of a prompt with its reply, so far
  std::uint64_t counted_ = 0;       // CellCounts::counted when the next of kCounts begins
  std::size_t counts_ = 0;          // in a row, at which cells of their own would have helped
  bool told_ = false;
};

}  // namespace kvkeep::server
