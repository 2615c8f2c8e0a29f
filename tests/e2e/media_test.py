"""Pictures and sound from outside, with generated projectors: each is encoded once, in whatever dialect it comes again,
over turns, branches, restarts and kills; hostile files are refused; no text can stand for a picture.
"""

import base64
import http.server
import json
import os
import re
import select
import struct
import threading
import time
import zlib

from flag_case import covers
from support import (ServerCase, assistant, fresh_directory, fresh_path, main, model, reply_text, run_program, serve_command, system,
                     timings, user, words)

CHAT = "/v1/chat/completions"
KINDS = {"gemma3": ("--arch", "gemma3"), "qwen3vl": ("--arch", "qwen3vl"), "qwen35": ("--arch", "qwen35"),
         "mamba2": ("--arch", "mamba2"), "deepseek4": ("--arch", "deepseek4")}
# Models of these kinds have no projector of their own for pictures; they take that of any as wide.
SEES_THROUGH = {"mamba2": "gemma3", "deepseek4": "gemma3"}


EIGHT_BITS = ("-ctk", "q8_0", "-ctv", "q8_0", "-fa", "on")
MOST_AFTER_A_POINT = 8  # tokens between a prompt's last point and its end


# ---- files ----

def png_chunk(kind, data):
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def png(seed, width=64, height=64):
    rows = b"".join(b"\0" + bytes((x * 3 + y * 5 + seed * (7 + x * y)) % 256 for x in range(3 * width)) for y in range(height))
    return (b"\x89PNG\r\n\x1a\n" + png_chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0))
            + png_chunk(b"IDAT", zlib.compress(rows)) + png_chunk(b"IEND", b""))


def huge_png():
    return (b"\x89PNG\r\n\x1a\n" + png_chunk(b"IHDR", struct.pack(">IIBBBBB", 30_000, 30_000, 8, 2, 0, 0, 0))
            + png_chunk(b"IDAT", zlib.compress(b"\0")) + png_chunk(b"IEND", b""))


def black_bmp(path, seed, side):
    """Writes a picture of 3 bytes a pixel, almost all black, that takes no room on disk."""
    size = 3 * side * side
    with open(path, "wb") as file:
        file.write(b"BM" + struct.pack("<IHHI", 54 + size, 0, 0, 54)
                   + struct.pack("<IiiHHIIiiII", 40, side, side, 1, 24, 0, size, 0, 0, 0, 0) + bytes([seed]))
        file.truncate(54 + size)


def gif(frames):
    frame = b"\x2c" + struct.pack("<HHHHB", 0, 0, 1, 1, 0) + b"\x02\x02\x44\x01\x00"
    return b"GIF89a" + struct.pack("<HHBBB", 1, 1, 0x80, 0, 0) + b"\0\0\0\xff\xff\xff" + frame * frames + b"\x3b"


def wav(seed, samples=4_000, times=1):
    data = times * b"".join(struct.pack("<h", (i * (37 + seed)) % 20_000 - 10_000) for i in range(samples))
    return (b"RIFF" + struct.pack("<I", 36 + len(data)) + b"WAVEfmt " + struct.pack("<IHHIIHH", 16, 1, 1, 16_000, 32_000, 2, 16)
            + b"data" + struct.pack("<I", len(data)) + data)


def jpeg_head(width, height, scans=1):
    head = b"\xff\xd8\xff\xc0" + struct.pack(">HBHHBBBB", 11, 8, height, width, 1, 1, 0x11, 0)
    return head + scans * (b"\xff\xda" + struct.pack(">HBBBBBB", 8, 1, 1, 0, 0, 63, 0) + b"\0") + b"\xff\xd9"


def jpeg(side):
    """Grey: each block has a code of one bit for its first value and one for the end of the others."""
    def codes(table, *values):
        return b"\xff\xc4" + struct.pack(">HB", 19 + len(values), table) + bytes([len(values)]) + bytes(15) + bytes(values)
    blocks = (side // 8) ** 2
    return (b"\xff\xd8\xff\xdb\0\x43\0" + b"\x01" * 64 + b"\xff\xc0" + struct.pack(">HBHHBBBB", 11, 8, side, side, 1, 1, 0x11, 0)
            + codes(0, 0) + codes(0x10, 0) + b"\xff\xda" + struct.pack(">HBBBBBB", 8, 1, 1, 0, 0, 63, 0) + bytes(2 * blocks // 8)
            + b"\xff\xd9")


def hostile_pictures():
    black = zlib.compress(bytes(100 << 20), 9)
    bomb = (b"\x89PNG\r\n\x1a\n" + png_chunk(b"IHDR", struct.pack(">IIBBBBB", 8, 8, 8, 2, 0, 0, 0)) + png_chunk(b"IDAT", black)
            + png_chunk(b"IEND", b""))
    bmp = b"BM" + struct.pack("<IHHIIiiHHIIiiII", 200, 0, 0, 54, 40, 30_000, 30_000, 1, 24, 0, 0, 0, 0, 0, 0)
    webp = b"RIFF" + struct.pack("<I", 40) + b"WEBPVP8X" + struct.pack("<I", 10) + b"\0\0\0\0" + 2 * b"\x2f\x75\0" + bytes(40)
    return {"a picture of 900 megapixels": huge_png(), "half a picture": png(1)[:60], "10,000 frames": gif(10_000),
            "no picture": b"hello", "nothing": b"", "100 MiB of pixels for 64": bomb, "a JPEG of 900 megapixels": jpeg_head(30_000, 30_000),
            "a JPEG of 10,000 scans": jpeg_head(64, 64, 10_000), "half a JPEG": jpeg_head(64, 64)[:9],
            "a BMP of 900 megapixels": bmp, "a BMP without pixels": bmp[:18] + struct.pack("<ii", 64, 64) + bmp[26:],
            "a WebP of 900 megapixels": webp, "half a WebP": webp[:20], "a JPEG that was cut": jpeg(256)[:-40],
            "a JPEG without pixels": jpeg_head(64, 64), "a GIF that was cut": gif(1)[:-4],
            "a GIF of 64 x 64 with one pixel": gif(1).replace(struct.pack("<HHHHB", 0, 0, 1, 1, 0), struct.pack("<HHHHB", 0, 0, 64, 64, 0))
            .replace(b"GIF89a\1\0\1\0", b"GIF89a\x40\0\x40\0"), "a PNG without its end": png(1)[:-12]}


def wav_head(rate, size, kind=1):
    return b"RIFF" + struct.pack("<I", 1 << 31) + b"WAVEfmt " + struct.pack("<IHHIIHH", 16, kind, 1, rate, rate, 1, 8) + b"data" + struct.pack("<I", size)


def flac_head(samples, rate=16_000):
    packed = rate << 44 | 15 << 36 | samples
    return b"fLaC\x80\0\0\x22" + struct.pack(">HH", 4_096, 4_096) + bytes(6) + packed.to_bytes(8, "big") + bytes(16)


def sum_of_flac(data, polynomial, bits):
    total = 0
    for byte in data:
        total ^= byte << (bits - 8)
        for _ in range(8):
            total = ((total << 1) ^ (polynomial if total >> (bits - 1) & 1 else 0)) & ((1 << bits) - 1)
    return total


def flac_silence(seconds, says=None, rate=16_000):
    """Each frame of 65,535 samples, four seconds, takes 14 bytes. `says`: how many seconds its head promises."""
    said = rate * (seconds if says is None else says)
    file = bytearray(flac_head(said, rate).replace(struct.pack(">HH", 4_096, 4_096), struct.pack(">HH", 65_535, 65_535), 1))
    for number, begin in enumerate(range(0, rate * seconds, 65_535)):
        frame = b"\xff\xf8\x70\x08" + chr(number).encode() + struct.pack(">H", min(65_535, rate * seconds - begin) - 1)
        frame += bytes([sum_of_flac(frame, 0x07, 8)]) + b"\0\0\0"
        file += frame + struct.pack(">H", sum_of_flac(frame, 0x8005, 16))
    return bytes(file)


def mp3_silence(frames, says=None):
    """Of MPEG 1, layer III, 128 kbit/s, 44,100 samples a second, one channel. `says`: how many frames there are."""
    frame = b"\xff\xfb\x90\xc0" + bytes(413)
    first = b"" if says is None else b"\xff\xfb\x90\xc0" + bytes(17) + b"Xing" + struct.pack(">II", 1, says) + bytes(384)
    return first + frames * frame


def hostile_sounds():
    return {"two hours in 25 KB": flac_silence(7_200), "35 minutes of MP3": 81_000 * (b"\xff\xfb\x10\xc0" + bytes(100)),
           "4 GiB of samples that are not there": wav_head(16_000, (1 << 32) - 1) + bytes(100), "half a WAV": wav(1)[:2_000],
            "an hour": wav_head(1_000, 3_600_000) + bytes(3_600_000), "a WAV of an unknown kind": wav_head(16_000, 100, 99) + bytes(100),
            "no sample": wav_head(16_000, 0), "2^36 samples in 60 bytes": flac_head((1 << 36) - 1), "a FLAC without sound": flac_head(8_000),
            "half a FLAC head": flac_head(8_000)[:20], "no MP3": b"ID3\x04\0\0\x7f\x7f\x7f\x7f" + bytes(100), "no sound": b"hello", "nothing": b""}


# ---- memory of a server ----

def memory_kib(server, field):
    with open(f"/proc/{server.process.pid}/status", encoding="utf-8") as file:
        return int(re.search(rf"{field}:\s+(\d+) kB", file.read()).group(1))


def reset_peak(server):
    """From now on, VmHWM is the most since now."""
    with open(f"/proc/{server.process.pid}/clear_refs", "w") as file:
        file.write("5")


def encoded(file):
    return base64.b64encode(file).decode()


def data_url(file):
    return "data:image/png;base64," + encoded(file)


# ---- messages ----

def text(content):
    return {"type": "text", "text": content}


def picture(file):
    return {"type": "image_url", "image_url": {"url": data_url(file)}}


def shows(*parts):
    return {"role": "user", "content": [text(part) if isinstance(part, str) else picture(part) for part in parts]}


def block(file):
    return {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": encoded(file)}}


class Dialects:
    """A question about a picture in each dialect: status and parsed reply."""

    def send(self, server, path, body, headers=()):
        connection = server.connection()
        try:
            connection.request("POST", path, json.dumps(body), {"Content-Type": "application/json", **dict(headers)})
            reply = connection.getresponse()
            return reply.status, json.loads(reply.read())
        finally:
            connection.close()

    def chat(self, server, file, question):
        return self.send(server, CHAT, {"messages": [shows(file, question)], "max_tokens": 4, "temperature": 0})

    def messages(self, server, file, question):
        body = {"model": "m", "max_tokens": 4, "temperature": 0,
                "messages": [{"role": "user", "content": [block(file), text(question)]}]}
        return self.send(server, "/v1/messages", body, {"anthropic-version": "2023-06-01"}.items())

    def responses(self, server, file, question):
        content = [{"type": "input_image", "image_url": data_url(file)}, {"type": "input_text", "text": question}]
        return self.send(server, "/v1/responses", {"input": [{"role": "user", "content": content}], "max_output_tokens": 4,
                                                   "temperature": 0})

    DIALECTS = ("chat", "messages", "responses")


class MediaCase(ServerCase, Dialects):
    def start(self, kind, *flags):
        projector = model("--mmproj", *KINDS[SEES_THROUGH.get(kind, kind)])
        return self.server("--mmproj", projector, *flags, model_path=model(*KINDS[kind]))

    def encoded_files(self, server):
        connection = server.connection()
        connection.request("GET", "/metrics")
        lines = connection.getresponse().read().decode()
        connection.close()
        return int(float(re.search(r"^kvkeep_media_encoded_total (\S+)", lines, re.M).group(1)))

    def ask(self, server, messages, **fields):
        return server.post(CHAT, {"messages": messages, "max_tokens": 12, "temperature": 0, **fields})


class Reuse(MediaCase):
    def check_turns(self, kind, *flags):
        """Four turns, a new picture in every second one, then a branch and a kill. Each turn computes what is new and not a
        token more; a branch and the turn after the kill fewer tokens again than a picture has, those after the last point."""
        disk = ("--metrics", "--kv-disk-dir", fresh_directory(), *EIGHT_BITS, *flags)
        server = self.start(kind, *disk)
        plain = self.start(kind, "--cache-ram", 0, *EIGHT_BITS, *flags)
        messages = [system(words(60, 1))]
        known = 0
        for turn in range(4):
            messages.append(shows(png(turn, 256, 256), words(20, turn)) if turn % 2 == 0 else user(words(20, turn)))
            reply = self.ask(server, messages)
            self.assertEqual(reply_text(reply), reply_text(self.ask(plain, messages, cache_prompt=False)), (kind, turn))
            self.assertEqual(self.encoded_files(server), turn // 2 + 1, "each picture once")
            usage = reply["usage"]
            self.assertEqual(timings(reply)["prompt_n"], usage["prompt_tokens"] - known, (kind, turn))
            known = usage["prompt_tokens"] + usage["completion_tokens"] - 1  # the last token is sampled, not computed
            messages.append(assistant(reply_text(reply)))
        self.assertGreater(self.picture_tokens(plain), 2 * MOST_AFTER_A_POINT)
        other = timings(self.ask(server, [*messages[:-2], user(words(20, 99))]))
        self.assertEqual(other["cache_break"]["place"], "message 8 (user)")
        self.assertLessEqual(other["cache_break"]["lost_tokens"], MOST_AFTER_A_POINT, "a branch after both pictures")
        self.assertLess(other["prompt_n"], 20 + 20 + MOST_AFTER_A_POINT, "its words, and the template's")
        last = self.ask(server, messages[:-1])
        self.assertEqual(self.encoded_files(server), 2)
        server.kill()
        server = self.start(kind, *disk)
        again = self.ask(server, messages[:-1])
        self.assertEqual(self.encoded_files(server), 0, "nothing is encoded after a kill")
        self.assertLessEqual(timings(again)["prompt_n"], MOST_AFTER_A_POINT)
        self.assertEqual(reply_text(again), reply_text(last))

    def picture_tokens(self, server):
        shown, told = (self.ask(server, [message], max_tokens=1)["usage"]["prompt_tokens"]
                       for message in (shows(png(77, 256, 256), "x"), user("x")))
        return shown - told

    def test_pictures_that_a_model_sees_at_once(self):
        self.check_turns("gemma3")

    def test_pictures_in_a_plane(self):
        self.check_turns("qwen3vl")

    def test_pictures_in_a_hybrid_model(self):
        self.check_turns("qwen35")

    def test_pictures_in_a_recurrent_model(self):
        self.check_turns("mamba2")

    def test_pictures_in_an_opaque_model(self):
        self.check_turns("deepseek4")

    def test_cells_of_their_own(self):
        self.check_turns("qwen3vl", "--no-kv-unified", "-np", 2)

    def test_another_picture_of_the_same_size_shares_nothing(self):
        server = self.start("qwen3vl", "--metrics")
        first = self.ask(server, [shows(png(1), "What is it?")])
        second = self.ask(server, [shows(png(2), "What is it?")])
        self.assertEqual(second["usage"]["prompt_tokens"], first["usage"]["prompt_tokens"])
        self.assertLess(timings(second)["cache_n"], 10)
        self.assertEqual(self.encoded_files(server), 2)
        words_before = self.ask(server, [shows("Look:", png(2), "What is it?")])
        self.assertLess(timings(words_before)["cache_n"], 10)
        self.assertEqual(self.encoded_files(server), 2, "its rows are others, its embeddings are not")

    def test_an_explanation_tells_pictures_apart(self):
        server = self.start("qwen3vl")
        for picture in (1, 2):
            reply = self.ask(server, [system(words(60, 1)), shows(png(picture), words(60, 2))])
        found = timings(reply)["cache_break"]
        names = [re.search(r"\[media ([0-9a-f]{8})\]", found["text"][side])[1] for side in ("here", "there")]
        self.assertNotEqual(*names)
        self.assertNotEqual(found.get("what"), "number", "the name of a file is no text that changes")

    def test_lists_show_the_words_beside_a_picture(self):
        directory = fresh_directory()
        server = self.start("qwen3vl", "--kv-disk-dir", directory)
        self.ask(server, [system(words(60, 1)), shows(png(1), "Which flower is it?", words(40, 2))])
        server.stop()
        listed = run_program("cache", "ls", "--kv-disk-dir", directory)
        name = re.search(r"\[(picture [0-9a-f]{8})\] Which flower is it\?", listed.stdout)
        self.assertIsNotNone(name, listed.stdout + listed.stderr)
        line = next(each for each in listed.stdout.splitlines() if "Which flower" in each)
        shown = run_program("cache", "show", line.split()[0], "--kv-disk-dir", directory)
        self.assertRegex(shown.stdout, rf"(?m)^  {name[1]} +\d+ \.\. \d+ +9 cells, 3 positions$")
        told = json.loads(run_program("cache", "show", line.split()[0], "--text", "--json", "--kv-disk-dir", directory).stdout)
        self.assertIn(f"[{name[1]}]", told["text"])
        self.assertEqual([each["name"] for each in told["media"]], [name[1]])

    @covers("--mmproj", "-mm")
    def test_chats_that_part_before_a_picture_come_back(self):
        """After a restart their paths leave a segment in its middle, which holds rows of the first chat's picture."""
        for kind in KINDS:
            disk = ("--metrics", "--kv-disk-dir", fresh_directory(), *EIGHT_BITS)
            server = self.start(kind, *disk)
            head = system(words(40, 1))
            chats = [[head, shows(png(1, 128, 128), words(9, 2))], [head, shows(png(2), words(25, 3))], [head, user(words(60, 4))]]
            before = [self.ask(server, chat) for chat in chats]
            server.stop()
            for chat, reply in zip(chats[1:], before[1:], strict=True):
                server = self.start(kind, *disk)
                again = self.ask(server, chat)
                with self.subTest(kind=kind, chat=chat[1:]):
                    self.assertEqual(reply_text(again), reply_text(reply))
                    self.assertLessEqual(timings(again)["prompt_n"], MOST_AFTER_A_POINT)
                    self.assertEqual(self.encoded_files(server), 0)
                server.stop()

    def test_sound(self):
        self.check_sound()

    def test_sound_in_a_recurrent_model(self):
        self.check_sound("--arch", "mamba2")

    def test_sound_in_an_opaque_model(self):
        self.check_sound("--arch", "deepseek4")

    def test_a_slot_with_a_picture_is_saved_and_restored(self):
        saved = fresh_directory()
        flags = ("--metrics", "--slot-save-path", saved, "--kv-disk-dir", fresh_directory())
        server = self.start("qwen3vl", *flags)
        messages = [shows("Look:", png(1), words(40, 1))]
        first = self.ask(server, messages)
        kept = server.post("/slots/0?action=save", {"filename": "seen"})
        length = first["usage"]["prompt_tokens"] + first["usage"]["completion_tokens"] - 1
        self.assertEqual(kept["n_saved"], length)
        server.stop()
        server = self.start("qwen3vl", *flags)
        self.assertEqual(server.post("/slots/0?action=restore", {"filename": "seen"})["n_restored"], length)
        again = self.ask(server, messages)
        self.assertEqual((timings(again)["prompt_n"], reply_text(again)), (1, reply_text(first)))
        self.assertEqual(self.encoded_files(server), 0)
        other = self.start("qwen3vl", "--slot-save-path", saved, "--no-kv-disk")
        self.assert_refused(400, other.post, "/slots/0?action=restore", {"filename": "seen"}, contains="send the conversation")
        self.assertEqual(reply_text(self.ask(other, messages)), reply_text(first), "and nothing of it stayed behind")

    def test_an_erased_slot_with_a_picture_is_gone(self):
        """Its text could be computed anew, as that of any saved conversation, but its picture cannot."""
        saved = fresh_directory()
        server = self.start("qwen3vl", "--metrics", "--slot-save-path", saved, "--kv-disk-dir", fresh_directory())
        messages = [shows(words(40, 1), png(1), "What is it?")]
        first = self.ask(server, messages)
        kept = server.post("/slots/0?action=save", {"filename": "seen"})["n_saved"]
        told = [user(words(50, 2))]
        self.ask(server, told, id_slot=0)
        self.assertEqual(server.post("/slots/0?action=restore", {"filename": "seen"})["n_restored"], kept, "others ran at the slot since")
        erased = server.post("/slots/0?action=erase", {})["n_erased"]
        self.assertGreater(erased, 40, "all but a beginning that the other conversation shares")
        self.assert_refused(400, server.post, "/slots/0?action=restore", {"filename": "seen"}, contains="send the conversation")
        again = self.ask(server, messages)
        self.assertEqual((reply_text(again), timings(again)["cache_n"]), (reply_text(first), kept - erased))
        self.assertEqual(self.encoded_files(server), 1, "what the projector made of it is still in RAM")
        self.assertEqual(server.post("/slots/0?action=restore", {"filename": "seen"})["n_restored"], kept, "sent again, it is there again")

    def test_chats_do_not_wait_for_a_long_sound(self):
        server = self.server("-mm", model("--mmproj"), "-c", 32_768, model_path=model())
        part = {"type": "input_audio", "input_audio": {"data": encoded(wav(3, 16_000, 240)), "format": "wav"}}
        asked = {"messages": [{"role": "user", "content": [part, text("What is said?")]}], "max_tokens": 4}
        told = []

        def listen():
            begin = time.monotonic()
            told.append(server.post(CHAT, asked))
            told.append(time.monotonic() - begin)

        listener = threading.Thread(target=listen)
        listener.start()
        chats = []
        while listener.is_alive():
            begin = time.monotonic()
            self.ask(server, [user(f"Chat {len(chats)}")], max_tokens=1)
            chats.append(time.monotonic() - begin)
        listener.join()
        heard, sound_s = told
        self.assertGreater(heard["usage"]["prompt_tokens"], 240, "eight pieces of half a minute")
        self.assertGreater(len(chats), 5, "chats were answered meanwhile")
        self.assertLess(max(chats), max(0.5, sound_s / 4), f"of {sound_s:.1f} s")

    def check_sound(self, *arch):
        disk = ("--metrics", "--kv-disk-dir", fresh_directory())
        server = self.server("-mm", model("--mmproj", *arch), *disk, model_path=model(*arch))
        plain = self.server("-mm", model("--mmproj", *arch), "--cache-ram", 0, model_path=model(*arch))
        part = {"type": "input_audio", "input_audio": {"data": encoded(wav(1)), "format": "wav"}}
        messages = [{"role": "user", "content": [part, text("What is said?")]}]
        first = self.ask(server, messages)
        again = self.ask(server, [*messages, assistant(reply_text(first)), user("And?")])
        self.assertGreaterEqual(timings(again)["cache_n"], first["usage"]["prompt_tokens"] - 8)
        self.assertEqual(self.encoded_files(server), 1)
        follow_up = [*messages, assistant(reply_text(first)), user("And?")]
        self.assertEqual(reply_text(again), reply_text(self.ask(plain, follow_up, cache_prompt=False)))
        self.assert_refused(400, self.ask, server, [shows(png(1), "A picture")], contains="image input is not supported")
        server.kill()
        server = self.server("-mm", model("--mmproj", *arch), *disk, model_path=model(*arch))
        after = self.ask(server, follow_up)
        self.assertEqual(reply_text(after), reply_text(again), "restored after a kill")
        self.assertLessEqual(timings(after)["prompt_n"], MOST_AFTER_A_POINT)
        self.assertEqual(self.encoded_files(server), 0)


class EachDialect(MediaCase):
    @classmethod
    def start_class_servers(cls):
        cls.server_ = cls.class_server("--metrics", "--mmproj", model("--mmproj", *KINDS["qwen3vl"]),
                                       model_path=model(*KINDS["qwen3vl"]))

    def test_a_picture_is_the_same_in_each(self):
        before = self.encoded_files(self.server_)
        cached = []
        for dialect in self.DIALECTS:
            status, reply = getattr(self, dialect)(self.server_, png(50), "What is it, in a few words?")
            self.assertEqual(status, 200, reply)
            usage = reply["usage"]
            cached.append(usage.get("cache_read_input_tokens") or usage.get("prompt_tokens_details", usage.get("input_tokens_details"))["cached_tokens"])
        self.assertEqual(self.encoded_files(self.server_) - before, 1, cached)
        self.assertGreater(min(cached[1:]), 8, "whichever dialect it came in first")

    def test_tools_show_pictures(self):
        body = {"model": "m", "max_tokens": 4, "temperature": 0, "messages": [
            user("Look at it."),
            {"role": "assistant", "content": [{"type": "tool_use", "id": "t", "name": "see", "input": {}}]},
            {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t", "content": [text("here"), block(png(60))]}]}],
            "tools": [{"name": "see", "input_schema": {"type": "object"}}]}
        before = self.encoded_files(self.server_)
        for _ in range(2):
            status, reply = self.send(self.server_, "/v1/messages", body)
            self.assertEqual(status, 200, reply)
        self.assertEqual(self.encoded_files(self.server_) - before, 1)

    def test_tokens_are_counted(self):
        content = [block(png(70)), text("What is it?")]
        body = {"model": "m", "max_tokens": 1, "messages": [{"role": "user", "content": content}]}
        before = self.encoded_files(self.server_)
        _, counted = self.send(self.server_, "/v1/messages/count_tokens", body)
        self.assertEqual(self.encoded_files(self.server_), before, "counting encodes nothing")
        _, reply = self.send(self.server_, "/v1/messages", body)
        usage = reply["usage"]
        self.assertEqual(counted["input_tokens"], usage["input_tokens"] + usage["cache_creation_input_tokens"]
                         + usage["cache_read_input_tokens"])

    def test_hostile_files_are_refused(self):
        refused = self.check_hostile(self.server_, hostile_pictures(), {
            "chat": (self.chat, "messages[0].content[0]"), "messages": (self.messages, "messages.0.content.0"),
            "responses": (self.responses, "input[0].content[0]"), "tool": (self.chat_tool, "messages[2].content[0]"),
            "completion": (self.completion, "prompt")})
        self.assertEqual(refused, 5 * len(hostile_pictures()))
        self.assertEqual(self.chat(self.server_, png(1), "Is it alive?")[0], 200)

    def test_hostile_sounds_are_refused(self):
        server = self.server("-mm", model("--mmproj"), model_path=model())
        refused = self.check_hostile(server, hostile_sounds(), {
            "chat": (self.heard_in_chat, "messages[0].content[0]"), "responses": (self.heard_in_responses, "input[0].content[0]"),
            "completion": (self.completion, "prompt")})
        self.assertEqual(refused, 3 * len(hostile_sounds()))
        for ask in (self.heard_in_chat, self.heard_in_responses):
            status, reply = ask(server, wav(1), "Is it alive?")
            self.assertEqual(status, 200, reply)

    def test_sounds_that_say_less_than_they_have_take_no_memory(self):
        """Or more: an MP3 may say how many frames it has."""
        server = self.server("-mm", model("--mmproj"), "-c", 16_384, model_path=model())
        self.heard_in_chat(server, wav(1), "Is it alive?")
        reset_peak(server)
        before = memory_kib(server, "VmHWM")
        for file in (flac_silence(7_200, says=10), mp3_silence(100, says=(1 << 32) - 1), mp3_silence(100, says=1)):
            status, reply = self.heard_in_chat(server, file, "What is said?")
            self.assertIn(status, (200, 400), reply)
            self.assertLess(memory_kib(server, "VmHWM") - before, 64 << 10)
        self.assertEqual(self.heard_in_chat(server, wav(1), "Is it alive?")[0], 200)

    def test_the_sounds_of_a_request_have_an_hour_together(self):
        """Five minutes to forty in a few kilobytes each; nothing of a request that is refused is decoded."""
        server = self.server("-mm", model("--mmproj"), model_path=model())
        reset_peak(server)
        before = memory_kib(server, "VmHWM")
        parts = [{"type": "input_audio", "input_audio": {"data": encoded(flac_silence(seconds)), "format": "flac"}}
                 for seconds in (1_500, 1_501, 599, 10)]
        content = [*parts, text("What is said?")]
        said = "with it the request's sounds have up to 3610 seconds, and at most 3600 are taken"
        status, reply = self.send(server, CHAT, {"messages": [{"role": "user", "content": content}], "max_tokens": 1})
        self.assertEqual(status, 400, reply)
        self.assertIn("'messages[0].content[3]': " + said, reply["error"]["message"])
        status, reply = self.send(server, "/v1/responses", {"input": [
            {"role": "user", "content": [*parts, {"type": "input_text", "text": "x"}]}], "max_output_tokens": 1})
        self.assertEqual((status, reply["error"]["param"]), (400, "input[0].content[3]"))
        self.assertIn(said, reply["error"]["message"])
        self.assertLess(memory_kib(server, "VmHWM") - before, 64 << 10)

    def check_hostile(self, server, files, dialects):
        """Each is refused with the part's place in each dialect, and the server takes hardly any memory for it. Returns how
        often that was."""
        reset_peak(server)
        before = memory_kib(server, "VmHWM")
        refused = 0
        for what, file in files.items():
            for dialect, (ask, place) in dialects.items():
                status, reply = ask(server, file, "What is it?")
                self.assertEqual(status, 400, (what, dialect, reply))
                self.assertIn(place, reply["error"]["message"], (what, dialect))
                self.assertEqual(reply.get("type"), "error" if dialect == "messages" else None)
                refused += 1
            self.assertLess(memory_kib(server, "VmHWM") - before, 64 << 10, what)
        return refused

    def chat_tool(self, server, file, question):
        call = {"id": "c", "type": "function", "function": {"name": "see", "arguments": "{}"}}
        return self.send(server, CHAT, {"max_tokens": 4, "messages": [
            user(question), {"role": "assistant", "content": None, "tool_calls": [call]},
            {"role": "tool", "tool_call_id": "c", "content": [picture(file)]}]})

    def completion(self, server, file, question):
        prompt = {"prompt_string": server.get("/props")["media_marker"] + question, "multimodal_data": [encoded(file)]}
        return self.send(server, "/completion", {"prompt": prompt, "n_predict": 4})

    def heard_in_chat(self, server, file, question):
        part = {"type": "input_audio", "input_audio": {"data": encoded(file), "format": "wav"}}
        return self.send(server, CHAT, {"messages": [{"role": "user", "content": [part, text(question)]}], "max_tokens": 4})

    def heard_in_responses(self, server, file, question):
        part = {"type": "input_audio", "input_audio": {"data": encoded(file), "format": "wav"}}
        return self.send(server, "/v1/responses", {"max_output_tokens": 4, "input": [
            {"role": "user", "content": [part, {"type": "input_text", "text": question}]}]})

    def test_a_tools_picture_in_a_chat_is_seen(self):
        before = self.encoded_files(self.server_)
        for _ in range(2):
            status, reply = self.chat_tool(self.server_, png(61), "Look at it.")
            self.assertEqual(status, 200, reply)
        self.assertEqual(self.encoded_files(self.server_) - before, 1)

    def test_files_are_read_as_pictures(self):
        before = self.encoded_files(self.server_)
        file = {"filename": "a.png", "file_data": data_url(png(51))}
        asked = [self.chat(self.server_, png(51), "Seen?"),
                 self.send(self.server_, CHAT, {"max_tokens": 4, "messages": [
                     {"role": "user", "content": [{"type": "file", "file": file}, text("Seen?")]}]}),
                 self.send(self.server_, "/v1/responses", {"max_output_tokens": 4, "input": [
                     {"role": "user", "content": [{"type": "input_file", **file}, {"type": "input_text", "text": "Seen?"}]}]})]
        self.assertEqual([status for status, _ in asked], [200] * 3, asked)
        self.assertEqual(self.encoded_files(self.server_) - before, 1)

    def test_malformed_parts_are_refused_by_their_place(self):
        whole = data_url(png(1))
        parts = {
            CHAT: [{"type": "image_url"}, {"type": "image_url", "image_url": whole}, {"type": "image_url", "image_url": {"url": 7}},
                   {"type": "image_url", "image_url": {"url": whole[:-6] + "!"}}, {"type": "file", "file": {}},
                   {"type": "file", "file": {"file_id": "file-1"}}, {"type": "file", "file": {"file_data": "JVBERi0xLjQ="}},
                   {"type": "file", "file": {"file_data": "data:application/pdf;base64,JVBERi0xLjQ="}},
                   {"type": "input_audio", "input_audio": {"data": encoded(wav(1)), "format": "wav"}}, {"type": "picture"}],
            "/v1/messages": [{"type": "image"}, {"type": "image", "source": {"type": "base64"}}, {"type": "image", "source": 1},
                             {"type": "image", "source": {"type": "file", "file_id": "file_1"}},
                             {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "!"}},
                             {"type": "document", "source": {"type": "base64", "media_type": "application/pdf", "data": "JVBERi0="}}],
            "/v1/responses": [{"type": "input_image"}, {"type": "input_image", "file_id": "file-1"},
                              {"type": "input_image", "image_url": "cat.png"}, {"type": "input_file"},
                              {"type": "input_file", "file_data": "JVBERi0xLjQ="}, {"type": "input_file", "file_id": "file-1"}],
        }
        place = {CHAT: r"messages\[0\]\.content\[1\]", "/v1/messages": r"messages\.0\.content\.1", "/v1/responses": r"input\[0\]\.content\[1\]"}
        for path, wrong in parts.items():
            before = {"type": "input_text" if path == "/v1/responses" else "text", "text": "Look."}
            for part in wrong:
                messages = [{"role": "user", "content": [before, part]}]
                status, reply = self.send(self.server_, path, {"input" if path == "/v1/responses" else "messages": messages,
                                                               "max_tokens": 4})
                self.assertEqual(status, 400, (path, part, reply))
                self.assertRegex(reply["error"]["message"], place[path], part)

    def test_parts_of_another_api_are_refused_with_the_type_of_this_one(self):
        """Clients that mix the APIs up learn which part to send."""
        shown = {"image": block(png(1)), "image_url": picture(png(1)), "input_image": {"type": "input_image", "image_url": data_url(png(1))},
                 "text": text("x"), "input_text": {"type": "input_text", "text": "x"}}
        taken = {CHAT: ("image_url", "text"), "/v1/messages": ("image", "text"), "/v1/responses": ("input_image", "input_text", "text")}
        for path, own in taken.items():
            for kind, part in shown.items():
                status, reply = self.send(self.server_, path, {"input" if path == "/v1/responses" else "messages": [
                    {"role": "user", "content": [part]}], "max_tokens": 1})
                if kind in own:
                    self.assertEqual(status, 200, (path, kind, reply))
                    continue
                here = own[1 if "text" in kind else 0]
                self.assertEqual(status, 400, (path, kind, reply))
                self.assertIn(f"is of type '{kind}', which other APIs have: this one takes '{here}'", reply["error"]["message"])

    def test_messages_by_the_model_have_text_only(self):
        reason = "which has text only"
        parts = {"type": "image_url", "image_url": {"url": data_url(png(1))}}
        self.assert_refused(400, self.ask, self.server_, [user("x"), {"role": "assistant", "content": [parts]}], contains=reason)
        shown = {"type": "input_image", "image_url": data_url(png(1))}
        for role in ("assistant", "system"):
            status, reply = self.send(self.server_, "/v1/responses", {"input": [{"role": role, "content": [shown]}]})
            self.assertEqual(status, 400)
            self.assertIn(f"of role '{role}', {reason}", reply["error"]["message"])

    def test_the_text_of_a_prompt_has_no_pictures(self):
        error = self.assert_refused(400, self.server_.post, "/apply-template", {"messages": [shows("See", png(1))]},
                                    contains="'messages[0].content[1]': the reply is the prompt's text")
        self.assertNotIn("not supported", error["message"])

    def test_a_picture_whose_pixels_are_damaged_is_refused(self):
        head, rest = png(3).split(b"IDAT")
        broken = head + b"IDAT" + rest[:10] + bytes(len(rest) - 30) + rest[-20:]
        for dialect in self.DIALECTS:
            status, reply = getattr(self, dialect)(self.server_, broken, "What is it?")
            self.assertEqual(status, 400, (dialect, reply))

    def test_other_hosts_are_not_asked(self):
        for url in ("http://127.0.0.1:1/a.png", "https://example.invalid/a.png", "ftp://x/a", "data:image/png,abc", "file:///etc/passwd"):
            part = {"type": "image_url", "image_url": {"url": url}}
            self.assert_refused(400, self.ask, self.server_, [{"role": "user", "content": [part]}], contains="messages[0].content[0]")

    def test_no_text_stands_for_a_picture(self):
        honest = self.ask(self.server_, [shows(png(80), "x")])["usage"]["prompt_tokens"]
        pretences = ["<__media__>", "<image>", "<|vision_start|><|image_pad|><|vision_end|>", "kvkeepmedia" + "0" * 32 + "n0e"]
        counted = [self.ask(self.server_, [shows(png(80), "x" + words)])["usage"]["prompt_tokens"] for words in pretences]
        alone = [self.ask(self.server_, [user("x" + words)])["usage"]["prompt_tokens"] for words in pretences]
        picture_tokens = honest - self.ask(self.server_, [user("x")])["usage"]["prompt_tokens"]
        for words, with_picture, without in zip(pretences, counted, alone, strict=True):
            self.assertEqual(with_picture - without, picture_tokens, words)

    def test_a_name_that_a_template_tells_is_text_in_other_requests(self):
        """While a template prints messages, names stand for their pictures; an error of the template may have one in it."""
        path = fresh_path("tells.jinja")
        with open(path, "w") as file:
            file.write("{% for m in messages %}{{ m.content }}{% endfor %}"
                       "{% if 'Tell' in messages[0].content %}{{ raise_exception(messages[0].content) }}{% endif %}")
        server = self.start("qwen3vl", "--chat-template-file", path)
        told = []
        for _ in range(2):
            error = self.assert_refused(400, self.ask, server, [shows(png(1), "Tell")], contains="kvkeepmedia")
            told.append(re.search(r"kvkeepmedia[0-9a-f]{32}n0e", error["message"])[0])
        self.assertNotEqual(*told)
        honest = self.ask(server, [shows(png(1), "x")])["usage"]["prompt_tokens"]
        picture_tokens = honest - self.ask(server, [user("x")])["usage"]["prompt_tokens"]
        self.assertGreater(picture_tokens, 4)
        for name in told:
            with_picture = self.ask(server, [shows(png(1), "x" + name)])["usage"]["prompt_tokens"]
            without = self.ask(server, [user("x" + name)])["usage"]["prompt_tokens"]
            self.assertEqual(with_picture - without, picture_tokens)

    def test_completions_have_pictures_where_markers_stand(self):
        marker = self.server_.get("/props")["media_marker"]
        self.assertRegex(marker, r"^<__media_[0-9a-f]{32}__>$")

        def completed(text, *files):
            prompt = {"prompt_string": text, "multimodal_data": [encoded(file) for file in files]}
            return self.send(self.server_, "/completion", {"prompt": prompt, "n_predict": 4, "temperature": 0})
        before = self.encoded_files(self.server_)
        status, first = completed(f"See {marker} and {marker}: both", png(90), png(91))
        self.assertEqual(status, 200, first)
        self.assertEqual(self.encoded_files(self.server_) - before, 2)
        status, again = completed(f"See {marker} and {marker}: both", png(90), png(91))
        self.assertEqual(again["content"], first["content"])
        self.assertGreater(again["timings"]["cache_n"], 2 * 8)
        self.assertEqual(self.encoded_files(self.server_) - before, 2)
        for text in (f"{marker}{marker} x", "x", "<__media__> x"):
            self.assertEqual(completed(text, png(90))[0], 400, text)
        self.assertEqual(completed(f"{marker} x", b"no picture")[0], 400)

    def test_the_server_says_what_its_model_takes(self):
        self.assertEqual(self.server_.get("/props")["modalities"], {"vision": True, "video": False, "audio": False})
        models = self.server_.get("/v1/models")
        self.assertEqual(models["data"][0]["architecture"]["input_modalities"], ["text", "image"])
        self.assertIn("multimodal", models["models"][0]["capabilities"])


class Flags(MediaCase):
    @covers("--no-mmproj", "--mmproj-auto", "--no-mmproj-auto", "--mmproj-offload", "--no-mmproj-offload")
    def test_the_projector_may_be_left_out(self):
        with_it = self.start("qwen3vl", "--mmproj-auto", "--no-mmproj-offload")
        self.assertEqual(self.chat(with_it, png(1), "What is it?")[0], 200)
        without = self.start("qwen3vl", "--no-mmproj")
        self.assertEqual(without.get("/props")["modalities"]["vision"], False)
        self.assert_refused(400, self.ask, without, [shows(png(1), "x")], contains="image input is not supported")

    @covers("--mmproj-device", "-mmdev")
    def test_a_device_encodes(self):
        server = self.start("qwen3vl", "--mmproj-device", "CPU")
        self.assertEqual(self.chat(server, png(1), "What is it?")[0], 200)
        for flags, why in ((("-mmdev", "none"), "no device 'none'"),
                           (("--mmproj-device", "CPU", "--no-mmproj-offload"), "--mmproj-device needs --mmproj-offload")):
            command = serve_command("--mmproj", model("--mmproj", *KINDS["qwen3vl"]), *flags, "--no-kv-disk",
                                    model_path=model(*KINDS["qwen3vl"]))
            ended = run_program(*command[1:])
            self.assertNotEqual(ended.returncode, 0)
            self.assertIn(why, ended.stderr)

    @covers("--image-min-tokens", "--image-max-tokens")
    def test_pictures_have_limits(self):
        def tokens(*flags):
            return self.ask(self.start("qwen3vl", *flags), [shows(png(1, 256, 256), "x")])["usage"]["prompt_tokens"]
        usual = tokens()
        self.assertLess(tokens("--image-max-tokens", 16), usual)
        self.assertGreater(tokens("--image-min-tokens", 128), usual)

    @covers("--media-path")
    def test_files_below_a_directory_may_be_named(self):
        directory = fresh_directory()
        outside = fresh_path("outside.png")
        for path in (os.path.join(directory, "a.png"), outside):
            with open(path, "wb") as file:
                file.write(png(1))
        os.symlink(outside, os.path.join(directory, "link.png"))
        for name in ("two words é.png", "100%.png", "a%20b.png"):
            with open(os.path.join(directory, name), "wb") as file:
                file.write(png(1))
        os.mkdir(os.path.join(directory, "more"))
        os.mkfifo(os.path.join(directory, "pipe.png"))
        server = self.start("qwen3vl", "--media-path", directory)

        def named(url):
            return self.ask(server, [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": url}}, text("x")]}])
        tokens = self.ask(server, [shows(png(1), "x")])["usage"]["prompt_tokens"]
        for path in ("a.png", "/a.png", os.path.join(directory, "a.png"), "two%20words%20%C3%A9.png", "two words é.png", "%61.png",
                     "100%25.png", "100%.png", "a%2520b.png", "a%20b.png", os.path.join(directory, "two%20words%20%c3%a9.png")):
            self.assertEqual(named("file://" + path)["usage"]["prompt_tokens"], tokens, path)
        for url in ("file://../" + os.path.basename(outside), "file://link.png", "file://none.png", "file://" + outside, "file://",
                    "file://%2e%2e/" + os.path.basename(outside), "file://..%2F" + os.path.basename(outside), "file://a.png%00"):
            self.assert_refused(400, named, url, contains="no such file")
        for url in ("file://more", "file://pipe.png", "file://more/"):
            self.assert_refused(400, named, url, contains="'messages[0].content[0]': it is a directory, or no regular file")

    @covers("--allow-remote-media")
    def test_files_of_listed_hosts_are_fetched(self):
        class Files(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                if self.path.startswith("/to?"):
                    self.send_response(302)
                    self.send_header("Location", self.path[4:])
                    self.end_headers()
                    return
                file = {"/a.png": png(1), "/large": bytes(65 << 20)}.get(self.path)
                self.send_response(404 if file is None else 200)
                self.end_headers()
                self.wfile.write(file or b"")

            def log_message(self, *_):
                pass
        files = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Files)
        self.addCleanup(files.server_close)
        threading.Thread(target=files.serve_forever, daemon=True).start()
        self.addCleanup(files.shutdown)
        port = files.server_port
        listed = f"http://127.0.0.1:{port}"
        server = self.start("qwen3vl", "--allow-remote-media", f"127.0.0.1:{port},localhost:{port}")

        def named(url):
            return self.ask(server, [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": url}}, text("x")]}])
        tokens = self.ask(server, [shows(png(1), "x")])["usage"]["prompt_tokens"]
        self.assertEqual(named(listed + "/a.png")["usage"]["prompt_tokens"], tokens)
        self.assertEqual(named(listed + "/to?/a.png")["usage"]["prompt_tokens"], tokens, "redirected to a listed host")
        refused = {listed + "/none": "HTTP status 404", listed + "/large": "larger than 64 MiB",
                   listed + f"/to?http://localhost:{port}/a.png": "private address",
                   listed + "/to?http://127.0.0.1:1/a.png": "redirected to a port (1) that is not in",
                   listed + "/to?http://127.0.0.2/a.png": "redirected to a host that is not in",
                   listed + "/to?file:///etc/passwd": "redirected to no such URL", listed + "/to?/to?/to?/to?/a.png": "too often",
                   f"http://localhost:{port}/a.png": "private address", f"http://127.0.0.2:{port}/a.png": "a host that is not in",
                   "http://169.254.169.254/": "a host that is not in",
                   "http://127.0.0.1/a.png": "a port (80 or 443) that is not in", "ftp://127.0.0.1/a": "must be a data:"}
        for url, reason in refused.items():
            self.assert_refused(400, named, url, contains=reason)

    def test_requests_of_text_do_not_wait_for_slow_hosts(self):
        class Slow(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                if self.path == "/none":
                    self.send_response(404)
                    self.end_headers()
                    return
                with asked:
                    asked.count += 1
                    asked.notify_all()
                ended.wait(60)

            def log_message(self, *_):
                pass
        asked = threading.Condition()
        asked.count = 0
        ended = threading.Event()
        files = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Slow)
        self.addCleanup(files.server_close)
        self.addCleanup(files.shutdown)
        self.addCleanup(ended.set)
        threading.Thread(target=files.serve_forever, daemon=True).start()
        server = self.start("qwen3vl", "--threads-http", "1", "--allow-remote-media", f"127.0.0.1:{files.server_port}")
        url = f"http://127.0.0.1:{files.server_port}/a.png"
        body = json.dumps({"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": url}}, text("x")]}]})
        waiting = [server.connection() for _ in range(6)]
        for connection in waiting:
            connection.request("POST", CHAT, body, {"Content-Type": "application/json"})
        with asked:
            self.assertTrue(asked.wait_for(lambda: asked.count >= 1, 20), "one of a client is fetched at a time")
        self.ask(server, [user("Hello.")])
        self.ask(server, [shows("A picture that is here:", png(1))])
        self.ask(server, [user("The word file.")], tools=[{"type": "function", "function": {
            "name": "read", "parameters": {"type": "object", "properties": {"file": {"type": "string"}}, "required": ["file"]}}}])
        answered = select.select([each.sock for each in waiting], [], [], 0)[0]
        self.assertLess(len(answered), len(waiting), "the last of them waits for those before, 10 seconds for each")
        for connection in waiting:
            connection.close()
        with asked:
            before = asked.count
        self.assert_refused(400, self.ask, server, [{"role": "user", "content": [
            {"type": "image_url", "image_url": {"url": url.replace("a.png", "none")}}, text("x")]}], contains="HTTP status 404")
        with asked:
            self.assertEqual(asked.count, before, "for clients that have left nothing is fetched")

    def test_files_of_a_request_have_a_bound(self):
        directory = fresh_directory()
        for number in range(8):
            with open(os.path.join(directory, f"{number}.png"), "wb") as file:
                file.write(bytes([number]))
                file.truncate(63 << 20)
        server = self.start("qwen3vl", "--media-path", directory)
        urls = [f"file://{number}.png" for number in range(8)]
        status, reply = self.send(server, CHAT, {"messages": [{"role": "user", "content": [
            {"type": "image_url", "image_url": {"url": url}} for url in urls] + [text("x")]}]})
        self.assertEqual(status, 413)
        self.assertIn("'messages[0].content[7]'", reply["error"]["message"])
        status, reply = self.send(server, "/v1/messages", {"model": "m", "max_tokens": 4, "messages": [{"role": "user", "content": [
            {"type": "image", "source": {"type": "url", "url": url}} for url in urls] + [text("x")]}]})
        self.assertEqual((status, reply["error"]["type"]), (413, "request_too_large"))
        status, reply = self.send(server, "/v1/responses", {"input": [{"role": "user", "content": [
            {"type": "input_image", "image_url": url} for url in urls] + [{"type": "input_text", "text": "x"}]}]})
        self.assertEqual((status, reply["error"]["param"]), (413, "input[0].content[7]"))
        # One file that is named often counts once: it is read, and seen to be no picture.
        status, reply = self.send(server, CHAT, {"messages": [{"role": "user", "content": [
            {"type": "image_url", "image_url": {"url": urls[0]}} for _ in range(20)] + [text("x")]}]})
        self.assertEqual(status, 400)
        self.assertIn("'messages[0].content[0]'", reply["error"]["message"])
        self.assertLess(memory_kib(server, "VmHWM"), 1_200 << 10, "512 MiB of files, the one beyond, and the model")

    def test_requests_that_wait_hold_files_within_a_bound(self):
        directory = fresh_directory()
        for number in range(14):
            black_bmp(os.path.join(directory, f"{number}.bmp"), number, 4_000)
        server = self.start("qwen3vl", "-np", "1", "-c", "65536", "--media-path", directory)
        running = server.connection()
        running.request("POST", CHAT, json.dumps({"messages": [user("Go on.")], "max_tokens": 60_000, "ignore_eos": True, "stream": True}),
                        {"Content-Type": "application/json"})
        running.getresponse().read(1)
        waiting = [server.connection() for _ in range(14)]
        for number, connection in enumerate(waiting):
            url = f"file://{number}.bmp"
            body = {"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": url}}, text("x")]}]}
            connection.request("POST", CHAT, json.dumps(body), {"Content-Type": "application/json"})
        refused = []
        while len(refused) < 4:
            ready = select.select([each.sock for each in waiting if each not in refused], [], [], 60)[0]
            self.assertTrue(ready, f"only {len(refused)} were refused")
            refused += [each for each in waiting if each.sock in ready]
        self.assertEqual(select.select([each.sock for each in waiting if each not in refused], [], [], 2)[0], [],
                         "480 MiB have room for ten files of 46 MiB")
        for connection in refused:
            reply = connection.getresponse()
            self.assertEqual((reply.status, reply.getheader("Retry-After") is not None), (503, True))
            self.assertIn("'messages[0].content[0]'", json.loads(reply.read())["error"]["message"])
        for connection in (running, *waiting):
            connection.close()

    def test_a_batch_that_is_too_small_is_an_error_at_the_start(self):
        command = serve_command("--mmproj", model("--mmproj", *KINDS["gemma3"]), "-ub", "15", "-b", "15", "--no-kv-disk",
                                model_path=model(*KINDS["gemma3"]))
        ended = run_program(*command[1:])
        self.assertNotEqual(ended.returncode, 0)
        self.assertIn("--ubatch-size 16", ended.stderr)

    def test_another_models_projector_is_an_error_at_the_start(self):
        command = serve_command("--mmproj", model("--arch", "qwen3vl"), "--no-kv-disk", model_path=model(*KINDS["gemma3"]))
        ended = run_program(*command[1:])
        self.assertNotEqual(ended.returncode, 0)
        self.assertIn("--mmproj", ended.stderr)


if __name__ == "__main__":
    main()
