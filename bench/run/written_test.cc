#include "bench/run/written.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "format/segment_file.h"
#include "os/paths.h"

namespace kvkeep::bench {
namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t kBytesPerToken = 100;
constexpr std::uint64_t kTokens = 640;

constexpr char kRowsAlone[] = "memory class sliceable: 100 bytes of rows per token";
constexpr char kAllKinds[] = "memory class hybrid: 100 bytes of rows per token, 10 of window rows, 0.5 MiB per point";
constexpr char kPointsAlone[] = "memory class recurrent: 0 bytes of rows per token, 0.5 MiB per point";

// Logs the size of a token's state, writes 50,000 bytes, and answers: --host A --port N are its last arguments.
constexpr char kServer[] =
    "import http.server, sys\n"
    "class Handler(http.server.BaseHTTPRequestHandler):\n"
    "    def do_GET(self):\n"
    "        self.send_response(200); self.send_header('Content-Length', '0'); self.end_headers()\n"
    "print(sys.argv[2], flush=True)\n"
    "open(sys.argv[1], 'wb', buffering=0).write(b'x' * 50000)\n"
    "http.server.HTTPServer((sys.argv[-3], int(sys.argv[-1])), Handler).serve_forever()\n";

class WrittenTest : public testing::Test {
 protected:
  void SetUp() override {
    fs::create_directories(tier());
    start(kRowsAlone);
  }

  void start(const std::string& says) {
    const std::string own = directory_.path() + "/server" + std::to_string(++servers_);  // the previous one still runs
    fs::create_directories(own);
    server_.emplace(
        ServerCommand{.name = "mock", .program = "python3", .arguments = {"-B", "-c", kServer, own + "/other", says}},
        own, interrupt_);
    const Status started = server_->start();
    ASSERT_TRUE(started.ok()) << started.error().message;
  }

  std::string tier() const { return directory_.path() + "/kv"; }

  // Writes a segment of rows of this many tokens, `missing` bytes shorter than it should be.
  void write_segment(std::uint32_t number, std::uint64_t tokens, std::uint64_t missing = 0) const {
    write_file(number, format::PartKind::kRows, tokens, tokens * kBytesPerToken, missing);
  }

  void write_file(std::uint32_t number, format::PartKind kind, std::uint64_t tokens, std::uint64_t size_bytes,
                  std::uint64_t missing = 0) const {
    format::SegmentHeader header;
    header.name.begin = Position{0};
    header.name.end = Position{static_cast<std::uint32_t>(tokens)};
    header.name.kind = kind;
    header.tokens.assign(tokens, 7);
    header.parts = {{.kind = kind, .size_bytes = size_bytes}};
    const std::vector<std::byte> head = format::encode_header(header);
    fs::create_directories(tier() + "/fingerprint");
    std::ofstream file(tier() + "/fingerprint/" + std::to_string(number) + std::string(format::file_suffix(kind)),
                       std::ios::binary);
    file.write(reinterpret_cast<const char*>(head.data()), static_cast<std::streamsize>(head.size()));
    file << std::string(size_bytes - missing, 'r');
  }

  Result<std::vector<PartFigures>> measure(bool is_exact = true, std::optional<std::uint64_t> bytes_before = {}) {
    return measure_written(*server_, {.directory = tier(),
                                      .title = "three turns",
                                      .tokens = kTokens,
                                      .requests = 4,
                                      .is_exact = is_exact,
                                      .bytes_before = bytes_before,
                                      .limit_ms = 500});
  }

  const os::TemporaryDirectory directory_ = os::TemporaryDirectory::make("kvkeep-written-").value();
  Interrupt interrupt_;
  int servers_ = 0;
  std::optional<ServerProcess> server_;
};

TEST_F(WrittenTest, FilesWrittenOnceMeetTheGoal) {
  write_segment(1, kTokens / 2);
  write_segment(2, kTokens / 2);
  const auto figures = measure();
  ASSERT_TRUE(figures.ok()) << figures.error().message;
  ASSERT_EQ(figures->size(), 1U);
  EXPECT_EQ(figures->front().name, "payload bytes written / bytes of new rows, three turns");
  EXPECT_EQ(figures->front().median, 1);
  EXPECT_EQ(figures->front().goal, "1 to 1.1");
  EXPECT_EQ(figures->front().holds, true);
}

TEST_F(WrittenTest, ACacheThatWritesNothingIsSeen) {
  const auto figures = measure();
  ASSERT_TRUE(figures.ok()) << figures.error().message;
  EXPECT_EQ(figures->front().median, 0);
  EXPECT_EQ(figures->front().holds, false);
}

TEST_F(WrittenTest, OneMissingRowIsSeenWhereRowsAreExact) {
  write_segment(1, kTokens - 1);
  EXPECT_EQ(measure().value().front().holds, false);
  EXPECT_EQ(measure(false).value().front().holds, true);
}

TEST_F(WrittenTest, WritingTwiceIsSeen) {
  write_segment(1, kTokens);
  write_segment(2, kTokens);
  EXPECT_EQ(measure().value().front().holds, false);
}

TEST_F(WrittenTest, AClaimOfMoreThanIsInTheFileIsDamage) {
  write_segment(1, kTokens, 1);
  const auto figures = measure();
  ASSERT_FALSE(figures.ok());
  EXPECT_EQ(figures.error().kind, ErrorKind::kDamaged);
}

TEST_F(WrittenTest, TheKernelsCountIsNextToTheFiles) {
  write_segment(1, kTokens);
  // The server wrote 50,000 bytes and a line; this process wrote the segment.
  const auto figures = measure(true, 0);
  ASSERT_TRUE(figures.ok()) << figures.error().message;
  ASSERT_EQ(figures->size(), 2U);
  EXPECT_EQ(figures->back().name, "bytes given to write() / payload bytes written, three turns");
  EXPECT_GE(figures->back().median, 50'000.0 / (kBytesPerToken * kTokens));
  EXPECT_LT(figures->back().median, 1);
  EXPECT_EQ(figures->back().holds, false);
  const std::uint64_t now = bytes_passed(*server_).value();
  EXPECT_LT(measure(true, now).value().back().median, 0.1);
}

TEST_F(WrittenTest, EachKindOfFileHasItsOwnFigure) {
  start(kAllKinds);
  write_segment(1, kTokens);
  write_file(2, format::PartKind::kWindowRows, kTokens, kTokens * 10);
  write_file(3, format::PartKind::kPoint, 0, 1 << 19);
  write_file(4, format::PartKind::kPoint, 0, 1 << 19);
  const auto figures = measure();
  ASSERT_TRUE(figures.ok()) << figures.error().message;
  ASSERT_EQ(figures->size(), 4U);
  EXPECT_EQ((*figures)[0].median, 1);
  EXPECT_EQ((*figures)[0].holds, true);
  EXPECT_EQ((*figures)[1].name, "payload bytes written / bytes of new window rows, three turns");
  EXPECT_EQ((*figures)[1].median, 1);
  EXPECT_EQ((*figures)[1].holds, true);
  EXPECT_EQ((*figures)[2].name, "points written per request, three turns");
  EXPECT_EQ((*figures)[2].median, 0.5);
  EXPECT_EQ((*figures)[2].holds, std::nullopt);
  EXPECT_EQ((*figures)[3].unit, "MiB");
  EXPECT_EQ((*figures)[3].median, 0.25);
}

TEST_F(WrittenTest, WindowsStoredTwiceAreSeen) {
  start(kAllKinds);
  write_segment(1, kTokens);
  write_file(2, format::PartKind::kWindowRows, kTokens, kTokens * 20);
  EXPECT_EQ(measure().value()[1].holds, false);
}

TEST_F(WrittenTest, WhereThereAreNoRowsNoneAreMissed) {
  start(kPointsAlone);
  write_file(1, format::PartKind::kRows, kTokens, 0);
  write_file(2, format::PartKind::kWhole, 0, 1 << 19);
  const auto figures = measure();
  ASSERT_TRUE(figures.ok()) << figures.error().message;
  ASSERT_EQ(figures->size(), 2U);
  EXPECT_EQ(figures->front().name, "points written per request, three turns");
  EXPECT_EQ(figures->front().median, 0.25);
}

TEST_F(WrittenTest, FlagsThatMayForbidWritingHaveNoGoals) {
  NewRows rows{.directory = tier(), .title = "three turns", .tokens = kTokens, .requests = 4, .bytes_before = {}};
  rows.has_goals = false;
  const auto figures = measure_written(*server_, rows);
  ASSERT_TRUE(figures.ok()) << figures.error().message;
  EXPECT_EQ(figures->front().median, 0);
  EXPECT_EQ(figures->front().holds, std::nullopt);
}

}  // namespace
}  // namespace kvkeep::bench
