#include "inspect/archive.h"

#include <algorithm>
#include <tuple>

#include "format/archive_file.h"
#include "inspect/sample_directory_test.h"
#include "inspect/verify.h"
#include "store/weights.h"
#include "testing/sim/sim_executor.h"

namespace kvkeep::inspect {
namespace {

using format::PartKind;

// Two models; conversation 2 leaves conversation 1 after two segments, conversation 3 shares nothing.
class Archives : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_TRUE(directory_.files().make_directories("/box"));
    for (std::uint32_t i = 0; i < 4; ++i) segments_.push_back(sim::sample_segment(kModel, 1, i, 700));
    segments_.push_back(branch(2, 2, 2, 1, 700));
    segments_.push_back(sim::sample_segment(kModel, 3, 0, 700));
    segments_.push_back(sim::sample_leaf(kModel, 1, 1, PartKind::kPoint, 70));
    segments_.push_back(sim::sample_leaf(kModel, 1, 3, PartKind::kPoint, 70));
    directory_.store(segments_);
    other_ = sim::sample_segment(kOtherModel, 5, 0, 300);
    directory_.store({other_}, kOtherModel);
  }

  Result<ExportReport> pack(const std::vector<std::size_t>& named) {
    const Forest forest = directory_.forest();
    std::vector<IdTarget> runs;
    for (const std::size_t i : named) runs.push_back(forest.ids.find(segments_[i].header.name.end_hash.hex()).value());
    return export_files(directory_.files(), forest, files_to_export(forest, runs).files, kArchive);
  }
  std::vector<std::byte> archive() { return *directory_.files().contents(kArchive); }

  // Into an empty directory of its own.
  struct Target {
    sim::SimFileSystem files;
    Target() { EXPECT_TRUE(files.make_directories("/other")); }
    Result<ImportReport> take(const std::vector<std::byte>& archive, ByteCount room = mebibytes(1)) {
      files.plant(kArchive, archive);
      ImportOptions options;
      options.room = room;
      options.root = "/other";
      options.own_mark = "import-1";
      return import_files(files, kArchive, options);
    }
    // All files but the empty ones of locks.
    std::size_t count() const {
      return static_cast<std::size_t>(std::ranges::count_if(files.paths(), [](const std::string& path) {
        return path.starts_with("/other/") && !path.ends_with(store::kUsersSuffix);
      }));
    }
    bool clean() {
      sim::SimExecutor executor;
      return verify(files, find_models(files, "/other").value(), {&executor})->clean();
    }
  };

  SampleDirectory directory_;
  std::vector<sim::SampleSegment> segments_;
  sim::SampleSegment other_;
};

TEST_F(Archives, HoldAPathAndWhatHangsBelow) {
  EXPECT_EQ(pack({4})->files.files, 4U) << "two shared segments, their point, the branch";
  Target target;
  const ImportReport report = target.take(archive()).value();
  EXPECT_EQ(report.added.files, 4U);
  EXPECT_EQ(report.fingerprints, 1U);
  EXPECT_EQ(target.count(), 4U);
  EXPECT_TRUE(target.clean());
  EXPECT_EQ(target.take(archive())->present.files, 4U) << "a second time nothing is added";
  EXPECT_EQ(target.count(), 4U);
}

TEST_F(Archives, ConversationsThatNobodyNamedStayOut) {
  const sim::SampleSegment leaving = leaving_in_the_middle(700);
  directory_.store({leaving});
  const Forest forest = directory_.forest();
  const IdTarget line = forest.ids.find(segments_[5].header.name.end_hash.hex()).value();
  const IdTarget branch = forest.ids.find(leaving.header.name.end_hash.hex()).value();
  const auto figures = [&](const std::vector<IdTarget>& named) {
    const ExportChoice choice = files_to_export(forest, named);
    return std::tuple(choice.files.size(), choice.others, choice.foreign_tokens);
  };
  EXPECT_EQ(figures({line}), std::tuple(1U, 1U, 0U));
  EXPECT_EQ(figures({branch}), std::tuple(2U, 0U, 4U)) << "the file that it leaves goes along, with its last 4 tokens";
  EXPECT_EQ(figures({line, branch}), std::tuple(2U, 0U, 0U));
}

TEST_F(Archives, AllModelsAreExported) {
  const Forest forest = directory_.forest();
  std::vector<IdTarget> roots;
  for (std::size_t model = 0; model < 2; ++model) {
    for (const std::size_t run : forest.trees[model].roots) roots.push_back({model, run});
  }
  EXPECT_EQ(export_files(directory_.files(), forest, files_to_export(forest, roots).files, kArchive)->files.files, 9U);
  Target target;
  EXPECT_EQ(target.take(archive())->fingerprints, 2U);
  EXPECT_TRUE(target.clean());
  // A server finds the files that it would have written itself.
  auto store = store::DiskStore::open({.directory = "/other", .fingerprint = kModel, .budget = mebibytes(1)},
                                      target.files, directory_.clock());
  ASSERT_TRUE(store);
  std::vector<std::byte> rows(segments_[0].payload.size());
  EXPECT_TRUE((*store)->get(segments_[0].header, PartKind::kRows, rows));
  EXPECT_EQ(rows, segments_[0].payload);
}

// The description of the model travels along: for people, and without the path of a file that lies elsewhere.
TEST_F(Archives, SayWhichModelsTheyAreOf) {
  const ModelNote note{.name = "qwen", .description = "small", .path = "/models/qwen.gguf", .settings = "default"};
  ASSERT_TRUE(write_model_note(directory_.files(), kRoot + "/" + kModel.hex(), note).ok());
  ASSERT_TRUE(pack({5}));
  const std::vector<std::byte> whole = archive();
  const std::string there = "/other/" + kModel.hex();
  {
    Target target;
    ASSERT_TRUE(target.take(whole).ok());
    ModelNote expected = note;
    expected.path.clear();
    EXPECT_EQ(read_model_note(target.files, there), expected);
  }
  Target known;
  const ModelNote own{.name = "my own"};
  ASSERT_TRUE(known.files.make_directories(there).ok());
  ASSERT_TRUE(write_model_note(known.files, there, own).ok());
  ASSERT_TRUE(known.take(whole).ok());
  EXPECT_EQ(read_model_note(known.files, there), own) << "what is there stays";
  for (std::size_t at = 0; at < whole.size(); ++at) {
    Target target;
    std::vector<std::byte> changed = whole;
    changed[at] ^= std::byte{0x10};
    ASSERT_FALSE(target.take(changed)) << at;
    ASSERT_EQ(target.count(), 0U) << at;
    ASSERT_FALSE(target.take({whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(at)})) << at;
  }
}

TEST_F(Archives, ANoteOfAnotherModelIsRefused) {
  std::vector<std::byte> bytes = format::encode_archive_head(true);
  const auto append = [&](const std::vector<std::byte>& more) { bytes.insert(bytes.end(), more.begin(), more.end()); };
  const std::vector<std::byte> file = *directory_.files().contents(directory_.path_of(segments_[5]));
  append(format::encode_archive_number(file.size()));
  append(file);
  append(format::encode_archive_number(0));
  append(format::encode_archive_number(1));
  const std::vector<std::byte> files_alone = bytes;
  const std::string text = encode_model_note({.name = "x"});
  for (const auto& [notes, fits] :
       std::vector<std::pair<std::vector<format::ArchiveNote>, bool>>{{{{kModel, text}}, true},
                                                                      {{}, true},
                                                                      {{{kOtherModel, text}}, false},
                                                                      {{{kModel, text}, {kModel, text}}, false},
                                                                      {{{kModel, "no json"}}, false}}) {
    bytes = files_alone;
    append(format::encode_archive_notes(notes));
    Target target;
    EXPECT_EQ(target.take(bytes).ok(), fits);
    EXPECT_EQ(format::decode_archive_notes(format::encode_archive_notes(notes)).value(), notes);
  }
}

TEST_F(Archives, StateIsImportedOnlyNextToStateOfTheSameModelFile) {
  ModelHash own, other;
  own.bytes.fill(1);
  other.bytes.fill(2);
  ASSERT_TRUE(store::write_weights(directory_.files(), kRoot + "/" + kModel.hex(), {.hash = own, .mark = {}}));
  ASSERT_TRUE(pack({5}));
  const std::string there = "/other/" + kModel.hex();
  for (const auto& [noted, fits] :
       std::vector<std::pair<store::Weights, bool>>{{{.hash = own, .mark = {}}, true},
                                                    {{.hash = other, .mark = {}}, false},
                                                    {{.hash = {}, .mark = store::mark_of({})}, false}}) {
    Target target;
    ASSERT_TRUE(target.files.make_directories(there));
    ASSERT_TRUE(store::write_weights(target.files, there, noted));
    target.files.plant(there + "/" + format::file_name(segments_[4].header.name), std::vector<std::byte>(9));
    const std::size_t before = target.count();
    EXPECT_EQ(target.take(archive()).ok(), fits);
    EXPECT_EQ(target.count() > before, fits);
  }
  Target empty;
  ASSERT_TRUE(empty.take(archive()));
  EXPECT_EQ(store::read_weights(empty.files, there)->hash, own) << "the archive brings the hash along";
}

// A server that runs next to an import finds files as they get their names, and goes on from them.
TEST_F(Archives, NextToServersAFileThatHasItsNameStays) {
  ASSERT_TRUE(pack({0}));
  std::size_t parts = 0;
  for (std::uint64_t at = 1; at <= 7; ++at) {
    Target target;
    target.files.plant(kArchive, archive());
    target.files.set_plan({sim::FaultKind::kFailOnce, at, {sim::Operation::kRename}});
    const ImportOptions options{.room = mebibytes(1), .root = "/other", .own_mark = "import-1", .beside_servers = true};
    EXPECT_FALSE(import_files(target.files, kArchive, options).ok());
    target.files.heal();
    EXPECT_EQ(target.count(), at - 1) << "and nothing unfinished";
    EXPECT_TRUE(target.clean()) << at;
    parts += target.count();
    EXPECT_EQ(target.take(archive())->added.files, 8 - at) << "the next import adds the rest";
  }
  EXPECT_GT(parts, 0U);
}

TEST_F(Archives, AnExportReplacesNothing) {
  ASSERT_TRUE(pack({0}));
  EXPECT_EQ(pack({0}).error().kind, ErrorKind::kInvalid);
}

TEST_F(Archives, DamageIsNotExported) {
  directory_.damage(segments_[0]);
  EXPECT_EQ(pack({0}).error().kind, ErrorKind::kDamaged);
  EXPECT_FALSE(directory_.files().contents(kArchive));
}

// Every byte, every length: refused, and no file stays.
TEST_F(Archives, NothingOfADamagedArchiveIsImported) {
  ASSERT_TRUE(pack({5, 6}));
  const std::vector<std::byte> whole = archive();
  Target target;
  for (std::size_t at = 0; at < whole.size(); ++at) {
    std::vector<std::byte> changed = whole;
    changed[at] ^= std::byte{0x10};
    ASSERT_FALSE(target.take(changed)) << at;
    ASSERT_EQ(target.count(), 0U) << at;
  }
  for (std::size_t size = 0; size < whole.size(); ++size) {
    ASSERT_FALSE(target.take({whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(size)})) << size;
  }
  std::vector<std::byte> longer = whole;
  longer.push_back(std::byte{0});
  EXPECT_FALSE(target.take(longer));
  EXPECT_EQ(target.count(), 0U);
  EXPECT_TRUE(target.take(whole));
}

// Whole files in a well-made frame that are not to be believed all the same.
TEST_F(Archives, FilesThatDoNotHangTogetherAreRefused) {
  const auto archive_of = [&](const std::vector<const sim::SampleSegment*>& segments) {
    std::vector<std::byte> bytes = format::encode_archive_head();
    const auto append = [&](const std::vector<std::byte>& more) {
      bytes.insert(bytes.end(), more.begin(), more.end());
    };
    for (const sim::SampleSegment* segment : segments) {
      const std::vector<std::byte> file = *directory_.files().contents(directory_.path_of(*segment));
      append(format::encode_archive_number(file.size()));
      append(file);
    }
    append(format::encode_archive_number(0));
    append(format::encode_archive_number(segments.size()));
    return bytes;
  };
  Target target;
  EXPECT_TRUE(target.take(archive_of({&segments_[0], &segments_[1], &segments_[6]})));
  for (const auto& refused :
       {archive_of({&segments_[1]}), archive_of({&segments_[0], &segments_[0]}),
        archive_of({&segments_[1], &segments_[0]}),  // children before parents
        archive_of({&segments_[0], &segments_[6], &segments_[1]}), archive_of({&segments_[0], &segments_[7]})}) {
    Target empty;
    EXPECT_EQ(empty.take(refused).error().kind, ErrorKind::kInvalid);
    EXPECT_EQ(empty.count(), 0U);
  }
}

// Each would be a directory that every server looks into.
TEST_F(Archives, NotOfAnyNumberOfModels) {
  const auto archive_of = [](std::size_t models) {
    std::vector<std::byte> bytes = format::encode_archive_head();
    const auto append = [&](const std::vector<std::byte>& more) {
      bytes.insert(bytes.end(), more.begin(), more.end());
    };
    for (std::size_t i = 0; i < models; ++i) {
      FingerprintHash fingerprint;
      fingerprint.bytes[0] = static_cast<std::uint8_t>(i);
      fingerprint.bytes[1] = static_cast<std::uint8_t>(i >> 8);
      const sim::SampleSegment sample = sim::sample_segment(fingerprint, 1, 0, 10);
      append(format::encode_archive_number(format::file_bytes(sample.header)));
      append(format::encode_header(sample.header));
      append(sample.payload);
    }
    append(format::encode_archive_number(0));
    append(format::encode_archive_number(models));
    return bytes;
  };
  Target target;
  EXPECT_EQ(target.take(archive_of(format::kMaxArchiveModels + 1), mebibytes(64)).error().kind, ErrorKind::kInvalid);
  EXPECT_EQ(target.count(), 0U);
  EXPECT_EQ(target.take(archive_of(format::kMaxArchiveModels), mebibytes(64))->fingerprints, format::kMaxArchiveModels);
}

TEST_F(Archives, OnlyWhatThereIsRoomFor) {
  ASSERT_TRUE(pack({0}));
  Target target;
  const Result<ImportReport> taken = target.take(archive(), ByteCount{3 * 8192});
  EXPECT_EQ(taken.error().kind, ErrorKind::kNoSpace);
  EXPECT_TRUE(taken.error().message.starts_with("0.1 MiB to import, and room for 0.0 MiB: ")) << taken.error().message;
  EXPECT_EQ(target.count(), 0U);
}

TEST_F(Archives, AFullFileSystemIsNotCalledABudget) {
  ASSERT_TRUE(pack({0}));
  Target target;
  target.files.plant(kArchive, archive());
  const Result<ImportReport> taken =
      import_files(target.files, kArchive,
                   {.room = mebibytes(1), .root = "/other", .own_mark = "import-1", .free = ByteCount{3 * 8192}});
  EXPECT_EQ(taken.error().kind, ErrorKind::kNoSpace);
  EXPECT_NE(taken.error().message.find("the file system of /other has 0.0 MiB free"), std::string::npos);
  EXPECT_EQ(taken.error().message.find("--kv-disk-space-mb"), std::string::npos);
  EXPECT_EQ(target.count(), 0U);
}

// A failure or death at any operation leaves nothing of it, or a part without holes.
TEST_F(Archives, FaultsLeaveNothingOrNoHole) {
  ASSERT_TRUE(pack({0}));
  for (const sim::FaultKind kind : {sim::FaultKind::kFailOnce, sim::FaultKind::kCrash}) {
    for (std::uint64_t at = 1;; ++at) {
      Target target;
      target.files.plant(kArchive, archive());
      target.files.set_plan({kind, at});
      ImportOptions options{.room = mebibytes(1), .root = "/other", .own_mark = "import-1"};
      const bool done = import_files(target.files, kArchive, options).ok();
      const bool fired = target.files.fault_fired();
      target.files.heal();
      if (kind == sim::FaultKind::kCrash && target.files.crashed()) {
        target.files.kill();
      } else if (!done) {
        EXPECT_EQ(target.count(), 0U) << at;
      }
      if (done) {
        EXPECT_EQ(target.count(), 7U);
      }
      EXPECT_TRUE(target.clean()) << at;
      if (!fired) break;
    }
  }
}

}  // namespace
}  // namespace kvkeep::inspect
