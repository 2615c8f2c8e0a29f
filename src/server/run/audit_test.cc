// The audit over the fake engine, whose rows and answers are functions of the tokens: right state is never accused,
// wrong state is found, and no request waits for it.

#include <set>

#include "server/run/audit_fixture.h"
#include "server/run/media_fixture.h"
#include "store/small_files.h"
#include "testing/sim/sim_executor.h"

namespace kvkeep::server {
namespace {

std::string note_of(const World& world, const std::string& directory) {
  const std::string own = directory + "/" + world.engine.description().fingerprint.hex();
  return store::read_distrust(os::real_file_system(), own).value_or("");
}

// ---- right state ----

TEST_P(AuditTest, RightStateIsNeverAccused) {
  fill();
  AuditBench bench(options());
  const AuditCounts counts = bench.run(120);
  EXPECT_EQ(counts[AuditOutcome::kAgreed] + counts[AuditOutcome::kNothing], 120U);
  EXPECT_GT(counts[AuditOutcome::kAgreed], 100U);
  EXPECT_FALSE(bench.world.cache.distrusted());
  EXPECT_EQ(bench.world.engine.memory().cells_used(), 0U) << "the sequence comes back empty";
}

TEST_P(AuditTest, NoiseIsNoAccusation) {
  fill();
  for (const float noise : {0.02F, 0.2F, 1.0F}) {
    WorldOptions noisy = options();
    noisy.fake.logit_noise = noise;
    AuditBench bench(noisy);
    const AuditCounts counts = bench.run(40);
    EXPECT_EQ(counts[AuditOutcome::kWrong], 0U) << noise;
    EXPECT_EQ(counts[noise < 0.1F ? AuditOutcome::kAgreed : AuditOutcome::kUnclear] + counts[AuditOutcome::kNothing],
              40U)
        << noise;
  }
}

TEST_P(AuditTest, PiecesAreWhereASequenceCanBePut) {
  fill();
  AuditBench bench(options(), {.every_ms = 1, .idle_ms = 0, .limits = {.tokens = 100, .most_tokens = 300}});
  std::set<std::uint32_t> begins;
  for (int i = 0; i < 60; ++i) {
    const AuditReport report = bench.run();
    if (report.outcome == AuditOutcome::kNothing) continue;
    ASSERT_EQ(report.outcome, AuditOutcome::kAgreed);
    EXPECT_TRUE(report.from_disk || i > 0) << "the first finds nothing in RAM";
    EXPECT_FALSE(report.piece.empty());
    EXPECT_LE(report.piece.size(), 300U);
    begins.insert(report.piece.begin.value());
  }
  EXPECT_GT(begins.size(), 5U);
}

TEST_P(AuditTest, StateOnlyInRamIsAuditedToo) {
  WorldOptions in_ram = options();
  in_ram.disk_directory.clear();
  in_ram.ram = mebibytes(8);
  AuditBench bench(in_ram);
  EXPECT_EQ(bench.run().outcome, AuditOutcome::kNothing);
  bench.world.start();
  (void)bench.world.ask(text(300), 8);
  bench.world.stop();
  const AuditReport report = bench.run();
  EXPECT_EQ(report.outcome, AuditOutcome::kAgreed);
  EXPECT_FALSE(report.from_disk);
}

// ---- wrong state ----

// Text before, between and after pictures is computed anew; their own rows cannot be, since no pixel is kept.
TEST_P(AuditTest, OfPathsWithPicturesTheTextIsAudited) {
  CountingProjector projector;
  const std::vector<ChunkSource> pictures{picture(1), picture(2)};
  Tokens prompt = text(150) + ids_of(pictures[0]) + text(150) + ids_of(pictures[1]) + text(150);
  WorldOptions there = options();
  there.scheduler.projector = &projector;
  {
    World world(there);
    world.start();
    Job job;
    job.id = "test";
    job.kind = "chat";
    job.prompt = prompt;
    job.media = pictures;
    job.sampling = World::greedy();
    job.max_tokens = 20;
    job.markers.message_ends = {Position{150}, Position{190}, Position{340}, Position{380}};
    const auto sink = std::make_shared<CollectingSink>();
    ASSERT_TRUE(world.scheduler.submit(std::move(job), sink).ok());
    prompt = prompt + sink->future().get().tokens;
    world.stop();
    world.cache.flush();
  }
  AuditBench bench(options(), {.every_ms = 1, .idle_ms = 0, .limits = {.tokens = 60, .most_tokens = 170}});
  std::size_t after_a_picture = 0;
  for (int i = 0; i < 60; ++i) {
    const AuditReport report = bench.run();
    if (report.outcome == AuditOutcome::kNothing) continue;
    ASSERT_EQ(report.outcome, AuditOutcome::kAgreed);
    const auto piece = TokenSpan(prompt).subspan(report.piece.begin.value(), report.piece.size());
    EXPECT_TRUE(std::ranges::none_of(piece, is_media_id));
    after_a_picture += report.piece.begin > Position{150} ? 1 : 0;
  }
  EXPECT_GT(after_a_picture, 5U);
  EXPECT_EQ(projector.encoded, 2) << "an audit encodes nothing";
  for (const std::string& kind : kinds()) forge_all(directory_.path(), kind);
  AuditBench wrong(options(), {.every_ms = 1, .idle_ms = 0, .limits = {.tokens = 60, .most_tokens = 170}});
  EXPECT_EQ(wrong.run(60)[AuditOutcome::kWrong], 1U);
}

// The audit computes with the scales of the start, so that such state would look wrong.
TEST_P(AuditTest, StateOfOtherAdaptersIsLeftAlone) {
  WorldOptions made = options();
  made.disk_directory.clear();
  made.ram = mebibytes(64);
  made.fake.adapters = 1;
  AuditBench bench(made);
  const engine::AdapterScales scales{0.5F};
  const Tenant tenant = with_adapters(bench.world.engine.description().fingerprint, kNoTenant, scales);
  bench.world.start();
  (void)bench.world.submit(text(300), 8, true, SIZE_MAX, tenant, scales).get();
  bench.world.stop();
  EXPECT_EQ(bench.run().outcome, AuditOutcome::kNothing);
}

TEST_P(AuditTest, WrongStateWithRightSumsIsFound) {
  fill();
  for (const std::string& kind : kinds()) {
    const sim::TemporaryDirectory copy;
    std::filesystem::copy(directory_.path(), copy.path(), std::filesystem::copy_options::recursive);
    forge_all(copy.path(), kind);
    WorldOptions wrong = options();
    wrong.disk_directory = copy.path();
    AuditBench bench(wrong);
    EXPECT_EQ(bench.run(10)[AuditOutcome::kWrong], 1U) << kind;
    EXPECT_TRUE(bench.world.cache.distrusted()) << kind;
    bench.world.writer->drain();
    EXPECT_NE(note_of(bench.world, copy.path()).find("of a stored prefix"), std::string::npos) << kind;
    EXPECT_EQ(bench.world.engine.memory().cells_used(), 0U);
    EXPECT_FALSE(bench.audit.due()) << "there is nothing left to look at";
  }
}

TEST_P(AuditTest, OneWrongFileIsFoundInTime) {
  fill();
  const auto files = files_of(directory_.path(), kinds().back());
  forge(files[random_() % files.size()]);
  AuditBench bench(options());
  const AuditCounts counts = bench.run(400);
  EXPECT_EQ(counts[AuditOutcome::kWrong], 1U);
  EXPECT_EQ(counts[AuditOutcome::kUnclear] + counts[AuditOutcome::kFailed], 0U);
}

// A restore that went wrong once, say by a bit flipped on its way, does not go wrong again.
TEST_P(AuditTest, ARestoreThatGoesWrongOnceAccusesNoStoredState) {
  fill();
  AuditBench bench(options());
  std::size_t decodes = 0;
  bench.world.engine.set_on_decode([&](std::span<const engine::BatchToken> batch) {
    // The answer after the first restore is one to a token that is not on the path.
    if (++decodes == 1) const_cast<engine::BatchToken&>(batch[0]).token ^= 1;
  });
  const AuditReport report = bench.run();
  EXPECT_EQ(report.outcome, AuditOutcome::kUnclear);
  EXPECT_GT(report.noise.value(), 1.0);
}

// ---- consequences of a wrong verdict ----

TEST_P(AuditTest, AfterwardsNothingStoredIsUsedAndNothingIsStored) {
  fill();
  forge_all(directory_.path(), kinds().back());
  WorldOptions wrong = options();
  wrong.ram = mebibytes(8);
  wrong.scheduler.audit = {.every_ms = 0.001, .idle_ms = 0};
  World world(wrong);
  world.start();
  while (world.scheduler.stats().audits[AuditOutcome::kWrong] == 0) std::this_thread::yield();
  const auto before = files_of(directory_.path(), "kvs");
  for (const Tokens& prompt : {prompts_.front(), prompts_.back(), text(200)}) {
    const Reply reply = world.ask(prompt, 8);
    EXPECT_EQ(reply.tokens, world.expected(prompt, 8));
    EXPECT_EQ(reply.stats.ram_tokens + reply.stats.disk_tokens, 0U);
  }
  // Prefixes in the model's own memory are still shared.
  const Tokens prompt = text(200);
  const Reply first = world.ask(prompt, 8);
  const Reply next = world.ask(prompt + first.tokens + text(10), 8);
  EXPECT_EQ(next.stats.source, CacheSource::kMemoryToken);
  EXPECT_GT(next.stats.memory_tokens, 200U);
  world.stop();
  world.cache.flush();
  const auto after = files_of(directory_.path(), "kvs");
  EXPECT_TRUE(std::ranges::includes(before, after)) << "nothing was written";
  EXPECT_EQ(world.scheduler.stats().audits[AuditOutcome::kWrong], 1U);
}

// A conversation that was restored from wrong state and has been in the model's memory since leaves, too.
TEST_P(AuditTest, ConversationsRestoredBeforeLeaveTheModelsMemory) {
  fill();
  for (const std::string& kind : kinds()) forge_all(directory_.path(), kind);
  WorldOptions wrong = options();
  wrong.scheduler.audit = {.every_ms = 0.001, .idle_ms = 300};
  World world(wrong);
  world.start();
  const Reply before = world.ask(prompts_.back(), 8);
  ASSERT_GT(before.stats.disk_tokens, 0U);
  ASSERT_NE(before.tokens, world.expected(prompts_.back(), 8)) << "nothing else can tell";
  while (world.scheduler.stats().audits[AuditOutcome::kWrong] == 0) std::this_thread::yield();
  const Reply after = world.ask(prompts_.back(), 8);
  EXPECT_EQ(after.tokens, world.expected(prompts_.back(), 8));
  EXPECT_EQ(after.stats.cached_tokens, 0U);
}

// ---- requests come first ----

// A request may come between any two calls of the model: the next call is for it.
TEST_P(AuditTest, ARequestGoesBeforeTheNextSlice) {
  fill();
  const Tokens prompt = text(40);
  for (std::size_t at = 1; at < 12; ++at) {
    WorldOptions audited = options();
    audited.scheduler.audit = {.every_ms = 0.001, .idle_ms = 0};
    World world(audited);
    std::future<Reply> reply;
    std::size_t decodes = 0;
    bool next = false;
    world.engine.set_on_decode([&](std::span<const engine::BatchToken> batch) {
      if (++decodes == at) reply = world.submit(prompt, 4);
      if (decodes == at + 1) next = batch[0].token == prompt.at(batch[0].at.value());
    });
    world.start();
    while (world.scheduler.stats().requests == 0) std::this_thread::yield();
    while (world.scheduler.stats().running + world.scheduler.stats().waiting > 0 || !world.scheduler.idle()) {
      std::this_thread::yield();
    }
    world.stop();
    EXPECT_EQ(reply.get().tokens, world.expected(prompt, 4));
    EXPECT_TRUE(next) << "call " << at;
  }
}

TEST_P(AuditTest, ARequestDoesNotWaitForAReadOfTheAudit) {
  fill();
  sim::SimExecutor reader;
  WorldOptions audited = options();
  audited.scheduler.audit = {.every_ms = 0.001, .idle_ms = 0};
  audited.hand_run_reader = &reader;
  World world(audited);
  world.start();
  while (reader.waiting() == 0) std::this_thread::yield();
  const Tokens prompt = text(40);
  EXPECT_EQ(world.ask(prompt, 4).tokens, world.expected(prompt, 4));
  EXPECT_EQ(world.scheduler.stats().audits[AuditOutcome::kAbandoned], 1U);
  world.scheduler.stop();
  reader.run_all();
}

TEST_P(AuditTest, SequencesInMemoryStayAndAreGoneOnWith) {
  fill();
  WorldOptions audited = options();
  audited.ram = mebibytes(8);
  audited.scheduler.audit = {.every_ms = 0.001, .idle_ms = 0};
  World world(audited);
  world.start();
  const Tokens prompt = text(200);
  const Reply first = world.ask(prompt, 8);
  const std::uint64_t before = world.scheduler.stats().audits[AuditOutcome::kAgreed];
  while (world.scheduler.stats().audits[AuditOutcome::kAgreed] < before + 5) std::this_thread::yield();
  const Tokens longer = prompt + first.tokens + text(10);
  const Reply next = world.ask(longer, 8);
  EXPECT_EQ(next.tokens, world.expected(longer, 8));
  EXPECT_EQ(next.stats.memory_tokens, 207U);
}

TEST_P(AuditTest, WithoutAFreeSequenceOrCellsThereIsNone) {
  fill();
  AuditBench bench(options());
  EXPECT_EQ(bench.step(std::nullopt)->outcome, AuditOutcome::kNoRoom);
  WorldOptions small = options();
  small.fake.cells = 100;
  AuditBench narrow(small);
  const AuditCounts counts = narrow.run(20);
  EXPECT_GT(counts[AuditOutcome::kNoRoom], 10U);
  EXPECT_EQ(counts[AuditOutcome::kWrong] + counts[AuditOutcome::kFailed], 0U);
}

TEST_P(AuditTest, ItWaitsUntilNobodyAskedForAWhileAndBetweenTwo) {
  fill();
  AuditBench bench(options(), {.every_ms = 600'000, .idle_ms = 30'000});
  EXPECT_FALSE(bench.audit.due());
  bench.clock.pass_ms(599'000);
  EXPECT_FALSE(bench.audit.due());
  bench.clock.pass_ms(1'000);
  EXPECT_TRUE(bench.audit.due());
  EXPECT_EQ(bench.audit.disturb(), std::nullopt);
  EXPECT_FALSE(bench.audit.due());
  bench.clock.pass_ms(30'000);
  EXPECT_TRUE(bench.audit.due());
  ASSERT_EQ(bench.run().outcome, AuditOutcome::kAgreed);
  bench.clock.pass_ms(590'000);
  EXPECT_FALSE(bench.audit.due());
  bench.clock.pass_ms(10'000);
  EXPECT_TRUE(bench.audit.due());
  EXPECT_EQ(bench.step(), std::nullopt);
  EXPECT_EQ(bench.audit.disturb()->outcome, AuditOutcome::kAbandoned);
  EXPECT_EQ(bench.world.engine.memory().cells_used(), 0U);
}

TEST_P(AuditTest, ASuspectedPieceIsAuditedAgainFirst) {
  fill();
  forge_all(directory_.path(), kinds().back());
  AuditBench bench(options(), {.every_ms = 600'000, .idle_ms = 1'000});
  bench.clock.pass_ms(600'000);
  ASSERT_TRUE(bench.run_until_suspected());
  const std::optional<AuditReport> report = bench.audit.disturb();
  ASSERT_EQ(report->outcome, AuditOutcome::kAbandoned);
  bench.clock.pass_ms(1'000);
  EXPECT_TRUE(bench.audit.due()) << "at the next occasion, not in ten minutes";
  const AuditReport again = bench.run();
  EXPECT_EQ(again.outcome, AuditOutcome::kWrong);
  EXPECT_EQ(again.piece, report->piece);
}

// An audit that was interrupted before it looked at anything, or had no room: still suspected, but not tried without a
// pause.
TEST_P(AuditTest, APieceStaysSuspectedUntilItIsAudited) {
  fill();
  forge_all(directory_.path(), kinds().back());
  AuditBench bench(options(), {.every_ms = 600'000, .idle_ms = 1'000});
  bench.clock.pass_ms(600'000);
  ASSERT_TRUE(bench.run_until_suspected());
  const TokenRange piece = bench.audit.disturb()->piece;
  for (int again = 0; again < 3; ++again) {
    bench.clock.pass_ms(1'500);
    ASSERT_TRUE(bench.audit.due());
    (void)bench.step();
    ASSERT_TRUE(bench.audit.disturb().has_value());
    EXPECT_FALSE(bench.audit.due()) << "not again and again";
    bench.clock.pass_ms(1'500);
    const auto without_room = bench.audit.step(std::nullopt, 64);
    ASSERT_TRUE(without_room.has_value());
    EXPECT_EQ(without_room->outcome, AuditOutcome::kNoRoom);
  }
  bench.clock.pass_ms(1'500);
  const AuditReport found = bench.run();
  EXPECT_EQ(found.outcome, AuditOutcome::kWrong);
  EXPECT_EQ(found.piece, piece);
}

// ---- failures during an audit ----

TEST_P(AuditTest, FaultsOfTheEngineEndItAndAccuseNobody) {
  fill();
  for (std::uint32_t n = 1; n < 6; ++n) {
    for (const auto fault : {&engine::fake::FakeFaults::fail_decode, &engine::fake::FakeFaults::abort_decode,
                             &engine::fake::FakeFaults::no_cells_decode, &engine::fake::FakeFaults::fail_restore,
                             &engine::fake::FakeFaults::fail_point}) {
      AuditBench bench(options());
      engine::fake::FakeFaults faults;
      faults.*fault = n;
      bench.world.engine.set_faults(faults);
      const AuditCounts counts = bench.run(4);
      EXPECT_EQ(counts[AuditOutcome::kWrong] + counts[AuditOutcome::kUnclear], 0U);
      EXPECT_EQ(bench.world.engine.memory().cells_used(), 0U);
    }
  }
}

TEST_P(AuditTest, DamageIsFoundBySumsAndIsNoReasonToDistrust) {
  fill();
  for (const auto& path : files_of(directory_.path(), kinds().back())) {
    std::filesystem::resize_file(path, std::filesystem::file_size(path) - 1);
  }
  WorldOptions damaged = options();
  AuditBench bench(damaged);
  const AuditCounts counts = bench.run(20);
  EXPECT_EQ(counts[AuditOutcome::kWrong], 0U);
  EXPECT_FALSE(bench.world.cache.distrusted());
}

TEST(AuditOfOpaqueModels, IsNotMade) {
  AuditBench bench({.fake = {.memory_class = MemoryClass::kOpaque}});
  bench.clock.pass_ms(600'000);
  EXPECT_FALSE(bench.audit.due());
}

INSTANTIATE_TEST_SUITE_P(All, AuditTest, testing::ValuesIn(kAuditedClasses), audited_class_name);

}  // namespace
}  // namespace kvkeep::server
