#include "share/vault.h"

#include <algorithm>
#include <array>
#include <string_view>

#include "base/assert.h"

namespace kvkeep::share {
namespace {

// Of objects without a key: kvkeep's own damage is found, and everybody can compute it.
constexpr std::string_view kNoKey = "kvkeep shared objects without a key";
constexpr std::uint8_t kRestSection = 1;
constexpr std::uint8_t kPayloadSection = 2;
constexpr std::uint8_t kRecordSection = 3;

ByteSpan bytes_of(std::string_view text) { return std::as_bytes(std::span(text)); }

ByteSpan secret_of(const Vault::Identity& identity) {
  return bytes_of(identity.key.empty() ? kNoKey : std::string_view(identity.key));
}

// Returns true if the bytes are what the segment's header says.
bool has_right_sums(const format::SegmentHeader& segment, ByteSpan payload) {
  if (payload.size() != format::payload_bytes(segment)) return false;
  for (const format::Part& part : segment.parts) {
    const ByteSpan bytes = payload.first(part.size_bytes);
    if (format::part_checksum(segment.fingerprint, segment.name, part.kind, bytes) != part.sum) return false;
    payload = payload.subspan(part.size_bytes);
  }
  return true;
}

// As hex(), of hundreds of names, made without memory for each.
Digits<ObjectName::kIdDigits> digits_of(const MacHash& hash) {
  static constexpr char kDigits[] = "0123456789abcdef";
  std::array<char, ObjectName::kIdDigits> digits{};
  for (std::size_t i = 0; i < digits.size(); ++i) digits[i] = kDigits[hash.bytes[i / 2] >> (i % 2 == 0 ? 4 : 0) & 15];
  return std::string_view(digits.data(), digits.size());
}

MacHash code_of(MacStream stream, ByteSpan bytes) {
  stream.append(bytes);
  return stream.finish();
}

}  // namespace

ObjectKind object_kind(format::PartKind kind) {
  switch (kind) {
    case format::PartKind::kRows: return ObjectKind::kRows;
    case format::PartKind::kWindowRows: return ObjectKind::kWindowRows;
    case format::PartKind::kPoint: return ObjectKind::kPoint;
    case format::PartKind::kWhole: return ObjectKind::kWhole;
  }
  KVKEEP_ASSERT(false, "kinds are checked where they are decoded");
  return ObjectKind::kRows;
}

std::string Vault::space_of(const Identity& identity) {
  if (!identity.space.empty()) return identity.space;
  MacStream stream(derive_key("kvkeep 2026-11-24 namespace of shared objects", secret_of(identity)));
  stream.append(std::as_bytes(std::span(identity.fingerprint.bytes)));
  stream.append_field(identity.device);
  if (!identity.weights.empty()) stream.append_field(identity.weights);
  return stream.finish().hex(ObjectName::kSpaceDigits / 2);
}

Vault::Vault(Identity identity)
    : has_key_(!identity.key.empty()),
      encrypts_(identity.encrypt),
      writer_(identity.writer),
      space_(space_of(identity)) {
  const ByteSpan secret = secret_of(identity);
  name_key_ = derive_key("kvkeep 2026-11-24 names of shared objects", secret);
  code_key_ = derive_key("kvkeep 2026-11-24 codes of shared objects", secret);
  cipher_key_ = derive_key("kvkeep 2026-11-24 encryption of shared objects", secret);
}

ObjectName Vault::hidden_name(ByteSpan what, ObjectKind kind) const {
  MacStream stream(name_key_);
  stream.append_field(space_);
  stream.append(what);
  return {space_, digits_of(stream.finish()), kind};
}

ObjectName Vault::name_of(const format::ShortHash& end, format::PartKind kind) const {
  return hidden_name(std::as_bytes(std::span(end)), object_kind(kind));
}

ObjectName Vault::record_name(const PrefixHash& key) const {
  return hidden_name(std::as_bytes(std::span(key.bytes)), ObjectKind::kRecord);
}

Vault::Sealed Vault::seal(const format::SegmentHeader& segment, const std::vector<format::PathStep>& path,
                          ByteSpan payload, const Cipher::Salt& salt) const {
  const format::SegmentName& name = segment.name;
  Sealed sealed{
      .name = name_of(format::short_hash(name.end_hash), name.kind), .head = {}, .payload = payload, .encrypted = {}};
  format::Envelope envelope{.kind = name.kind,
                            .begin = name.begin,
                            .end = name.end,
                            .shows_hashes = !encrypts_,
                            .path_steps = static_cast<std::uint32_t>(path.size()),
                            .writer = writer_,
                            .encrypted = encrypts_};
  if (envelope.shows_hashes) {
    envelope.begin_hash = format::short_hash(name.begin_hash);
    envelope.end_hash = format::short_hash(name.end_hash);
  }
  std::vector<std::byte> rest = format::encode_rest(path, segment);
  envelope.segment_bytes = static_cast<std::uint32_t>(rest.size() - path.size() * format::kPathStepBytes);
  if (encrypts_) {
    envelope.salt = salt;
    rest = cipher(salt).encrypt(kRestSection, rest);
    envelope.extension_bytes = kCipherTagBytes;
    sealed.encrypted = cipher(salt).encrypt(kPayloadSection, payload);
    sealed.payload = sealed.encrypted;
  }
  const std::string text = sealed.name.text();
  envelope.payload_bytes = sealed.payload.size();
  envelope.rest_mac = code_of(format::section_mac(code_key_, text, format::Section::kRest), rest);
  envelope.payload_mac = code_of(format::section_mac(code_key_, text, format::Section::kPayload), sealed.payload);
  sealed.head = format::encode_envelope(code_key_, text, envelope);
  sealed.head.insert(sealed.head.end(), rest.begin(), rest.end());
  return sealed;
}

namespace {

// The names of engines are hashes of ends: a holder of the key put an authentic object under another one's name.
Error misplaced() { return damaged("a shared object lies under another one's name"); }

}  // namespace

Result<format::Envelope> Vault::open_envelope(const ObjectName& name, ByteSpan bytes) const {
  TRY_ASSIGN(format::Envelope envelope, format::decode_envelope(code_key_, name.text(), bytes));
  const bool is_there = envelope.shows_hashes ? name_of(envelope.end_hash, envelope.kind) == name
                                              : object_kind(envelope.kind) == name.kind;
  if (!is_there) return misplaced();
  return envelope;
}

Result<format::SharedHead> Vault::open_head(const ObjectName& name, ByteSpan bytes) const {
  TRY_ASSIGN(const format::Envelope envelope, open_envelope(name, bytes));
  if (bytes.size() < envelope.head_bytes()) return damaged("the head of a shared object is too short");
  const ByteSpan rest = bytes.first(envelope.head_bytes()).subspan(format::kEnvelopeBytes);
  TRY(format::check_rest(code_key_, name.text(), envelope, rest));
  if (!envelope.encrypted) return format::decode_rest(envelope, rest);
  if (rest.size() < kCipherTagBytes) return damaged("an encrypted head has no tag");
  std::vector<std::byte> clear(rest.size());  // with zeros in the place of the tag, which the sizes count
  TRY(cipher(envelope.salt).decrypt(kRestSection, rest, MutableByteSpan(clear).first(rest.size() - kCipherTagBytes)));
  TRY_ASSIGN(format::SharedHead head, format::decode_rest(envelope, clear));
  // Only the encrypted bytes may show it.
  if (name_of(format::short_hash(head.segment.name.end_hash), envelope.kind) != name) return misplaced();
  return head;
}

Vault::Opening::Opening(const Vault& vault, const ObjectName& name, const format::Envelope& envelope,
                        MutableByteSpan stored)
    : vault_(vault),
      envelope_(envelope),
      stored_(stored),
      code_(format::section_mac(vault.code_key_, name.text(), format::Section::kPayload)) {}

void Vault::Opening::sum_up(const format::SegmentHeader& segment) {
  KVKEEP_ASSERT(checked_ == 0, "all bytes are summed up");
  if (envelope_.encrypted || segment.parts.size() != 1) return;
  sum_ = format::part_checksum_stream(segment.fingerprint, segment.name, segment.parts.front().kind);
}

std::optional<Checksum> Vault::Opening::sum() const { return sum_ ? std::optional(sum_->finish()) : std::nullopt; }

void Vault::Opening::arrived(std::size_t count) {
  KVKEEP_ASSERT(count >= checked_ && count <= stored_.size(), "bytes arrive in order");
  const ByteSpan come = stored_.subspan(checked_, count - checked_);
  if (vault_.has_key_) code_.append(come);
  if (sum_) sum_->append(come);
  checked_ = count;
}

Result<std::size_t> Vault::Opening::finish() {
  arrived(stored_.size());
  const bool is_authentic = !vault_.has_key_ || same_code(code_.finish(), envelope_.payload_mac);
  if (stored_.size() != envelope_.payload_bytes || !is_authentic) {
    return damaged("the payload of a shared object is not authentic");
  }
  if (!envelope_.encrypted) return stored_.size();
  if (stored_.size() < kCipherTagBytes) return damaged("an encrypted payload has no tag");
  const std::size_t clear = stored_.size() - kCipherTagBytes;
  TRY(vault_.cipher(envelope_.salt).decrypt(kPayloadSection, stored_, stored_.first(clear)));
  return clear;
}

std::vector<std::byte> Vault::seal_record(const ObjectName& name, ByteSpan contents, const Cipher::Salt& salt) const {
  if (!encrypts_) return format::encode_record(code_key_, name.text(), std::nullopt, contents);
  return format::encode_record(code_key_, name.text(), salt, cipher(salt).encrypt(kRecordSection, contents));
}

Result<std::vector<std::byte>> Vault::open_record(const ObjectName& name, ByteSpan bytes) const {
  TRY_ASSIGN(format::SharedRecord record, format::decode_record(code_key_, name.text(), bytes));
  if (!record.salt) return std::move(record.contents);
  if (record.contents.size() < kCipherTagBytes) return damaged("an encrypted record has no tag");
  std::vector<std::byte> clear(record.contents.size() - kCipherTagBytes);
  TRY(cipher(*record.salt).decrypt(kRecordSection, record.contents, clear));
  return clear;
}

Result<std::shared_ptr<const store::Payload>> unpack(Vault::Opening& opening, const format::SegmentHeader& segment,
                                                     store::PayloadBuffer buffer) {
  TRY_ASSIGN(const std::size_t clear, opening.finish());
  const std::optional<Checksum> sum = opening.sum();
  const bool is_right = sum ? clear == format::payload_bytes(segment) && *sum == segment.parts.front().sum
                            : has_right_sums(segment, buffer.span().first(clear));
  if (!is_right) return damaged("a shared payload has a wrong sum");
  if (clear == buffer.span().size()) return std::move(buffer).freeze();
  auto exact = store::PayloadBuffer::allocate(clear);
  std::ranges::copy(buffer.span().first(clear), exact.span().begin());
  return std::move(exact).freeze();
}

}  // namespace kvkeep::share
