"""Pictures and sounds that end or fill a server that believes them: of any length, read differently by two decoders, of few
bytes and many pixels, with samples that are no numbers. Each is refused in its sender's protocol, or taken within bounds.
"""

import os
import resource
import struct
import threading
import zlib

from media_test import CHAT, KINDS, EachDialect, MediaCase, encoded, flac_silence, gif, memory_kib, mp3_silence, picture, png, png_chunk, reset_peak, sum_of_flac, text
from support import fresh_directory, main, model, reply_text, timings, user, words

MIB = 1 << 20


# ---- files ----

def wav(data, rate=16_000, kind=1, channels=1, bits=16, frame_bytes=None):
    frame_bytes = channels * bits // 8 if frame_bytes is None else frame_bytes
    coding = struct.pack("<HHIIHH", kind, channels, rate, rate * frame_bytes, frame_bytes, bits)
    return (b"RIFF" + struct.pack("<I", 36 + len(data)) + b"WAVEfmt " + struct.pack("<I", 16) + coding + b"data"
            + struct.pack("<I", len(data)) + data)


def floats(value):
    return wav(struct.pack("<f", 0.1) * 8_000 + struct.pack("<f", value) * 8_000, kind=3, bits=32)


def flac_head(samples, rate=16_000):
    packed = rate << 44 | 15 << 36 | samples
    return b"fLaC\x80\0\0\x22" + struct.pack(">HH", 4_096, 4_096) + bytes(6) + packed.to_bytes(8, "big") + bytes(16)


def hidden_flac(samples, rate=16_000):
    """A tag with a foot: one decoder begins ten bytes after the other, and finds FLAC where that finds a frame of MP3."""
    return b"ID3\x04\0\x10\0\0\0\0" + b"\xff\xfb\x10\xc0" + bytes(6) + flac_head(samples, rate) + bytes(200)


def mp3_index(frames):
    return mp3_silence(0, says=frames)


LOST_MP3_FRAME = b"\xff\xfb\x90\xc0\x80" + bytes(412)
"""Its samples begin in a frame before it, which is not there: a decoder takes the next frame for the first one."""


def wide_flac(frames, rate=655_350, channels=8):
    """Each frame of 65,535 equal samples in each channel takes a few bytes."""
    packed = rate << 44 | channels - 1 << 41 | 7 << 36 | frames * 65_535
    file = b"fLaC\x80\0\0\x22" + struct.pack(">HH", 65_535, 65_535) + bytes(6) + packed.to_bytes(8, "big") + bytes(16)
    for number in range(frames):
        frame = b"\xff\xf8\x70" + bytes([channels - 1 << 4]) + chr(number).encode() + struct.pack(">H", 65_534)
        frame += bytes([sum_of_flac(frame, 0x07, 8)]) + b"\0\1" * channels
        file += frame + struct.pack(">H", sum_of_flac(frame, 0x8005, 16))
    return file


def gif_of_one_pixel(width, height):
    """Its first frame is the corner; the decoder makes up the rest."""
    return gif(1).replace(struct.pack("<HH", 1, 1), struct.pack("<HH", width, height), 1)


def even_png(width, height, depth, colour, bytes_per_pixel):
    """All of its pixels are there, and equal."""
    packer = zlib.compressobj(9)
    row = bytes(1 + width * bytes_per_pixel)
    rows = b"".join(packer.compress(row) for _ in range(height)) + packer.flush()
    return (b"\x89PNG\r\n\x1a\n" + png_chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, depth, colour, 0, 0, 0))
            + png_chunk(b"IDAT", rows) + png_chunk(b"IEND", b""))


# ---- servers ----

def limit_memory(server, more):
    """The server may have so much more address space than it has now: an attempt to take more fails."""
    limit = (memory_kib(server, "VmSize") << 10) + more
    resource.prlimit(server.process.pid, resource.RLIMIT_AS, (limit, limit))


class Heard(MediaCase):
    heard_in_chat = EachDialect.heard_in_chat
    heard_in_responses = EachDialect.heard_in_responses
    completion = EachDialect.completion

    def start_to_hear(self, *flags):
        return self.server("-mm", model("--mmproj"), "--metrics", *flags, model_path=model())

    def metric(self, server, name):
        connection = server.connection()
        connection.request("GET", "/metrics")
        lines = connection.getresponse().read().decode().splitlines()
        connection.close()
        return sum(float(line.split()[-1]) for line in lines if line.startswith(name))


class Lengths(Heard):
    def test_sounds_of_any_length_are_heard(self):
        server = self.start_to_hear()
        for rate, samples in ((16_000, 1), (16_000, 2), (16_000, 100), (16_000, 199), (16_000, 201), (44_100, 3), (44_100, 100), (768_000, 60)):
            for ask in (self.heard_in_chat, self.heard_in_responses, self.completion):
                status, reply = ask(server, wav(bytes(2 * samples), rate), "What is said?")
                # At another rate a few samples may be less than one for the encoder.
                self.assertIn(status, (200,) if rate == 16_000 else (200, 400), (rate, samples, reply))
        self.assertEqual(self.heard_in_chat(server, wav(bytes(3_200)), "Is it alive?")[0], 200)
        self.assertEqual(self.heard_in_chat(server, wav(b""), "What is said?")[0], 400)

    def test_pictures_of_any_size_are_seen_or_refused(self):
        for kind in ("gemma3", "qwen3vl"):
            server = self.start(kind)
            for width, height in ((1, 1), (1, 256), (256, 1), (3, 700), (2_000, 8)):
                status, reply = self.chat(server, png(1, width, height), "What is it?")
                self.assertEqual(status, 200, (kind, width, height, reply))
            for width, height in ((1, 257), (8_000, 8), (1, 32_768)):
                status, reply = self.chat(server, png(1, width, height), "What is it?")
                self.assertEqual(status, 400, (kind, width, height, reply))
                self.assertIn("at most 256 times the shorter one", reply["error"]["message"])


class Memory(Heard):
    def assert_answered(self, server, files, expected):
        """Asks for each file in each way; all replies have the expected status."""
        for number, file in enumerate(files):
            for ask in (self.heard_in_chat, self.heard_in_responses, self.completion):
                status, reply = ask(server, file, "What is said?")
                self.assertEqual(status, expected, (number, reply))

    def test_files_that_two_decoders_read_differently_take_none(self):
        server = self.start_to_hear()
        self.assertEqual(self.heard_in_chat(server, wav(bytes(3_200)), "Is it alive?")[0], 200)
        files = [hidden_flac(samples, rate) for samples, rate in
                 ((50_000_000, 16_000), (500_000_000, 16_000), (100_000_000, 1_000), ((1 << 36) - 1, 1_000))]
        files += [wav(bytes(20_000_000), channels=16, bits=9, frame_bytes=1), wav(bytes(96_000), bits=12, frame_bytes=2),
                  wav(bytes(31_999)), flac_silence(600, says=1_800), mp3_silence(100, says=(1 << 32) - 1)[:500]]
        limit_memory(server, 1_024 * MIB)
        reset_peak(server)
        before = memory_kib(server, "VmHWM")
        self.assert_answered(server, files, 400)
        threads = [threading.Thread(target=self.heard_in_chat, args=(server, hidden_flac(300_000_000 + i), "?")) for i in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertLess(memory_kib(server, "VmHWM") - before, 192 << 10, "20 MB of samples, in base64 and out of it")
        self.assertEqual(self.heard_in_chat(server, wav(bytes(3_200)), "Is it alive?")[0], 200)

    def test_only_a_right_number_of_frames_is_believed_wherever_it_stands(self):
        server = self.start_to_hear()
        self.assertEqual(self.heard_in_chat(server, wav(bytes(3_200)), "Is it alive?")[0], 200)
        huge = mp3_index(200_000_000)
        files = [mp3_index(5) + huge + mp3_silence(40), LOST_MP3_FRAME * 3 + huge + mp3_silence(40), mp3_index(40) + huge + mp3_silence(40)]
        limit_memory(server, 1_024 * MIB)
        reset_peak(server)
        before = memory_kib(server, "VmHWM")
        self.assert_answered(server, files, 200)
        self.assertLess(memory_kib(server, "VmHWM") - before, 64 << 10)

    def test_samples_of_all_channels_have_a_bound(self):
        """33 seconds of 12 KB, which a decoder would make 173 million samples of."""
        server = self.start_to_hear("-c", 4_096)
        reset_peak(server)
        before = memory_kib(server, "VmHWM")
        for ask in (self.heard_in_chat, self.heard_in_responses, self.completion):
            status, reply = ask(server, wide_flac(330), "What is said?")
            self.assertEqual(status, 400, reply)
            self.assertIn("it is a sound of 173012400 samples in all channels: at most 172800000 are read", reply["error"]["message"])
        few = {"type": "input_audio", "input_audio": {"data": encoded(wide_flac(165)), "format": "flac"}}
        parts = [few] + [{**few, "input_audio": {"data": encoded(wide_flac(165 + i)), "format": "flac"}} for i in (1, 2, 3)]
        status, reply = self.send(server, CHAT, {"messages": [{"role": "user", "content": [*parts, text("?")]}], "max_tokens": 1})
        self.assertEqual(status, 400, reply)
        self.assertIn("with it the request's sounds have up to", reply["error"]["message"])
        self.assertLess(memory_kib(server, "VmHWM") - before, 64 << 10)

    def test_half_an_hour_of_sound_has_the_bound_that_is_documented(self):
        server = self.start_to_hear("-c", 16_384)
        self.assertEqual(self.heard_in_chat(server, wav(bytes(3_200)), "Is it alive?")[0], 200)
        limit_memory(server, 1_024 * MIB)
        reset_peak(server)
        before = memory_kib(server, "VmHWM")
        part = {"type": "input_audio", "input_audio": {"data": encoded(flac_silence(1_799)), "format": "flac"}}
        asked = {"messages": [{"role": "user", "content": [part, text("What is said?")]}]}
        status, reply = self.send(server, CHAT + "/input_tokens", asked)
        self.assertEqual(status, 200, reply)
        self.assertLess(memory_kib(server, "VmHWM") - before, 512 << 10)

    def test_pictures_of_few_bytes_and_many_pixels_have_a_bound(self):
        server = self.start("qwen3vl", "-c", 8_192)
        self.assertEqual(self.chat(server, png(1), "Is it alive?")[0], 200)
        limit_memory(server, 1_024 * MIB)
        reset_peak(server)
        before = memory_kib(server, "VmHWM")
        for what, file, reason in (("a GIF of a corner", gif_of_one_pixel(8_000, 8_000), "MiB to decode"),
                                   ("a GIF of a corner", gif_of_one_pixel(5_000, 5_000), "small part"),
                                   ("eight bytes a pixel", even_png(6_000, 6_000, 16, 6, 8), "MiB to decode")):
            status, reply = self.chat(server, file, "What is it?")
            self.assertEqual(status, 400, (what, reply))
            self.assertIn(reason, reply["error"]["message"], what)
        self.assertLess(memory_kib(server, "VmHWM") - before, 64 << 10)
        self.assertEqual(self.chat(server, even_png(4_000, 4_000, 16, 6, 8), "What is it?")[0], 200)
        self.assertLess(memory_kib(server, "VmHWM") - before, 448 << 10)

    def test_the_pictures_of_a_request_have_a_bound_of_pixels(self):
        server = self.start("qwen3vl")
        heads = [png(1, 7_900, 1).replace(struct.pack(">II", 7_900, 1), struct.pack(">II", 7_900, 7_900 - i)) for i in range(17)]
        status, reply = self.send(server, CHAT, {"messages": [{"role": "user", "content": [picture(head) for head in heads]}]})
        self.assertEqual(status, 400, reply)
        self.assertIn("'messages[0].content[16]': with it the request's pictures have 1059 million pixels", reply["error"]["message"])

    def test_a_file_that_is_too_large_is_not_read(self):
        directory = fresh_directory()
        with open(os.path.join(directory, "large.png"), "wb") as file:
            file.truncate(64 * MIB + 1)
        server = self.start("qwen3vl", "--media-path", directory)

        def read_bytes():
            with open(f"/proc/{server.process.pid}/io", encoding="utf-8") as counts:
                return int(counts.readline().split()[1])
        before = read_bytes()
        part = {"type": "image_url", "image_url": {"url": "file://large.png"}}
        self.assert_refused(400, self.ask, server, [{"role": "user", "content": [part, text("x")]}], contains="larger than 64 MiB")
        self.assertLess(read_bytes() - before, MIB)


class Numbers(Heard):
    def test_samples_that_are_no_numbers_are_refused_and_cost_others_nothing(self):
        server = self.start_to_hear()
        chat = [user(words(60, 1))]
        first = self.ask(server, chat)
        for value in (float("nan"), float("inf"), float("-inf"), 3e38):
            for ask, place in ((self.heard_in_chat, "messages[0].content[0]"), (self.heard_in_responses, "input[0].content[0]"),
                               (self.completion, "prompt")):
                status, reply = ask(server, floats(value), "What is said?")
                self.assertEqual(status, 400, (value, reply))
                self.assertIn(place, reply["error"]["message"])
                self.assertIn("its sample after 0.5", reply["error"]["message"])
        again = self.ask(server, chat)
        self.assertEqual(reply_text(again), reply_text(first))
        self.assertEqual(timings(again)["prompt_n"], 1, "the model's memory is as it was")
        self.assertEqual(self.metric(server, "kvkeep_failures_total"), 0)


if __name__ == "__main__":
    main()
