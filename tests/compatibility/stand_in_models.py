"""Models in the place of those that llama.cpp's server tests download: generated ones, and copies with other metadata."""

import os
import struct
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "e2e"))

from gguf_writer import make_lora  # noqa: E402

_SIZES = {0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, 10: 8, 11: 8, 12: 8}
_TEXT, _ARRAY, _U16, _U32, _I32, _BOOL = 8, 9, 2, 4, 5, 7
_ALIGNMENT = 32
_MEAN = 1  # of the rows of all tokens, for embeddings


def _padded(data):
    return data + b"\0" * (-len(data) % _ALIGNMENT)


def _spelled(text):
    encoded = text.encode()
    return struct.pack("<Q", len(encoded)) + encoded


class _Reader:
    def __init__(self, data):
        self.data, self.at = data, 4

    def number(self, form):
        value, = struct.unpack_from("<" + form, self.data, self.at)
        self.at += struct.calcsize(form)
        return value

    def text(self):
        size = self.number("Q")
        self.at += size
        return self.data[self.at - size:self.at].decode()

    def skip(self, kind):
        if kind == _TEXT:
            self.text()
        elif kind == _ARRAY:
            of, count = self.number("I"), self.number("Q")
            for _ in range(count):
                self.skip(of)
        else:
            self.at += _SIZES[kind]


class Gguf:
    """`metadata`: by key the bytes of type and value. `tensors`: name, shape, type and bytes of each."""

    def __init__(self, path):
        with open(path, "rb") as file:
            reader = _Reader(file.read())
        reader.number("I")
        tensor_count, key_count = reader.number("Q"), reader.number("Q")
        self.metadata = {}
        for _ in range(key_count):
            key, begin = reader.text(), reader.at
            reader.skip(reader.number("I"))
            self.metadata[key] = reader.data[begin:reader.at]
        heads = []
        for _ in range(tensor_count):
            name, dimensions = reader.text(), reader.number("I")
            shape = [reader.number("Q") for _ in range(dimensions)]
            heads.append((name, shape, reader.number("I"), reader.number("Q")))
        data = reader.data[len(_padded(reader.data[:reader.at])) if reader.at % _ALIGNMENT else reader.at:]
        ends = sorted([offset for _, _, _, offset in heads][1:]) + [len(data)]
        self.tensors = [(name, shape, kind, data[offset:end])
                        for (name, shape, kind, offset), end in zip(sorted(heads, key=lambda head: head[3]), ends)]

    def set(self, key, kind, form, value):
        self.metadata[key] = struct.pack("<I" + form, kind, value)

    def write(self, path):
        out = b"GGUF" + struct.pack("<IQQ", 3, len(self.tensors), len(self.metadata))
        out += b"".join(_spelled(key) + value for key, value in self.metadata.items())
        at = 0
        for name, shape, kind, data in self.tensors:
            out += _spelled(name) + struct.pack(f"<I{len(shape)}QIQ", len(shape), *shape, kind, at)
            at += len(_padded(data))
        with open(path, "wb") as file:
            file.write(_padded(out) + b"".join(_padded(data) for _, _, _, data in self.tensors))


def _split(path, folder, parts):
    whole = Gguf(path)
    tensors, metadata = whole.tensors, whole.metadata
    each = -(-len(tensors) // parts)
    for part in range(parts):
        whole.tensors = tensors[part * each:(part + 1) * each]
        whole.metadata = dict(metadata) if part == 0 else {}
        whole.set("split.no", _U16, "H", part)
        whole.set("split.count", _U16, "H", parts)
        whole.set("split.tensors.count", _I32, "i", len(tensors))
        whole.write(os.path.join(folder, f"split-{part + 1:05d}-of-{parts:05d}.gguf"))


def make_models(kvkeep, folder):
    """Returns the id of BOS. The smallest models of the tests have no chat template, and put a BOS before every prompt."""
    def path(name):
        return os.path.join(folder, name)

    def make(name, *flags):
        subprocess.run([kvkeep, "model", "make", *flags, path(name)], check=True, capture_output=True)

    make("chat.gguf")
    make("other.gguf", "--seed", "3")
    make("draft.gguf", "--seed", "4")
    make("gemma3.gguf", "--arch", "gemma3")
    make("embedding.gguf", "--seed", "5")
    embedding = Gguf(path("embedding.gguf"))
    embedding.set("llama.pooling_type", _U32, "I", _MEAN)
    embedding.set("tokenizer.ggml.add_bos_token", _BOOL, "?", True)  # so that an empty text has a token
    embedding.write(path("embedding.gguf"))
    # One that ranks needs a classifier; this seed's puts the tests' documents in the order of a trained one.
    make("rerank.gguf", "--arch", "bert", "--rerank", "--seed", "48")
    for source, name, context in (("chat", "stories", None), ("other", "moe", None), ("chat", "infill", 2048)):
        plain = Gguf(path(f"{source}.gguf"))
        plain.metadata.pop("tokenizer.chat_template")
        plain.set("tokenizer.ggml.add_bos_token", _BOOL, "?", True)
        if context:
            plain.set("llama.context_length", _U32, "I", context)
        plain.write(path(f"{name}.gguf"))
    shape = {name: shape for name, shape, _, _ in Gguf(path("moe.gguf")).tensors}
    layers = sum(name.endswith("attn_output.weight") for name in shape)
    make_lora(path("lora.gguf"), shape["blk.0.attn_output.weight"][0], layers)
    _split(path("stories.gguf"), folder, 3)
    return struct.unpack_from("<I", Gguf(path("chat.gguf")).metadata["tokenizer.ggml.bos_token_id"], 4)[0]
