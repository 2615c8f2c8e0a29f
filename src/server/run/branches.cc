#include "server/run/branches.h"

#include <fmt/format.h>

#include <optional>
#include <utility>

#include "engine/engine.h"
#include "policy/plan.h"
#include "server/run/token_scores.h"

namespace kvkeep::server {
namespace {

// The branch reuses the whole prompt, and counts for itself only what it decodes.
JobStats branch_stats(const JobStats& of_prompt) {
  JobStats stats = of_prompt;
  stats.sent_tokens = 0;
  stats.count_memory(stats.prompt_tokens);
  stats.cached_tokens = stats.known_tokens = stats.prompt_tokens;
  stats.prefilled_tokens = 0;
  stats.read = stats.shared_read = stats.restored = {};
  stats.failed_reads = stats.refused_restores = stats.failed_calls = 0;
  stats.miss = MissReason::kWholePrompt;
  stats.preemptions = 0;
  stats.place.reset();
  stats.waits = {};
  return stats;
}

void take_over(Request& branch, const Request& from) {
  branch.effective = from.effective;
  branch.stats = branch_stats(from.stats);
  branch.known = from.known;
  branch.submitted_ns = from.submitted_ns;
  branch.started_ns = from.started_ns;
  branch.reported = branch.start_counted = true;
  branch.told_tokens = branch.stats.prompt_tokens;
}

// The settings as monitors show them (places.h). Copies nothing that may be large.
engine::SamplingParams without_large_parts(engine::SamplingParams& sampling) {
  auto biases = std::exchange(sampling.logit_bias, {});
  auto grammar = std::exchange(sampling.grammar, {});
  auto breakers = std::exchange(sampling.dry_breakers, {});
  auto thinking = std::exchange(sampling.thinking, {});
  engine::SamplingParams small = sampling;
  sampling.logit_bias = std::move(biases);
  sampling.grammar = std::move(grammar);
  sampling.dry_breakers = std::move(breakers);
  sampling.thinking = std::move(thinking);
  return small;
}

// The greatest number is no seed: libllama takes it for the wish for any.
std::uint32_t later_seed(std::uint32_t first, std::size_t number) {
  constexpr std::uint64_t kSeeds = UINT32_MAX;
  return static_cast<std::uint32_t>((std::uint64_t{first} + number) % kSeeds);
}

}  // namespace

std::unique_ptr<Request> make_branch(Job& job, std::size_t number, std::shared_ptr<JobSink> sink) {
  auto branch = std::make_unique<Request>();
  branch->stats.prompt_tokens = job.prompt.size();
  SharedTokens prompt = std::exchange(job.prompt, {});
  policy::PromptMarkers markers = std::exchange(job.markers, {});
  job.markers.beginning = markers.beginning;
  engine::SamplingParams sampling = std::exchange(job.sampling, without_large_parts(job.sampling));
  branch->job = job;
  job.prompt = std::move(prompt);
  job.markers = std::move(markers);
  job.sampling = std::move(sampling);
  Job& own = branch->job;
  own.id = fmt::format("{}.{}", job.id, number);
  if (own.sampling.seed) own.sampling.seed = later_seed(*own.sampling.seed, number);
  own.scored_prompt.reset();
  branch->sink = std::move(sink);
  return branch;
}

Result<bool> prepare_branches(Request& request, engine::Engine& engine) {
  std::size_t made = 0;
  engine::SamplingParams& sampling = request.job.sampling;
  for (const std::unique_ptr<Request>& branch : request.branches) {
    if (branch->sampler != nullptr) continue;
    if (made++ == kSamplersPerRound) return false;
    const auto seed = std::exchange(sampling.seed, branch->job.sampling.seed);
    Result<std::unique_ptr<engine::Sampler>> sampler = make_sampler(sampling, request.effective.tokens, engine);
    sampling.seed = seed;
    if (!sampler) return sampler.error();
    branch->sampler = *std::move(sampler);
  }
  return true;
}

std::vector<TokenId> begin_branches(Request& request, engine::Engine& engine, std::size_t index) {
  std::vector<TokenId> first;
  for (const std::unique_ptr<Request>& branch : request.branches) {
    take_over(*branch, request);
    first.push_back(sample_next(*branch, engine, index));
  }
  return first;
}

bool fork_branch(Request& branch, SeqId source, Sequences& sequences) {
  const Position end = sequences[source].end();
  branch.seq = sequences.place(
      {.start = policy::Plan::Start::kFork, .source = source, .from_memory = end, .restored_to = end, .leave = {}});
  branch.fork_refused = !branch.seq;
  if (!branch.seq) return false;
  Occupant occupant = sequences[source].occupant;
  occupant.id = branch.job.id;
  sequences.occupy(*branch.seq, std::move(occupant), sequences[source].tokens);
  claim_files(branch, sequences.begin_capture(*branch.seq));
  branch.phase = Request::Phase::kDecode;
  return true;
}

}  // namespace kvkeep::server
