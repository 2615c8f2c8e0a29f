// Sounds as their decoder gets them: whatever a file has besides, or says of itself, the decoder finds what was
// counted.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "engine/media/media_file.h"
#include "engine/media/media_files_fixture.h"

namespace kvkeep::engine::media {
namespace {

using Bytes = std::vector<std::byte>;

Bytes joined(std::initializer_list<Bytes> parts) {
  Bytes all;
  for (const Bytes& part : parts) all.insert(all.end(), part.begin(), part.end());
  return all;
}

Bytes text_of(std::string_view words) {
  const ByteSpan bytes = std::as_bytes(std::span(words));
  return {bytes.begin(), bytes.end()};
}

double seconds_of(const Bytes& file) {
  const auto head = read_head(file, {});
  EXPECT_TRUE(head.ok()) << (head.ok() ? "" : head.error().message);
  return head.ok() ? head->seconds : 0;
}

std::string why_refused(const Bytes& file) {
  const auto head = read_head(file, {});
  return head ? "it is accepted" : head.error().message;
}

// ---- WAV ----

struct Coding {
  std::uint32_t kind = 1;
  std::uint32_t channels = 1;
  std::uint32_t bits = 16;
  std::uint32_t frame_bytes = 2;
};

Bytes wav_coding(const Coding& coding) {
  FileWriter part;
  part.text("fmt ");
  part.little(16, 4);
  part.little(coding.kind, 2);
  part.little(coding.channels, 2);
  part.little(16'000, 4);
  part.little(16'000 * coding.frame_bytes, 4);
  part.little(coding.frame_bytes, 2);
  part.little(coding.bits, 2);
  return part.take();
}

Bytes wav_part(std::string_view name, const Bytes& content) {
  FileWriter part;
  part.text(name);
  part.little(static_cast<std::uint32_t>(content.size()), 4);
  part.add(content);
  return part.take();
}

Bytes wav_of(std::initializer_list<Bytes> parts) {
  return joined({text_of("RIFF\x01\x02\x03\x04WAVE"), joined(parts)});
}

Bytes wav_of(const Coding& coding, std::size_t bytes) {
  return wav_of({wav_coding(coding), wav_part("data", Bytes(bytes))});
}

// A decoder that takes whole bytes for a sample would find twice as many in these as one that takes bits.
TEST(WavFile, SamplesHaveOneSize) {
  EXPECT_EQ(seconds_of(wav_of(Coding{}, 32'000)), 1);
  EXPECT_EQ(seconds_of(wav_of({.channels = 2, .frame_bytes = 4}, 32'000)), 0.5);
  EXPECT_EQ(seconds_of(wav_of({.bits = 24, .frame_bytes = 3}, 48'000)), 1);
  EXPECT_EQ(seconds_of(wav_of({.kind = 3, .bits = 64, .frame_bytes = 8}, 128'000)), 1);
  EXPECT_EQ(seconds_of(wav_of({.kind = 6, .bits = 8, .frame_bytes = 1}, 16'000)), 1);
  EXPECT_EQ(why_refused(wav_of({.bits = 12}, 32'000)), "samples of 12 bits are not decoded in a WAV");
  EXPECT_EQ(why_refused(wav_of({.bits = 0, .frame_bytes = 0}, 32'000)), "samples of 0 bits are not decoded in a WAV");
  EXPECT_EQ(why_refused(wav_of({.kind = 3}, 32'000)), "samples of 16 bits are not decoded in a WAV");
  EXPECT_EQ(why_refused(wav_of({.kind = 7}, 32'000)), "samples of 16 bits are not decoded in a WAV");
  EXPECT_EQ(why_refused(wav_of({.channels = 16, .bits = 9, .frame_bytes = 1}, 32'000)),
            "samples of 9 bits are not decoded in a WAV");
  EXPECT_EQ(why_refused(wav_of({.frame_bytes = 1}, 32'000)), "its head has two sizes for its samples");
  EXPECT_EQ(why_refused(wav_of({.channels = 2}, 32'000)), "its head has two sizes for its samples");
  EXPECT_EQ(why_refused(wav_of(Coding{}, 31'999)), "its last sample is not whole");
  EXPECT_EQ(why_refused(wav_of(Coding{}, 0)), "it has no samples");
  EXPECT_EQ(
      why_refused(wav_of({wav_coding({}), wav_coding({.bits = 8, .frame_bytes = 1}), wav_part("data", Bytes(8))})),
      "it says twice how its samples are coded");
  EXPECT_EQ(why_refused(wav_of({wav_part("data", Bytes(8)), wav_coding({})})),
            "WAV files of kind 0 are not decoded: PCM, float and G.711");
}

TEST(WavFile, TheDecoderGetsItsSamplesOnly) {
  const Bytes plain = make_wav(100);
  const Bytes data(plain.begin() + 44, plain.end());
  EXPECT_EQ(plain_sound(plain), plain);
  EXPECT_EQ(plain_sound(
                wav_of({wav_part("JUNK", text_of("fLaC")), wav_coding({}), wav_part("fact", Bytes(4, std::byte{0xFF})),
                        wav_part("data", data), wav_part("data", data), text_of("and more")})),
            plain);
  FileWriter extensible;
  extensible.text("fmt ");
  extensible.little(40, 4);
  extensible.add(ByteSpan(wav_coding({.kind = 0xFFFE})).subspan(8));
  extensible.little(22, 2);
  extensible.little(16, 2);
  extensible.little(4, 4);
  extensible.little(1, 2);
  extensible.add(Bytes(14));
  EXPECT_EQ(plain_sound(wav_of({extensible.take(), wav_part("data", data)})), plain);
}

// ---- FLAC ----

TEST(FlacFile, ItsSamplesAreThoseOfItsFrames) {
  const Bytes flac = make_flac(make_wav(150'000));  // numbers of frames have one byte, then two
  EXPECT_EQ(seconds_of(flac), 150'000.0 / 16'000);
  EXPECT_EQ(plain_sound(flac), flac);
  Bytes promises = flac;
  promises[25] ^= std::byte{1};
  EXPECT_EQ(why_refused(promises), "its head promises other samples than it has");
  Bytes bent = flac;
  bent[bent.size() / 2] ^= std::byte{1};
  EXPECT_EQ(why_refused(bent), "its head promises other samples than it has") << "a frame whose checksum is wrong";
  Bytes small = flac;
  small[10] = std::byte{0x03};  // frames of at most 0x03FF samples: these have one more
  small[11] = std::byte{0xFF};
  EXPECT_EQ(why_refused(small), "it has no samples");
  EXPECT_EQ(seconds_of(joined({flac, text_of("TAG and more")})), seconds_of(flac));
}

TEST(FlacFile, AHeadThatDoesNotKnowTheSamplesIsToldThem) {
  const Bytes flac = make_flac(make_wav(5'000));
  Bytes piped = flac;
  for (std::size_t at = 22; at < 26; ++at) piped[at] = std::byte{0};
  EXPECT_EQ(seconds_of(piped), 5'000.0 / 16'000);
  EXPECT_EQ(plain_sound(piped), flac);
}

TEST(FlacFile, TheDecoderGetsNoOtherPart) {
  const Bytes flac = make_flac(make_wav(5'000));
  Bytes first(flac.begin(), flac.begin() + 42);
  first[4] = std::byte{0};  // not the last part
  FileWriter picture;
  picture.big(0x86000000 + 1'000, 4);
  picture.add(Bytes(1'000, std::byte{0xFF}));
  EXPECT_EQ(plain_sound(joined({first, picture.take(), Bytes(flac.begin() + 42, flac.end())})), flac);
}

// ---- MP3 ----

Bytes id3(std::uint32_t bytes, bool has_foot) {
  FileWriter tag;
  tag.text("ID3\x04");
  tag.byte(0);
  tag.byte(has_foot ? 0x10 : 0);
  tag.big(bytes, 4);
  tag.add(Bytes(bytes));
  if (has_foot) tag.add(Bytes(10, std::byte{'3'}));
  return tag.take();
}

TEST(Mp3File, TheDecoderGetsItsFramesOnly) {
  const Bytes frames = make_mp3(20);
  EXPECT_EQ(plain_sound(frames), frames);
  for (const bool has_foot : {false, true}) EXPECT_EQ(plain_sound(joined({id3(100, has_foot), frames})), frames);
  EXPECT_EQ(plain_sound(joined({id3(10, false), id3(20, true), frames, Bytes(100'000), text_of("TAG")})), frames);
  EXPECT_EQ(plain_sound(joined({frames, text_of("damage"), frames})), joined({frames, frames}));
  EXPECT_EQ(plain_sound(joined({frames, Bytes(frames.begin(), frames.begin() + 200)})), frames) << "a part of a frame";
  EXPECT_EQ(seconds_of(joined({frames, Bytes(100'000)})), seconds_of(frames));
}

// A decoder of FLAC that knows of the tag's foot begins ten bytes after one of MP3 that does not.
TEST(Mp3File, ATagHidesNoOtherSound) {
  Bytes tag = id3(0, true);
  tag.resize(10);
  const Bytes bomb = joined({tag, make_mp3(1), make_flac_head(16'000, 500'000'000, 200)});
  Bytes inside = joined({tag, Bytes(10), make_flac_head(16'000, 500'000'000, 200)});
  EXPECT_EQ(why_refused(bomb), "no frame of MP3 is where its tags end");
  std::copy_n(make_mp3(1).begin(), 4, inside.begin() + 10);
  EXPECT_EQ(why_refused(inside), "no frame of MP3 is where its tags end");
  EXPECT_EQ(why_refused(joined({id3(7, false), make_flac(make_wav(100))})), "no frame of MP3 is where its tags end");
}

TEST(Mp3File, FramesOfOtherKindsAreNotIts) {
  const Bytes frames = make_mp3(20);
  const auto changed = [&](std::size_t at, std::uint32_t value) {
    Bytes other = make_mp3(2);
    other[at] = other[417 + at] = static_cast<std::byte>(value);
    return other;
  };
  EXPECT_EQ(plain_sound(joined({frames, changed(1, 0xF3), changed(2, 0x94), frames})), joined({frames, frames}));
  EXPECT_EQ(why_refused(changed(2, 0x00)), "no frame of MP3 is where its tags end") << "a frame of open size";
  EXPECT_EQ(why_refused(changed(1, 0xE5)), "no frame of MP3 is where its tags end") << "MPEG 2.5, layer II";
}

Bytes changed_frame(Bytes frame, std::size_t at, ByteSpan bytes) {
  std::ranges::copy(bytes, frame.begin() + static_cast<std::ptrdiff_t>(at));
  return frame;
}

// The first frame may say how many there are, and decoders take memory for so many.
TEST(Mp3File, AnIndexIsKeptOnlyIfItIsRight) {
  const Bytes frames = make_mp3(20);
  const auto index = make_mp3_index;
  for (const std::string_view name : {"Xing", "Info"}) {
    EXPECT_EQ(plain_sound(joined({index(name, 20), frames})), joined({index(name, 20), frames}));
    EXPECT_EQ(plain_sound(joined({index(name, 0xFFFFFFFF), frames})), frames);
    EXPECT_EQ(seconds_of(joined({index(name, 0xFFFFFFFF), frames})), seconds_of(frames));
  }
  EXPECT_EQ(plain_sound(joined({index("VBRI", 20), frames})), frames);
  EXPECT_EQ(why_refused(index("Xing", 1)), "it has no frame of MP3");
}

// A decoder takes for the first frame the first one of which it can make samples.
TEST(Mp3File, NoOtherIndexIsKept) {
  const Bytes frames = make_mp3(20);
  const Bytes huge = make_mp3_index("Info", 200'000'000);
  // Its samples begin in a frame before it, which is not there.
  const Bytes lost = changed_frame(make_mp3(1), 4, Bytes(1, std::byte{0x80}));
  EXPECT_EQ(plain_sound(joined({make_mp3_index("Info", 5), huge, frames})), frames);
  EXPECT_EQ(plain_sound(joined({make_mp3_index("Xing", 20), huge, frames})),
            joined({make_mp3_index("Xing", 20), frames}));
  EXPECT_EQ(plain_sound(joined({huge, make_mp3_index("Xing", 20), frames})), frames);
  EXPECT_EQ(plain_sound(joined({lost, lost, huge, huge, frames})), joined({lost, lost, frames}));
  EXPECT_EQ(plain_sound(joined({lost, text_of("damage"), huge, frames, huge})), joined({lost, frames}));
  EXPECT_EQ(seconds_of(joined({frames, huge, frames})), seconds_of(joined({frames, frames})));
  EXPECT_EQ(why_refused(joined({huge, huge})), "it has no frame of MP3");
  // Where no decoder looks, the name is sound.
  const Bytes elsewhere = changed_frame(make_mp3(1), 9, ByteSpan(huge).subspan(21, 12));
  EXPECT_EQ(plain_sound(joined({elsewhere, frames})), joined({elsewhere, frames}));
  EXPECT_EQ(plain_sound(joined({changed_frame(huge, 9, ByteSpan(make_mp3_index("Xing", 20)).subspan(21, 12)), frames})),
            frames)
      << "the right number stands where no decoder looks";
}

TEST(Mp3File, AnIndexIsFoundWhereDecodersLook) {
  struct Kind {
    std::uint32_t head;
    std::size_t bytes;
    std::size_t place;
  };
  for (const Kind& kind :
       {Kind{0xFFFB90C0, 417, 21}, Kind{0xFFFA90C0, 417, 23}, Kind{0xFFFB9000, 417, 36}, Kind{0xFFFA9000, 417, 38},
        Kind{0xFFF390C0, 261, 13}, Kind{0xFFF290C0, 261, 15}, Kind{0xFFF39000, 261, 21}, Kind{0xFFE39000, 522, 21},
        Kind{0xFFFD9000, 522, 36}, Kind{0xFFFF90C0, 312, 21}}) {
    FileWriter head;
    head.big(kind.head, 4);
    Bytes frame = head.take();
    frame.resize(kind.bytes);
    const Bytes index = changed_frame(frame, kind.place, ByteSpan(make_mp3_index("Info", 9)).subspan(21, 12));
    const Bytes sound = joined({frame, frame});
    EXPECT_EQ(plain_sound(joined({index, sound})), sound) << std::hex << kind.head;
    EXPECT_EQ(plain_sound(joined({sound, index, sound})), joined({sound, sound})) << std::hex << kind.head;
  }
}

// A decoder cuts off a tag, also one that is in the last frame, and searches the rest of that frame for others.
TEST(Mp3File, ItsEndIsNoTag) {
  const Bytes frames = make_mp3(3);
  const std::string reason = "its last frame ends like a tag of a music player";
  EXPECT_EQ(why_refused(changed_frame(frames, frames.size() - 128, text_of("TAG"))), reason);
  EXPECT_EQ(why_refused(changed_frame(frames, frames.size() - 32, text_of("APETAGEX"))), reason);
  for (const std::size_t place : {127U, 129U}) {
    EXPECT_EQ(why_refused(changed_frame(frames, frames.size() - place, text_of("TAG"))), "it is accepted");
  }
  EXPECT_EQ(plain_sound(joined({frames, text_of("TAG"), Bytes(125)})), frames);
  EXPECT_EQ(plain_sound(joined({frames, text_of("APETAGEX"), Bytes(24)})), frames);
}

// ---- samples ----

TEST(SoundSamples, AreNumbers) {
  EXPECT_TRUE(check_samples(std::vector<float>{-1, 0, 1, 32'768, -2'147'483'648.0F}, 16'000).ok());
  for (const float bad : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity(),
                          -std::numeric_limits<float>::infinity(), 3e38F, -2'147'483'904.0F}) {
    std::vector<float> samples(16'000);
    samples[8'000] = bad;
    const Status refused = check_samples(samples, 16'000);
    ASSERT_FALSE(refused.ok()) << bad;
    EXPECT_EQ(refused.error().kind, ErrorKind::kDamaged);
    EXPECT_TRUE(refused.error().message.starts_with("its sample after 0.5")) << refused.error().message;
  }
}

TEST(SoundSamples, FillWholeWindows) {
  constexpr std::size_t kPart = 30 * 16'000;
  constexpr std::size_t kWindow = 1'600;
  for (const std::size_t parts : {0U, 1U, 3U}) {
    for (const std::size_t last : {std::size_t{1}, std::size_t{2}, kWindow - 1, kWindow}) {
      EXPECT_EQ(whole_windows(parts * kPart + last, 16'000), parts * kPart + kWindow);
    }
    EXPECT_EQ(whole_windows(parts * kPart + kWindow + 1, 16'000), parts * kPart + kWindow + 1);
    EXPECT_EQ(whole_windows(parts * kPart, 16'000), parts * kPart);
  }
}

}  // namespace
}  // namespace kvkeep::engine::media
