#include "share/cipher.h"

#ifdef KVKEEP_HAS_OPENSSL
#include <openssl/evp.h>
#endif

#include <algorithm>
#include <array>
#include <cstring>
#include <memory>

#include "base/assert.h"
#include "os/process.h"

namespace kvkeep::share {
namespace {

MacKey key_of_object(const MacKey& secret, const Cipher::Salt& salt) {
  std::array<std::uint8_t, 48> material{};
  std::ranges::copy(secret.bytes, material.begin());
  std::ranges::copy(salt, material.begin() + secret.bytes.size());
  return derive_key("kvkeep 2026-11-24 encryption of one shared object", std::as_bytes(std::span(material)));
}

}  // namespace

Cipher::Cipher(const MacKey& secret, const Salt& salt) : key_(key_of_object(secret, salt)) {}

Cipher::Salt Cipher::random_salt() {
  Salt salt{};
  os::fill_random(std::as_writable_bytes(std::span(salt)));
  return salt;
}

#ifdef KVKEEP_HAS_OPENSSL

namespace {

struct FreeContext {
  void operator()(EVP_CIPHER_CTX* context) const { EVP_CIPHER_CTX_free(context); }
};
using Context = std::unique_ptr<EVP_CIPHER_CTX, FreeContext>;

// OpenSSL counts in int.
constexpr std::size_t kMostAtOnce = std::size_t{1} << 30;

Context begin(const MacKey& key, std::uint8_t section, bool encrypts) {
  constexpr std::size_t kNonceBytes = 12;
  const std::array<std::uint8_t, kNonceBytes> nonce{section};
  Context context(EVP_CIPHER_CTX_new());
  const bool ok = context != nullptr && EVP_CipherInit_ex(context.get(), EVP_aes_256_gcm(), nullptr, key.bytes.data(),
                                                          nonce.data(), encrypts ? 1 : 0) == 1;
  KVKEEP_ASSERT(ok, "OpenSSL has AES-256-GCM");
  return context;
}

unsigned char* raw(std::byte* bytes) { return reinterpret_cast<unsigned char*>(bytes); }
const unsigned char* raw(const std::byte* bytes) { return reinterpret_cast<const unsigned char*>(bytes); }

void update(EVP_CIPHER_CTX* context, ByteSpan bytes, std::byte* out) {
  while (!bytes.empty()) {
    const ByteSpan now = bytes.first(std::min(bytes.size(), kMostAtOnce));
    int written = 0;
    const int ok = EVP_CipherUpdate(context, raw(out), &written, raw(now.data()), static_cast<int>(now.size()));
    KVKEEP_ASSERT(ok == 1 && static_cast<std::size_t>(written) == now.size(), "GCM keeps lengths");
    out += now.size();
    bytes = bytes.subspan(now.size());
  }
}

}  // namespace

bool can_encrypt() { return true; }

std::vector<std::byte> Cipher::encrypt(std::uint8_t section, ByteSpan clear) const {
  std::vector<std::byte> out(clear.size() + kCipherTagBytes);
  const Context context = begin(key_, section, true);
  update(context.get(), clear, out.data());
  int written = 0;
  const bool ok = EVP_CipherFinal_ex(context.get(), raw(out.data() + clear.size()), &written) == 1 &&
                  EVP_CIPHER_CTX_ctrl(context.get(), EVP_CTRL_GCM_GET_TAG, static_cast<int>(kCipherTagBytes),
                                      out.data() + clear.size()) == 1;
  KVKEEP_ASSERT(ok, "OpenSSL finishes what it began");
  return out;
}

Status Cipher::decrypt(std::uint8_t section, ByteSpan bytes, MutableByteSpan out) const {
  if (bytes.size() != out.size() + kCipherTagBytes) return damaged("an encrypted object has no tag");
  std::array<std::byte, kCipherTagBytes> tag{};
  std::ranges::copy(bytes.last(kCipherTagBytes), tag.begin());
  const Context context = begin(key_, section, false);
  update(context.get(), bytes.first(out.size()), out.data());
  int written = 0;
  std::byte nothing{};
  const bool ok =
      EVP_CIPHER_CTX_ctrl(context.get(), EVP_CTRL_GCM_SET_TAG, static_cast<int>(kCipherTagBytes), tag.data()) == 1 &&
      EVP_CipherFinal_ex(context.get(), raw(&nothing), &written) == 1;
  if (!ok) return damaged("an encrypted object has a wrong tag");
  return {};
}

#else

bool can_encrypt() { return false; }

std::vector<std::byte> Cipher::encrypt(std::uint8_t, ByteSpan) const {
  KVKEEP_ASSERT(false, "can_encrypt() was asked first");
  return {};
}

Status Cipher::decrypt(std::uint8_t, ByteSpan, MutableByteSpan) const {
  return unsupported("this build has no OpenSSL, which encrypted objects need");
}

#endif

}  // namespace kvkeep::share
