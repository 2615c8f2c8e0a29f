#pragma once

// The two forms of a sequence's state. A memory in which each sequence has cells of its own (libllama's streams, with
// kv_unified off) gives and takes the state of one plain KV cache in another form than a memory with one pool of cells:
//
//   unified   envelope, u32 1, u32 count, cells, rows
//   streams   envelope, u32 streams, then per stream u32 count and, unless that is 0, cells and rows
//
// Only the sequence's own stream has cells. Stored state has the unified form, so that it is the same in both layouts.
// Pure functions over bytes; thread safe.

#include <cstddef>
#include <cstdint>

#include "base/result.h"
#include "base/types.h"

namespace kvkeep::engine::llama {

// The bytes by which the form of streams is longer.
constexpr std::size_t stream_form_extra(std::uint32_t streams) { return (streams - 1) * sizeof(std::uint32_t); }

// Returns the unified form of `section`, which a memory of so many streams gave for the sequence of `stream`. Nothing
// is copied: the result lies within the same bytes, of which a few before the cells are overwritten. kIo if the bytes
// are not of such a memory, or are of another stream's sequence.
Result<ByteSpan> to_unified_form(MutableByteSpan section, std::uint32_t streams, std::uint32_t stream);

// Brings the section of unified form at the front of `bytes`, `size` bytes long, into the form which a memory of so
// many streams takes, for any of its sequences. Returns its size. Precondition: the stream_form_extra(streams) bytes
// after it are there, too.
std::size_t to_stream_form(MutableByteSpan bytes, std::size_t size, std::uint32_t streams);

}  // namespace kvkeep::engine::llama
