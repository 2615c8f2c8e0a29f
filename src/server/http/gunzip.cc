#include "server/http/gunzip.h"

#include <zlib.h>

#include <algorithm>
#include <climits>

#include "base/assert.h"

namespace kvkeep::server {

struct Gunzip::Stream {
  z_stream z{};
};

Gunzip::Gunzip() : stream_(std::make_unique<Stream>()) {
  constexpr int kAnyWindow = 15;
  constexpr int kGzipOrZlib = 32;
  const int made = ::inflateInit2(&stream_->z, kAnyWindow + kGzipOrZlib);
  KVKEEP_ASSERT(made == Z_OK, "zlib takes these parameters");
}

Gunzip::~Gunzip() { ::inflateEnd(&stream_->z); }

Gunzip::Step Gunzip::unpack(std::string_view bytes, std::span<char> out) {
  if (at_end_) return {.damaged = !bytes.empty()};  // no byte may follow the end
  z_stream& z = stream_->z;
  const auto in_bytes = static_cast<unsigned>(std::min<std::size_t>(bytes.size(), INT_MAX));
  const auto out_bytes = static_cast<unsigned>(std::min<std::size_t>(out.size(), INT_MAX));
  z.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data()));  // zlib's own interface: it does not write
  z.avail_in = in_bytes;
  z.next_out = reinterpret_cast<Bytef*>(out.data());
  z.avail_out = out_bytes;
  const int result = ::inflate(&z, Z_NO_FLUSH);
  at_end_ = result == Z_STREAM_END;
  const bool is_fine = at_end_ || result == Z_OK || result == Z_BUF_ERROR;  // Z_BUF_ERROR: nothing to do
  return {in_bytes - z.avail_in, out_bytes - z.avail_out, !is_fine};
}

std::string gzip(std::string_view text) {
  KVKEEP_ASSERT(text.size() <= 1ULL << 30, "zlib counts bytes in 32 bits");
  constexpr int kGzip = 15 + 16;  // the widest window, in gzip's format
  constexpr int kMemory = 8;      // zlib's default
  z_stream z{};
  const int made = ::deflateInit2(&z, Z_BEST_COMPRESSION, Z_DEFLATED, kGzip, kMemory, Z_DEFAULT_STRATEGY);
  KVKEEP_ASSERT(made == Z_OK, "zlib takes these parameters");
  std::string out(::deflateBound(&z, text.size()), '\0');
  z.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));  // as above
  z.avail_in = static_cast<unsigned>(text.size());
  z.next_out = reinterpret_cast<Bytef*>(out.data());
  z.avail_out = static_cast<unsigned>(out.size());
  const int packed = ::deflate(&z, Z_FINISH);
  KVKEEP_ASSERT(packed == Z_STREAM_END, "the bound holds all of it");
  out.resize(z.total_out);
  ::deflateEnd(&z);
  return out;
}

}  // namespace kvkeep::server
