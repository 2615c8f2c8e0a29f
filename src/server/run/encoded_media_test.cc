// Which embeddings are at hand, without a scheduler.

#include "server/run/encoded_media.h"

#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "os/clock.h"
#include "server/run/inbox.h"
#include "server/run/media_fixture.h"
#include "server/run/queue_room.h"
#include "server/run/request.h"

namespace kvkeep::server {
namespace {

constexpr std::size_t kChunks = 3;

class EncodedMediaTest : public ::testing::Test {
 protected:
  EncodedMediaTest() { projector_.chunks = kChunks; }

  // A request for one file, of which each chunk comes right after the one before it.
  static std::unique_ptr<Request> request_of(std::uint8_t number) {
    auto request = std::make_unique<Request>();
    std::vector<TokenId> ids;
    ChunkSource source = picture(number);
    for (source.number = 0; source.number < kChunks; ++source.number) {
      request->job.media.push_back(source);
      const std::vector<TokenId> more = ids_of(source);
      request->effective.media.push_back({Position{} + ids.size(), Position{} + (ids.size() + more.size())});
      ids.insert(ids.end(), more.begin(), more.end());
    }
    ids.push_back(1);
    request->effective.tokens = std::move(ids);
    return request;
  }
  // Returns the slice of the request's chunk with that number, or of the text after its last one.
  Result<MediaSlice> slice(Request& request, std::size_t chunk) {
    const std::vector<TokenRange>& chunks = request.effective.media;
    const Position at = chunk < chunks.size() ? chunks[chunk].begin : chunks.back().end;
    for (int i = 0; i < 20'000; ++i) {
      Result<MediaSlice> found = media_.find(request, at);
      if (!found || !request.must_encode) return found;
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    return io_error("it is encoded for ever");
  }
  bool has_chunk(Request& request, std::size_t chunk) {
    const auto found = slice(request, chunk);
    return found.ok() && found->chunk() != nullptr;
  }
  static void drop_bytes(Request& request) {
    for (ChunkSource& source : request.job.media) {
      source.file = std::make_shared<const PromptFile>(PromptFile{source.file->hash, nullptr, source.file->place});
    }
  }

  CountingProjector projector_;
  Inbox inbox_{{.queue = 10}};
  static constexpr ByteCount kOneFile{kChunks * 40 * sizeof(float)};
  EncodedMedia media_{&projector_, os::real_clock(), inbox_, kOneFile};
};

// They encode in turns: each makes the other one's embeddings leave.
TEST_F(EncodedMediaTest, ARequestHoldsItsFileUntilTheLastChunk) {
  const auto first = request_of(1);
  const auto second = request_of(2);
  for (std::size_t chunk = 0; chunk < kChunks; ++chunk) {
    EXPECT_TRUE(has_chunk(*first, chunk)) << chunk;
    EXPECT_TRUE(has_chunk(*second, chunk)) << chunk;
  }
  EXPECT_EQ(projector_.encoded, 2) << "each file once";
}

TEST_F(EncodedMediaTest, AfterTheLastChunkNothingIsHeld) {
  const auto first = request_of(1);
  EXPECT_TRUE(has_chunk(*first, kChunks - 1));
  EXPECT_EQ(first->encoded.size(), 1U);
  EXPECT_TRUE(slice(*first, kChunks).ok());
  EXPECT_TRUE(first->encoded.empty());
}

TEST_F(EncodedMediaTest, EmbeddingsOfAnotherRequestAreHeldToo) {
  const auto first = request_of(1);
  const auto same = request_of(1);
  EXPECT_TRUE(has_chunk(*first, 0));
  EXPECT_TRUE(has_chunk(*same, 0));
  const auto other = request_of(2);
  EXPECT_TRUE(has_chunk(*other, 0));
  EXPECT_TRUE(has_chunk(*same, 1));
  EXPECT_EQ(projector_.encoded, 2);
}

// Neither of what is at hand nor of what is under way: the time that a request takes would tell.
TEST_F(EncodedMediaTest, TenantsLearnNothingOfEachOthersFiles) {
  const auto mine = request_of(1);
  const auto again = request_of(1);
  const auto theirs = request_of(1);
  theirs->job.tenant.bytes[0] = 7;
  projector_.is_slow = true;
  for (Request* each : {mine.get(), again.get(), theirs.get()}) {
    EXPECT_TRUE(media_.find(*each, Position{}).ok());
    EXPECT_TRUE(each->must_encode);
  }
  EXPECT_EQ(mine->encoding, again->encoding);
  EXPECT_NE(mine->encoding, theirs->encoding);
  projector_.is_slow = false;
  EXPECT_TRUE(has_chunk(*mine, 0));
  EXPECT_TRUE(has_chunk(*theirs, 0));
  EXPECT_EQ(projector_.encoded, 2) << "although it is at hand for the other one";
  const auto later = request_of(1);
  later->job.tenant = theirs->job.tenant;
  EXPECT_TRUE(has_chunk(*later, 0));
  EXPECT_EQ(projector_.encoded, 2) << "within a tenant it is shared";
}

TEST_F(EncodedMediaTest, ChunksBeforeTheFirstWantedOneAreNotEncoded) {
  const auto first = request_of(1);
  EXPECT_TRUE(has_chunk(*first, 1));
  EXPECT_TRUE(has_chunk(*first, 2));
  EXPECT_EQ(projector_.encoded, 1);
  EXPECT_EQ(projector_.encoded_chunks, 2);
  const auto same = request_of(1);
  EXPECT_TRUE(has_chunk(*same, 2)) << "it is at hand";
  EXPECT_EQ(projector_.encoded, 1);
  EXPECT_TRUE(has_chunk(*same, 0)) << "its rows were lost meanwhile";
  EXPECT_EQ(projector_.encoded_chunks, 2 + 3);
  for (std::size_t chunk = 0; chunk < kChunks; ++chunk) {
    EXPECT_TRUE(has_chunk(*request_of(1), chunk)) << "the longer encoding takes the place of the shorter";
  }
  EXPECT_EQ(projector_.encoded, 2);
}

TEST_F(EncodedMediaTest, AFileLargerThanAllRoomIsHeldByItsRequestOnly) {
  EncodedMedia small(&projector_, os::real_clock(), inbox_, ByteCount{kOneFile.value() - 1});
  const auto first = request_of(1);
  const auto encode = [&](Request& request) {
    do {
      EXPECT_TRUE(small.find(request, Position{}).ok());
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    } while (request.must_encode);
  };
  encode(*first);
  encode(*first);
  EXPECT_EQ(projector_.encoded, 1);
  encode(*request_of(1));
  EXPECT_EQ(projector_.encoded, 2);
}

TEST_F(EncodedMediaTest, AnEncodingUnderWayIsSharedByThoseWhoWantLaterChunks) {
  projector_.is_slow = true;
  const auto middle = request_of(1);
  const auto end = request_of(1);
  const auto beginning = request_of(1);
  const auto begin = [&](Request& request, std::size_t chunk) {
    EXPECT_TRUE(media_.find(request, request.effective.media[chunk].begin).ok());
    EXPECT_TRUE(request.must_encode);
  };
  begin(*middle, 1);
  begin(*end, 2);
  begin(*beginning, 0);
  EXPECT_EQ(middle->encoding, end->encoding);
  EXPECT_NE(middle->encoding, beginning->encoding);
  begin(*middle, 0);
  EXPECT_EQ(middle->encoding, beginning->encoding) << "it has to go back";
  projector_.is_slow = false;
  EXPECT_TRUE(has_chunk(*middle, 0));
  EXPECT_TRUE(has_chunk(*end, 2));
}

TEST_F(EncodedMediaTest, AFileThatIsNotKeptIsSentAgain) {
  const auto first = request_of(1);
  drop_bytes(*first);
  const auto lost = slice(*first, 0);
  ASSERT_FALSE(lost.ok());
  EXPECT_EQ(lost.error().kind, ErrorKind::kBusy);
  EXPECT_EQ(lost.error().message,
            "'messages[0].content[1]': its state was lost, and the file had to make room for those of other requests: "
            "send the request again");
  const auto other = request_of(2);
  EXPECT_TRUE(has_chunk(*other, 0));
  drop_bytes(*other);
  EXPECT_TRUE(has_chunk(*other, 1)) << "it was encoded before";
}

}  // namespace
}  // namespace kvkeep::server
