"""A strict reader of Prometheus's text format, for what /metrics sends: each metric has a help text and a kind before its
samples, in one group; no sample comes twice; the ranges of a histogram are complete and their counts only grow."""

import math
import re

NAME = r"[a-zA-Z_:][a-zA-Z0-9_:]*"
LABELS = r"\{[a-z_]+=\"[^\"\\\n]*\"(?:,[a-z_]+=\"[^\"\\\n]*\")*\}"
VALUE = r"(?:\d+(?:\.\d+)?(?:e[-+]\d+)?|\+Inf|NaN)"


def parse_metrics(text):
    """Values by name with labels, and kinds by name."""
    values, kinds, helped = {}, {}, set()
    current = None
    assert text.endswith("\n"), "the last line has no end"
    for line in text.splitlines():
        if named := re.fullmatch(rf"# HELP ({NAME}) \S.*", line):
            assert named[1] not in helped, f"a second help text: {line}"
            helped.add(named[1])
        elif kind := re.fullmatch(rf"# TYPE ({NAME}) (counter|gauge|histogram)", line):
            assert kind[1] in helped and kind[1] not in kinds, f"a kind without help, or a second one: {line}"
            current = kind[1]
            kinds[current] = kind[2]
        else:
            sample = re.fullmatch(rf"({NAME})({LABELS})? ({VALUE})", line)
            assert sample and current is not None, f"neither comment nor sample: {line!r}"
            suffixes = ("_bucket", "_sum", "_count") if kinds[current] == "histogram" else ("",)
            assert sample[1] in {current + suffix for suffix in suffixes}, f"a sample of another metric: {line}"
            key = sample[1] + (sample[2] or "")
            assert key not in values, f"a second sample: {line}"
            values[key] = float(sample[3])
    assert helped == set(kinds), f"without kind: {helped - set(kinds)}"
    for name, kind in kinds.items():
        if kind == "histogram":
            _check_histogram(name, values)
    return values, kinds


def _check_histogram(name, values):
    ranges = {}
    for key, value in values.items():
        if bucket := re.fullmatch(rf"{name}_bucket\{{(?:(.*),)?le=\"([^\"]+)\"\}}", key):
            ranges.setdefault(bucket[1] or "", []).append((float(bucket[2]), value))
    assert ranges, f"{name} has no ranges"
    for labels, counts in ranges.items():
        suffix = f"{{{labels}}}" if labels else ""
        assert [bound for bound, _ in counts] == sorted(bound for bound, _ in counts), f"{name}{suffix}: bounds not in order"
        assert [count for _, count in counts] == sorted(count for _, count in counts), f"{name}{suffix}: counts shrink"
        assert math.isinf(counts[-1][0]) and counts[-1][1] == values[f"{name}_count{suffix}"], f"{name}{suffix}: no +Inf"
        assert f"{name}_sum{suffix}" in values, f"{name}{suffix}: no sum"
