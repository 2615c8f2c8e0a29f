#include "format/sampled_turn.h"

#include "format/bytes.h"

namespace kvkeep::format {
namespace {

Error bad_turn(const char* what) { return damaged(std::string("sampled turn: ") + what); }

}  // namespace

std::vector<std::byte> encode_sampled_turn(const SampledTurnRecord& turn) {
  Writer writer;
  writer.hash(turn.before);
  writer.number(static_cast<std::uint32_t>(turn.ids.size()));
  for (const TokenId id : turn.ids) writer.number(static_cast<std::uint32_t>(id));
  writer.number(static_cast<std::uint32_t>(turn.call_ids.size()));
  for (const std::string& id : turn.call_ids) {
    writer.number(static_cast<std::uint32_t>(id.size()));
    writer.raw(std::as_bytes(std::span(id)));
  }
  return writer.take();
}

Result<SampledTurnRecord> decode_sampled_turn(ByteSpan bytes) {
  Reader reader(bytes);
  SampledTurnRecord turn;
  turn.before = reader.hash<PrefixHash>();
  const auto ids = reader.number<std::uint32_t>();
  if (reader.failed() || ids > reader.left() / sizeof(std::uint32_t)) return bad_turn("too short for its ids");
  for (std::uint32_t i = 0; i < ids; ++i) turn.ids.push_back(static_cast<TokenId>(reader.number<std::uint32_t>()));
  const auto calls = reader.number<std::uint32_t>();
  if (reader.failed() || calls > reader.left() / sizeof(std::uint32_t)) return bad_turn("too short for its calls");
  for (std::uint32_t i = 0; i < calls; ++i) {
    const ByteSpan id = reader.raw(reader.number<std::uint32_t>());
    turn.call_ids.emplace_back(reinterpret_cast<const char*>(id.data()), id.size());
  }
  if (reader.failed()) return bad_turn("too short");
  if (reader.left() != 0) return bad_turn("bytes behind it");
  return turn;
}

}  // namespace kvkeep::format
