#pragma once

// Further replies to one prompt: they begin where its prefill ends, so that it is computed once.
//
// The request whose prompt is prefilled holds its branches until then, and the settings of their samplers, which are
// made before its prefill begins, a few in each round. Their first tokens are sampled after the same
// last token as its own. Then each branch forks its sequence, which shares the prompt's cells; or, while there is no
// sequence for it, waits as a request that gave its cells back: with the prompt and its first token. From then on a
// branch is a request like any other. It has no trace of its own. Engine thread only, but for make_branch().

#include <cstddef>
#include <memory>
#include <vector>

#include "base/result.h"
#include "base/types.h"
#include "server/run/request.h"
#include "server/run/sequences.h"

namespace kvkeep::engine {
class Engine;
}

namespace kvkeep::server {

// Branches whose samplers are made in one round: 128 took 43 ms with a schema, while all other requests waited.
inline constexpr std::size_t kSamplersPerRound = 16;

// Makes the `number`th branch (from 1) of a request for `job`, which is as before afterwards. The parts of the job that
// may be large are not copied: prompt, markers, and settings of the sampler other than its seed.
std::unique_ptr<Request> make_branch(Job& job, std::size_t number, std::shared_ptr<JobSink> sink);

// Makes samplers of branches that have none yet, kSamplersPerRound at most. Returns true if all have one. Errors as
// prepare_sampler. Precondition: the request has its sampler.
Result<bool> prepare_branches(Request& request, engine::Engine& engine);

// Gives each branch the state of `request`, whose prompt ends at entry `index` of the last batch, and samples its first
// token there. Returns these tokens, in the order of the branches. Precondition: all have a sampler.
std::vector<TokenId> begin_branches(Request& request, engine::Engine& engine, std::size_t index);

// Lets `branch`, which has begun, decode in a sequence that shares the whole of `source`. An idle sequence leaves for
// it if none is free. Returns false if the model's memory refused; the branch can then start from what is cached.
// Precondition: there is a free or an idle sequence, and `source` is complete.
bool fork_branch(Request& branch, SeqId source, Sequences& sequences);

}  // namespace kvkeep::server
