"""Writes small GGUF files, adapters of the generated models, and adds metadata to models."""

import math
import os
import random
import struct

WIDTH, LAYERS = 128, 3  # of the tiny generated model
_STRING, _FLOAT32, _INT32 = 8, 6, 5
_TYPE_F32 = 0
_ALIGNMENT = 32


def _text(value):
    encoded = value.encode()
    return struct.pack("<Q", len(encoded)) + encoded


def _metadata(key, value):
    if isinstance(value, str):
        return _text(key) + struct.pack("<I", _STRING) + _text(value)
    if isinstance(value, int):
        return _text(key) + struct.pack("<Ii", _INT32, value)
    return _text(key) + struct.pack("<If", _FLOAT32, value)


def _padded(data):
    return data + b"\0" * (-len(data) % _ALIGNMENT)


def write_gguf(path, metadata, tensors):
    """`metadata`: strings, integers and floats by key. `tensors`: (name, shape, floats), the fastest dimension first."""
    header = b"GGUF" + struct.pack("<IQQ", 3, len(tensors), len(metadata))
    header += b"".join(_metadata(key, value) for key, value in metadata.items())
    data = b""
    for name, shape, values in tensors:
        header += _text(name) + struct.pack("<I", len(shape)) + struct.pack(f"<{len(shape)}Q", *shape)
        header += struct.pack("<IQ", _TYPE_F32, len(data))
        data += _padded(struct.pack(f"<{len(values)}f", *values))
    with open(path, "wb") as file:
        file.write(_padded(header) + data)
    return path


def with_metadata(path, model, metadata):
    """A copy of the model whose file has this metadata too."""
    with open(model, "rb") as file:
        magic, version, tensors, pairs = struct.unpack("<4sIQQ", file.read(24))
        rest = file.read()
    added = b"".join(_metadata(key, value) for key, value in metadata.items())
    # The tensors' data begins at a multiple of the alignment, and so does what moves it.
    missing = -len(added + _metadata("test.filler", "")) % _ALIGNMENT
    added += _metadata("test.filler", " " * missing)
    with open(path, "wb") as file:
        file.write(struct.pack("<4sIQQ", magic, version, tensors, pairs + len(metadata) + 1) + added + rest)
    return path


def _noise(count, deviation, generator):
    return [generator.gauss(0, deviation) for _ in range(count)]


def make_lora(path, width, layers, seed=1):
    """A LoRA adapter of rank 4 for the output matrices of attention (width x width)."""
    generator = random.Random(seed)
    rank = 4
    tensors = []
    for layer in range(layers):
        name = f"blk.{layer}.attn_output.weight"
        tensors.append((f"{name}.lora_a", (width, rank), _noise(width * rank, 0.2, generator)))
        tensors.append((f"{name}.lora_b", (rank, width), _noise(width * rank, 0.2, generator)))
    return write_gguf(path, {"general.type": "adapter", "general.architecture": "llama", "adapter.type": "lora",
                             "adapter.lora.alpha": float(rank)}, tensors)


def make_control_vector(path, width, layers, seed=1):
    generator = random.Random(seed)
    return write_gguf(path, {"general.architecture": "controlvector"},
                      [(f"direction.{layer}", (width,), _noise(width, 1.0, generator)) for layer in range(1, layers)])


def tensor_extent(path, name):
    """Where the bytes of a tensor in Q8_0 begin in the file, and how many there are."""
    sizes = {0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, 10: 8, 11: 8, 12: 8}  # of a value of each type
    with open(path, "rb") as file:
        def number(form):
            return struct.unpack(form, file.read(struct.calcsize(form)))[0]

        def skip(kind):
            if kind == 8:
                file.seek(number("<Q"), os.SEEK_CUR)
            elif kind == 9:
                of, count = number("<I"), number("<Q")
                for _ in range(count if of in (8, 9) else 0):
                    skip(of)
                file.seek(0 if of in (8, 9) else sizes[of] * count, os.SEEK_CUR)
            else:
                file.seek(sizes[kind], os.SEEK_CUR)

        file.seek(8)
        tensors, values = number("<Q"), number("<Q")
        for _ in range(values):
            file.seek(number("<Q"), os.SEEK_CUR)
            skip(number("<I"))
        for _ in range(tensors):
            found = file.read(number("<Q")).decode()
            shape = [number("<Q") for _ in range(number("<I"))]
            kind, offset = number("<I"), number("<Q")
            if found == name:
                wanted = offset, math.prod(shape) // 32 * 34
                if kind != 8:
                    raise AssertionError(f"{name} is not in Q8_0")
        data = -(-file.tell() // 32) * 32
        return data + wanted[0], wanted[1]
