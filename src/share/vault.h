#pragma once

// Names, authentication codes and encryption of shared objects: everything that follows from the share key. Whoever has
// no key can neither guess a name nor make bytes that are believed.

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/checksum.h"
#include "base/mac.h"
#include "base/result.h"
#include "format/shared_object.h"
#include "share/cipher.h"
#include "share/object_engine.h"
#include "store/ram_store.h"

namespace kvkeep::share {

ObjectKind object_kind(format::PartKind kind);

// Returns true if others may find the share key by trying: each guess takes a microsecond, and an object tells whether
// it was right.
constexpr bool is_guessable(std::string_view key) { return key.size() < 16; }

// Thread safe.
class Vault {
 public:
  // Names and codes depend on this. Two servers see each other's objects if all of it is equal.
  struct Identity {
    FingerprintHash fingerprint = {};
    std::string device = {};   // empty: of any device
    std::string weights = {};  // as in ShareOptions
    std::string key = {};      // empty: a constant that everybody knows
    bool encrypt = false;
    std::uint64_t writer = 0;  // a random number of this process; not compared
    // Not empty: the objects of this namespace, of whatever fingerprint and device.
    std::string space = {};
  };
  // Returns the namespace of such objects.
  static std::string space_of(const Identity& identity);
  explicit Vault(Identity identity);

  const std::string& space() const { return space_; }
  ObjectName name_of(const format::ShortHash& end, format::PartKind kind) const;
  ObjectName record_name(const PrefixHash& key) const;

  // An object as an engine stores it.
  struct Sealed {
    ObjectName name;
    std::vector<std::byte> head;
    ByteSpan payload;                  // of the publication, or of `encrypted`
    std::vector<std::byte> encrypted;  // empty without encryption
  };
  // `salt` is used only with encryption, and then must be random. The result refers to `payload`.
  Sealed seal(const format::SegmentHeader& segment, const std::vector<format::PathStep>& path, ByteSpan payload,
              const Cipher::Salt& salt) const;

  // Fail with kDamaged if the bytes are not an object of this name, made under this key.
  Result<format::Envelope> open_envelope(const ObjectName& name, ByteSpan bytes) const;
  Result<format::SharedHead> open_head(const ObjectName& name, ByteSpan bytes) const;

  // Checks the code of a payload while it arrives, then opens it. Without a key everybody can compute the code: it
  // would find no more than the sums of the segment do, in three times the time, and is left out. Not thread safe.
  class Opening {
   public:
    // `stored` has the payload's stored bytes once all have arrived. The vault must outlive it.
    Opening(const Vault& vault, const ObjectName& name, const format::Envelope& envelope, MutableByteSpan stored);
    // The payload is the one part of this segment, in clear: its sum is computed while it arrives as well.
    void sum_up(const format::SegmentHeader& segment);
    // nullopt without sum_up(). Precondition: finish().
    std::optional<Checksum> sum() const;
    // The first `count` bytes are there.
    void arrived(std::size_t count);
    // All bytes are there: returns the number of clear ones, which lie at the beginning of `stored`. Fails with
    // kDamaged.
    Result<std::size_t> finish();

   private:
    const Vault& vault_;
    const format::Envelope envelope_;
    const MutableByteSpan stored_;
    MacStream code_;
    std::optional<ChecksumStream> sum_;
    std::size_t checked_ = 0;
  };

  // `salt` as of seal().
  std::vector<std::byte> seal_record(const ObjectName& name, ByteSpan contents, const Cipher::Salt& salt) const;
  Result<std::vector<std::byte>> open_record(const ObjectName& name, ByteSpan bytes) const;

 private:
  ObjectName hidden_name(ByteSpan what, ObjectKind kind) const;
  Cipher cipher(const Cipher::Salt& salt) const { return {cipher_key_, salt}; }

  const bool has_key_;
  const bool encrypts_;
  const std::uint64_t writer_;
  MacKey name_key_;
  MacKey code_key_;
  MacKey cipher_key_;
  std::string space_;
};

// Returns the clear payload of a segment whose stored bytes, all of them, fill the buffer of the opening. Fails with
// kDamaged if they are not authentic, or not what the segment's header says.
Result<std::shared_ptr<const store::Payload>> unpack(Vault::Opening& opening, const format::SegmentHeader& segment,
                                                     store::PayloadBuffer buffer);

}  // namespace kvkeep::share
