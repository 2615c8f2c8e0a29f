#pragma once

// libllama's bare calls, for who measures what ours cost beside them. Engine thread only.

#include "base/result.h"
#include "base/types.h"
#include "engine/llama/llama_engine.h"

namespace kvkeep::engine::llama {

// llama_state_seq_set_data of rows as save_rows gives them. The engine's own books do not know of them: clear the
// sequence before anything else is done with it. kIo: libllama refused.
Status set_rows_bare(LlamaEngine& engine, SeqId seq, ByteSpan rows);

}  // namespace kvkeep::engine::llama
