#include "engine/llama/row_layout.h"

#include <algorithm>
#include <cstring>
#include <optional>

#include "base/assert.h"

namespace kvkeep::engine::llama {
namespace {

constexpr std::uint32_t kStreams = 1;            // unified memory
constexpr std::size_t kHeadBytes = 4 * 4;        // magic, sequence, streams, cell count
constexpr std::size_t kCellBytes = 3 * 4;        // position, 1, sequence
constexpr std::size_t kShapeBytes = 4 * 4;       // v_trans, layers, rotations
constexpr std::size_t kRowHeadBytes = 4 + 8;     // type, row bytes
constexpr std::size_t kColumnHeadBytes = 3 * 4;  // type, element bytes, channels
constexpr std::uint32_t kMropeBytes = 12;
// Bounds that no model reaches: they prevent overflows in sums of damaged sizes.
constexpr std::uint32_t kMostLayers = 4096;
constexpr std::uint64_t kMostRowBytes = std::uint64_t{1} << 32;

// Reads numbers one after another; after a read past the end all others return 0 and failed() is true.
class Reader {
 public:
  explicit Reader(ByteSpan bytes, std::size_t at = 0) : bytes_(bytes), at_(at) {}
  template <typename Number>
  Number read() {
    Number number = 0;
    if (!skip(sizeof number)) return 0;
    std::memcpy(&number, bytes_.data() + at_ - sizeof number, sizeof number);
    return number;
  }
  bool skip(std::uint64_t count) {
    if (failed_ || count > bytes_.size() - at_) {
      failed_ = true;
      return false;
    }
    at_ += static_cast<std::size_t>(count);
    return true;
  }
  bool failed() const { return failed_; }
  bool at_end() const { return !failed_ && at_ == bytes_.size(); }

 private:
  ByteSpan bytes_;
  std::size_t at_;
  bool failed_ = false;
};

class Writer {
 public:
  explicit Writer(MutableByteSpan bytes) : bytes_(bytes) {}
  template <typename Number>
  void write(Number number) {
    append(reinterpret_cast<const std::byte*>(&number), sizeof number);
  }
  void append(const std::byte* from, std::size_t count) {
    KVKEEP_ASSERT(count <= bytes_.size() - at_, "joined rows fit into their buffer");
    std::memcpy(bytes_.data() + at_, from, count);
    at_ += count;
  }
  std::size_t written() const { return at_; }

 private:
  MutableByteSpan bytes_;
  std::size_t at_ = 0;
};

std::uint32_t channels_of(const TensorRows& tensor) {
  return static_cast<std::uint32_t>(tensor.row_bytes / tensor.element_bytes);
}

// Reads the head of one tensor and skips its rows. Returns nullopt if the numbers make no sense.
std::optional<TensorRows> read_tensor(Reader& reader, bool transposed, std::uint64_t cells) {
  TensorRows tensor;
  tensor.type = reader.read<std::int32_t>();
  if (transposed) {
    tensor.element_bytes = reader.read<std::uint32_t>();
    const auto channels = reader.read<std::uint32_t>();
    if (tensor.element_bytes == 0 || tensor.element_bytes > 64) return std::nullopt;
    tensor.row_bytes = std::uint64_t{tensor.element_bytes} * channels;
  } else {
    tensor.row_bytes = reader.read<std::uint64_t>();
  }
  if (tensor.type < 0 || tensor.row_bytes == 0 || tensor.row_bytes > kMostRowBytes) return std::nullopt;
  if (!reader.skip(tensor.row_bytes * cells)) return std::nullopt;
  return tensor;
}

// Appends `layers` tensors to `tensors`.
bool read_tensors(Reader& reader, std::uint32_t layers, bool transposed, std::uint64_t cells,
                  std::vector<TensorRows>& tensors) {
  for (std::uint32_t i = 0; i < layers; ++i) {
    const auto tensor = read_tensor(reader, transposed, cells);
    if (!tensor) return false;
    tensors.push_back(*tensor);
  }
  return true;
}

// Checks the cells: each belongs to one sequence, and no position is negative.
bool read_cells(Reader& reader, std::uint32_t count, std::uint32_t extra_bytes) {
  for (std::uint32_t i = 0; i < count && !reader.failed(); ++i) {
    if (reader.read<std::int32_t>() < 0 || reader.read<std::uint32_t>() != 1) return false;
    reader.skip(extra_bytes + sizeof(std::int32_t));
  }
  return !reader.failed();
}

std::optional<RowLayout> learn_with(ByteSpan rows, std::uint32_t cell_extra_bytes) {
  Reader reader(rows);
  if (reader.read<std::uint32_t>() != kStateMagic) return std::nullopt;
  reader.skip(sizeof(std::int32_t));
  if (reader.read<std::uint32_t>() != kStreams) return std::nullopt;
  const auto cells = reader.read<std::uint32_t>();
  if (cells == 0 || !read_cells(reader, cells, cell_extra_bytes)) return std::nullopt;
  RowLayout layout;
  layout.cell_extra_bytes = cell_extra_bytes;
  const auto v_trans = reader.read<std::uint32_t>();
  const auto layers = reader.read<std::uint32_t>();
  layout.k_rotation = reader.read<std::uint32_t>();
  layout.v_rotation = reader.read<std::uint32_t>();
  layout.v_transposed = v_trans != 0;
  if (reader.failed() || v_trans > 1 || layers > kMostLayers) return std::nullopt;
  if (!read_tensors(reader, layers, false, cells, layout.k)) return std::nullopt;
  if (!reader.at_end() && !read_tensors(reader, layers, layout.v_transposed, cells, layout.v)) return std::nullopt;
  if (!reader.at_end()) return std::nullopt;
  return layout;
}

std::size_t cell_bytes(const RowLayout& layout) { return kCellBytes + layout.cell_extra_bytes; }

std::size_t tensor_head_bytes(bool transposed) { return transposed ? kColumnHeadBytes : kRowHeadBytes; }

std::uint32_t cell_count(ByteSpan rows) { return Reader(rows, 3 * sizeof(std::uint32_t)).read<std::uint32_t>(); }

// Checks that every head in `rows` matches the layout. The caller has checked the total size.
bool heads_match(const RowLayout& layout, ByteSpan rows, std::uint32_t cells) {
  Reader reader(rows, kHeadBytes + cells * cell_bytes(layout));
  RowLayout found;
  found.cell_extra_bytes = layout.cell_extra_bytes;
  found.v_transposed = layout.v_transposed;
  const bool same_v = reader.read<std::uint32_t>() == static_cast<std::uint32_t>(layout.v_transposed);
  const auto layers = reader.read<std::uint32_t>();
  found.k_rotation = reader.read<std::uint32_t>();
  found.v_rotation = reader.read<std::uint32_t>();
  if (!same_v || layers != layout.k.size()) return false;
  if (!read_tensors(reader, layers, false, cells, found.k)) return false;
  if (!layout.v.empty() && !read_tensors(reader, layers, layout.v_transposed, cells, found.v)) return false;
  return reader.at_end() && found == layout;
}

// A run of neighbouring cells of one piece, all of them wanted.
struct CellRun {
  const std::byte* rows;      // the piece's bytes
  std::uint32_t piece_cells;  // cells in the piece
  std::uint32_t first;
  std::uint32_t count;
};

// Says of each cell whether it is wanted.
using IsWanted = std::vector<bool>;

IsWanted wanted_positions(const RowLayout& layout, const cache::RowPiece& piece) {
  IsWanted wanted(cell_count(piece.bytes));
  const std::byte* cell = piece.bytes.data() + kHeadBytes;
  for (std::size_t i = 0; i < wanted.size(); ++i, cell += cell_bytes(layout)) {
    std::uint32_t position;
    std::memcpy(&position, cell, sizeof position);
    wanted[i] = position >= piece.wanted.begin.value() && position < piece.wanted.end.value();
  }
  return wanted;
}

// Where a cell lies, and which one it is.
struct CellPlace {
  std::int32_t position = 0;
  std::int32_t row = 0;
  std::int32_t column = 0;
  std::uint32_t index = 0;
  auto operator<=>(const CellPlace&) const = default;
};

// Returns the places of all cells in the order of ids.
std::vector<CellPlace> places_in_order(const RowLayout& layout, ByteSpan rows) {
  std::vector<CellPlace> places(cell_count(rows));
  Reader reader(rows, kHeadBytes);
  for (std::uint32_t i = 0; i < places.size(); ++i) {
    places[i].position = reader.read<std::int32_t>();
    reader.skip(sizeof(std::uint32_t));
    if (layout.cell_extra_bytes == kMropeBytes) {
      places[i].column = reader.read<std::int32_t>();
      places[i].row = reader.read<std::int32_t>();
      reader.skip(sizeof(std::int32_t));
    }
    reader.skip(sizeof(std::int32_t));
    places[i].index = i;
  }
  std::ranges::sort(places);
  return places;
}

IsWanted wanted_cells(const RowLayout& layout, const cache::RowPiece& piece, const MediaMap& media) {
  if (media.empty()) return wanted_positions(layout, piece);
  const std::vector<CellPlace> places = places_in_order(layout, piece.bytes);
  const std::size_t first = media.cells({piece.stored.begin, piece.wanted.begin});
  IsWanted wanted(places.size());
  for (std::size_t i = 0; i < media.cells(piece.wanted); ++i) wanted[places[first + i].index] = true;
  return wanted;
}

void append_runs(ByteSpan piece, const IsWanted& wanted, std::vector<CellRun>& runs) {
  const auto cells = static_cast<std::uint32_t>(wanted.size());
  bool open = false;
  for (std::uint32_t i = 0; i < cells; ++i) {
    if (wanted[i] && open) ++runs.back().count;
    if (wanted[i] && !open) runs.push_back({piece.data(), cells, i, 1});
    open = wanted[i];
  }
}

// Copies one tensor: its head, then the rows of every run. `offset` is where the tensor starts in a piece of n cells:
// fixed + n * per_cell.
struct TensorPlace {
  std::size_t fixed;
  std::size_t per_cell;
  const std::byte* in(const CellRun& run) const { return run.rows + fixed + run.piece_cells * per_cell; }
};

void join_tensor(const TensorRows& tensor, const TensorPlace& place, bool transposed, std::span<const CellRun> runs,
                 Writer& writer) {
  const std::size_t head_bytes = tensor_head_bytes(transposed);
  writer.append(place.in(runs.front()), head_bytes);
  if (!transposed) {
    for (const CellRun& run : runs) {
      writer.append(place.in(run) + head_bytes + run.first * tensor.row_bytes, run.count * tensor.row_bytes);
    }
    return;
  }
  const std::size_t element = tensor.element_bytes;
  for (std::size_t channel = 0; channel < channels_of(tensor); ++channel) {
    for (const CellRun& run : runs) {
      const std::byte* column = place.in(run) + head_bytes + channel * run.piece_cells * element;
      writer.append(column + run.first * element, run.count * element);
    }
  }
}

void join_cells(const RowLayout& layout, std::span<const CellRun> runs, std::int32_t sequence, Writer& writer) {
  const std::size_t kept = cell_bytes(layout) - sizeof sequence;
  for (const CellRun& run : runs) {
    const std::byte* cell = run.rows + kHeadBytes + run.first * cell_bytes(layout);
    for (std::uint32_t i = 0; i < run.count; ++i, cell += cell_bytes(layout)) {
      writer.append(cell, kept);
      writer.write(sequence);
    }
  }
}

std::string tensors_text(std::span<const TensorRows> tensors) {
  std::string text;
  for (std::size_t i = 0; i < tensors.size();) {
    std::size_t same = i;
    while (same < tensors.size() && tensors[same] == tensors[i]) ++same;
    if (!text.empty()) text += '+';
    text +=
        std::to_string(same - i) + "x" + std::to_string(tensors[i].type) + ":" + std::to_string(tensors[i].row_bytes);
    i = same;
  }
  return text.empty() ? "none" : text;
}

}  // namespace

std::uint64_t RowLayout::bytes_per_token() const {
  std::uint64_t bytes = cell_bytes(*this);
  for (const TensorRows& tensor : k) bytes += tensor.row_bytes;
  for (const TensorRows& tensor : v) bytes += tensor.row_bytes;
  return bytes;
}

std::uint64_t RowLayout::fixed_bytes() const {
  return kHeadBytes + kShapeBytes + k.size() * kRowHeadBytes + v.size() * tensor_head_bytes(v_transposed);
}

std::string RowLayout::canonical_text() const {
  return "plain cell=" + std::to_string(cell_bytes(*this)) + " v_transposed=" + std::to_string(v_transposed) +
         " k=" + tensors_text(k) + " v=" + tensors_text(v);
}

Result<RowLayout> learn_layout(ByteSpan rows) {
  for (const std::uint32_t extra : {std::uint32_t{0}, kMropeBytes}) {
    if (auto layout = learn_with(rows, extra)) return std::move(*layout);
  }
  return unsupported("the model's memory is not one plain KV cache");
}

namespace {

Status check_heads(const RowLayout& layout, ByteSpan rows, std::size_t wanted_cells) {
  if (rows.size() < kHeadBytes || rows.size() != layout.bytes_of(wanted_cells)) {
    return damaged("rows have " + std::to_string(rows.size()) + " bytes, not " +
                   std::to_string(layout.bytes_of(wanted_cells)));
  }
  Reader reader(rows);
  if (reader.read<std::uint32_t>() != kStateMagic) return damaged("rows do not start with libllama's magic number");
  reader.skip(sizeof(std::int32_t));
  if (reader.read<std::uint32_t>() != kStreams) return damaged("rows are not of a unified memory");
  const auto cells = reader.read<std::uint32_t>();
  if (cells != wanted_cells) return damaged("rows hold another number of cells than their range");
  return heads_match(layout, rows, cells) ? Status() : damaged("rows are of another layout");
}

bool have_one_owner(const RowLayout& layout, ByteSpan rows) {
  Reader reader(rows, kHeadBytes);
  return read_cells(reader, cell_count(rows), layout.cell_extra_bytes);
}

Error other_positions() { return damaged("rows hold other positions than their range"); }

Status check_places(const RowLayout& layout, ByteSpan rows, std::span<const CellSpan> spans) {
  const std::vector<CellPlace> places = places_in_order(layout, rows);
  auto place = places.begin();
  for (const CellSpan& span : spans) {
    for (std::uint32_t i = 0; i < span.cells; ++i, ++place) {
      const std::int64_t moved = std::int64_t{place->position} - span.first;
      if (span.plane ? moved < 0 || moved >= span.positions : moved != i) return other_positions();
    }
  }
  return {};
}

Status check_positions(const RowLayout& layout, ByteSpan rows, TokenRange range) {
  std::vector<bool> seen(range.size());
  for (std::size_t i = 0; i < seen.size(); ++i) {
    const auto position = Reader(rows, kHeadBytes + i * cell_bytes(layout)).read<std::uint32_t>();
    const std::uint32_t place = position - range.begin.value();  // wraps for positions before the range: too large
    if (place >= seen.size() || seen[place]) return other_positions();
    seen[place] = true;
  }
  return {};
}

}  // namespace

Status verify_rows(const RowLayout& layout, ByteSpan rows, TokenRange range, const MediaMap& media) {
  TRY(check_heads(layout, rows, media.cells(range)));
  if (!have_one_owner(layout, rows)) return other_positions();
  return media.empty() ? check_positions(layout, rows, range) : check_places(layout, rows, media.spans(range));
}

Result<MediaMap> media_of(const cache::RowPiece& piece) {
  const std::size_t ids = std::min<std::size_t>(piece.prompt.size(), piece.stored.end.value());
  TRY_ASSIGN(const std::vector<MediaRun> runs, media_runs(piece.prompt.first(ids)));
  return MediaMap(runs);
}

Status verify_pieces(const RowLayout& layout, Position begin, std::span<const cache::RowPiece> pieces) {
  Position end = begin;
  for (const cache::RowPiece& piece : pieces) {
    KVKEEP_ASSERT(piece.wanted.begin == end && piece.wanted.begin < piece.wanted.end, "pieces follow one another");
    KVKEEP_ASSERT(piece.stored.begin <= piece.wanted.begin && piece.wanted.end <= piece.stored.end,
                  "what is wanted is stored");
    TRY_ASSIGN(const MediaMap media, media_of(piece));
    const bool has_cells = media.cells(piece.stored) > 0;
    if (!has_cells && !piece.bytes.empty()) return damaged("rows of ids that have none");
    if (has_cells) TRY(verify_rows(layout, piece.bytes, piece.stored, media));
    end = piece.wanted.end;
  }
  return {};
}

std::size_t join_rows(const RowLayout& layout, std::span<const cache::RowPiece> pieces, std::int32_t sequence,
                      MutableByteSpan out, const MediaMap& media) {
  std::vector<CellRun> runs;
  for (const cache::RowPiece& piece : pieces) {
    if (!piece.bytes.empty()) append_runs(piece.bytes, wanted_cells(layout, piece, media), runs);
  }
  KVKEEP_ASSERT(!runs.empty(), "at least one row is wanted");
  std::uint32_t cells = 0;
  for (const CellRun& run : runs) cells += run.count;
  Writer writer(out);
  writer.write(kStateMagic);
  writer.write(sequence);
  writer.write(kStreams);
  writer.write(cells);
  join_cells(layout, runs, sequence, writer);
  TensorPlace place{kHeadBytes, cell_bytes(layout)};
  writer.append(place.in(runs.front()), kShapeBytes);
  place.fixed += kShapeBytes;
  const auto join_all = [&](std::span<const TensorRows> tensors, bool transposed) {
    for (const TensorRows& tensor : tensors) {
      join_tensor(tensor, place, transposed, runs, writer);
      place.fixed += tensor_head_bytes(transposed);
      place.per_cell += tensor.row_bytes;
    }
  };
  join_all(layout.k, false);
  join_all(layout.v, layout.v_transposed);
  return writer.written();
}

}  // namespace kvkeep::engine::llama
