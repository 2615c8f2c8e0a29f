#pragma once

// Encryption of what lies in an engine: AES-256-GCM, by OpenSSL. Authenticity is the business of the codes in
// format/shared_object.h, which are over encrypted bytes; GCM's own tag is checked as well.

#include <cstdint>
#include <vector>

#include "base/mac.h"
#include "base/result.h"
#include "base/types.h"
#include "format/shared_object.h"

namespace kvkeep::share {

inline constexpr std::size_t kCipherTagBytes = format::kEncryptionTagBytes;

// Returns true if this build can encrypt.
bool can_encrypt();

// One object's bytes are encrypted once under a key of their own, so that the nonce may be a constant: a number for
// each section. Thread safe.
class Cipher {
 public:
  using Salt = format::EncryptionSalt;
  // `salt` is random, chosen anew for each object; the key follows from both.
  Cipher(const MacKey& secret, const Salt& salt);

  // Returns other bytes each time.
  static Salt random_salt();

  // Appends kCipherTagBytes. Precondition: can_encrypt().
  std::vector<std::byte> encrypt(std::uint8_t section, ByteSpan clear) const;
  // `out` has kCipherTagBytes less than `bytes`, and may begin where they do. Fails with kDamaged.
  Status decrypt(std::uint8_t section, ByteSpan bytes, MutableByteSpan out) const;

 private:
  MacKey key_;
};

}  // namespace kvkeep::share
