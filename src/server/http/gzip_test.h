#pragma once

// Compressed request bodies for tests.

#include <gtest/gtest.h>
#include <zlib.h>

#include <string>

namespace kvkeep::server {

inline std::string gzip(const std::string& text) {
  z_stream z{};
  EXPECT_EQ(::deflateInit2(&z, 9, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY), Z_OK);
  std::string out(::deflateBound(&z, text.size()), '\0');
  z.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
  z.avail_in = static_cast<unsigned>(text.size());
  z.next_out = reinterpret_cast<Bytef*>(out.data());
  z.avail_out = static_cast<unsigned>(out.size());
  EXPECT_EQ(::deflate(&z, Z_FINISH), Z_STREAM_END);
  out.resize(z.total_out);
  ::deflateEnd(&z);
  return out;
}

}  // namespace kvkeep::server
