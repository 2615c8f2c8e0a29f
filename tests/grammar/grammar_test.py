"""Schemas as grammars, checked against an independent validator (validator.py).

Of random schemas: every text that a grammar may write is valid, and every valid value that was made by hand, in the order
and spelling a grammar writes, is matched. KVKEEP_TEST_SEED repeats a run; KVKEEP_SCHEMAS says how many.
"""

import itertools
import json
import os
import random
import subprocess
import time
import unittest
from decimal import Decimal

from validator import ClosedValidator, Validator

TOOL = os.environ["KVKEEP_GRAMMAR_TOOL"]
SCHEMAS = int(os.environ.get("KVKEEP_SCHEMAS", "400"))


def load(text):
    return json.loads(text, parse_float=Decimal)


def dump(value):
    """As a grammar writes it: no spaces, text as it is."""
    if isinstance(value, Decimal):
        return format(value.normalize() + 0, "f")
    if isinstance(value, list):
        return "[" + ",".join(map(dump, value)) + "]"
    if isinstance(value, dict):
        return "{" + ",".join(dump(key) + ":" + dump(one) for key, one in value.items()) + "}"
    return json.dumps(value, ensure_ascii=False)


class Tool:
    def __init__(self):
        self.process = subprocess.Popen([TOOL], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def ask(self, schema, texts=(), walks=4, seed=1):
        question = f'{{"schema": {dump(schema)}, "seed": {seed}, "walks": {walks}, "texts": {json.dumps(list(texts))}}}'
        self.process.stdin.write(question.replace("\n", " ") + "\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())

    def close(self):
        self.process.stdin.close()
        self.process.wait(20)
        self.process.stdout.close()


NAMES = ["a", "b", "id", "name", "kind", "node-1", "größe", "x\"y", "ab"]
TEXTS = ["", "a", "hello", "0", "ä€🙂", "line\nbreak", "tab\t", "quote\"s", "back\\slash", "\x01", "</tool_call>", "null"]
PATTERNS = ["^[a-z]+$", "^\\d{3}-\\d{4}$", "^(foo|bar)?$", "^[A-Z][a-z]{0,5}$", "[0-9]", "^x", "y$", "^[^\"\\\\]*$",
            "^a.c$", "^(?:ab){2,3}$", "^\\s\\S$", "^[\\w.-]{1,8}$", "^$", "a|b"]
FORMATS = ["date", "time", "date-time", "uuid", "ipv4", "email", "hostname", "uri", "unheard-of"]


class Schemas:
    """Random schemas out of what a grammar can express, and values that are valid under them."""

    def __init__(self, rng):
        self.rng = rng

    def number(self, places):
        return Decimal(self.rng.randint(-2000, 2000)).scaleb(-self.rng.randint(0, places)) + 0

    def bounds(self, places):
        low, high = sorted([self.number(places), self.number(places)])
        keys = {}
        if self.rng.random() < 0.7:
            keys[self.rng.choice(["minimum", "exclusiveMinimum"])] = low
        if self.rng.random() < 0.7:
            keys[self.rng.choice(["maximum", "exclusiveMaximum"])] = high
        return keys

    def counts(self, least, most, top=6):
        low, high = sorted([self.rng.randint(0, top), self.rng.randint(0, top)])
        return {key: value for key, value in ((least, low), (most, high)) if self.rng.random() < 0.4}

    def scalar(self):
        rng = self.rng
        kind = rng.randrange(11)
        if kind == 0:
            return {"type": "integer", **self.bounds(0)}
        if kind == 1:
            return {"type": "number", **self.bounds(3)}
        if kind == 2:
            return {"type": "integer", "multipleOf": rng.choice([1, 2, 3, 7, 10, 25]),
                    **rng.choice([{}, {"minimum": 0}, {"minimum": -50, "maximum": 50}])}
        if kind == 3:
            return {"type": "number", "multipleOf": Decimal(rng.choice(["0.1", "0.01"])), **self.bounds(1)}
        if kind == 4:
            return {"type": "string", **self.counts("minLength", "maxLength")}
        if kind == 5:
            return {"type": "string", "pattern": rng.choice(PATTERNS)}
        if kind == 6:
            return {"type": "string", "format": rng.choice(FORMATS)}
        if kind == 7:
            return {"enum": rng.sample([*TEXTS, 0, -1, Decimal("2.5"), True, None, [1, "x"], {"k": []}], rng.randint(1, 5))}
        if kind == 8:
            return {"const": rng.choice([*TEXTS, 7, None, False, [], {"a": {"b": 1}}])}
        if kind == 9:
            return {"type": rng.sample(["string", "integer", "boolean", "null", "number"], rng.randint(1, 3))}
        return {"type": rng.choice(["string", "integer", "number"]), "nullable": True}

    def object(self, depth):
        rng = self.rng
        names = rng.sample(NAMES, rng.randint(0, 4))
        schema = {"type": "object", "properties": {name: self.any(depth - 1) for name in names}}
        if rng.random() < 0.7:
            schema["required"] = [name for name in names if rng.random() < 0.5]
        kind = rng.randrange(6)
        if kind == 0:
            schema["additionalProperties"] = False
        elif kind == 1:
            schema["additionalProperties"] = self.any(depth - 1)
        elif kind == 2:
            schema["additionalProperties"] = True
        elif kind == 3 and not names:
            schema = {"type": "object", "additionalProperties": self.any(depth - 1),
                      "propertyNames": {"pattern": "^[a-z]{1,3}$"}}
        elif kind == 4 and not names:
            schema = {"type": "object", "patternProperties": {"^x-[a-z]+$": self.any(depth - 1)},
                      "additionalProperties": False}
        return schema

    def array(self, depth):
        rng = self.rng
        schema = {"type": "array", **self.counts("minItems", "maxItems", 4)}
        if rng.random() < 0.7:
            schema["items"] = self.any(depth - 1)
        if rng.random() < 0.3:
            schema["prefixItems"] = [self.any(depth - 1) for _ in range(rng.randint(1, 3))]
        return schema

    def any(self, depth):
        rng = self.rng
        kind = rng.randrange(12) if depth > 0 else 0
        if kind < 4:
            return self.scalar()
        if kind < 7:
            return self.object(depth)
        if kind < 9:
            return self.array(depth)
        if kind == 9:
            return {"anyOf": [self.any(depth - 1) for _ in range(rng.randint(1, 3))]}
        if kind == 10:
            return {"oneOf": [{"type": "object", "properties": {"kind": {"const": tag}, "v": self.any(depth - 1)},
                               "required": ["kind"]} for tag in ("p", "q")]}
        return {"allOf": [self.object(1), self.object(1)]}

    # a value that a grammar would write: valid, keys in order, nothing that was not declared

    def value(self, schema):
        rng = self.rng
        if schema is True:
            return rng.choice([1, "x", None, True, [1, {}], {"k": "v"}])
        if "const" in schema:
            return schema["const"]
        if "enum" in schema:
            return rng.choice(schema["enum"])
        for keyword in ("anyOf", "oneOf"):
            if keyword in schema:
                return self.value(rng.choice(schema[keyword]))
        if "allOf" in schema:
            value = {}
            for one in schema["allOf"]:
                for key, member in self.value(one).items():
                    value.setdefault(key, member)
            order = [name for one in schema["allOf"] for name in one.get("properties", {})] + list(value)
            return {key: value[key] for key in sorted(value, key=order.index)}
        types = schema["type"] if isinstance(schema["type"], list) else [schema["type"]]
        return getattr(self, "value_of_" + rng.choice(types))(schema)

    def value_of_null(self, _):
        return None

    def value_of_boolean(self, _):
        return self.rng.random() < 0.5

    def value_of_string(self, schema):
        examples = {"date": "2024-02-29", "time": "23:59:59Z", "date-time": "1999-12-31T00:00:00.5+01:00",
                    "uuid": "123e4567-e89b-12d3-a456-426614174000", "ipv4": "255.10.0.1", "email": "a.b+c@x.org",
                    "hostname": "www.example.org"}
        if schema.get("format") in examples and self.rng.random() < 0.7:
            return examples[schema["format"]]
        return self.rng.choice([*TEXTS, "abc", "foo", "555-1234", "Abc", "xy", "abab", " x", "\na"])

    def value_of_integer(self, _):
        return self.rng.choice([0, 1, -1, 7, 10, -25, 50, 99, 100, -999, 1500, self.rng.randint(-3000, 3000)])

    def value_of_number(self, _):
        return self.rng.choice([self.value_of_integer(None), self.number(2)])

    def value_of_object(self, schema):
        value = {name: self.value(one) for name, one in schema.get("properties", {}).items()
                 if name in schema.get("required", []) or self.rng.random() < 0.5}
        others = schema.get("additionalProperties", False)
        if others is not False and self.rng.random() < 0.5:
            value["zzz"] = self.value(others)
        for one in schema.get("patternProperties", {}).values():
            value["x-new"] = self.value(one)
        return value

    def value_of_array(self, schema):
        prefix = schema.get("prefixItems", [])
        value = [self.value(one) for one in prefix]
        if "items" in schema or not prefix:
            count = self.rng.randint(0, 3)
            value += [self.value(schema.get("items", True)) for _ in range(count)]
        return value[:self.rng.randint(0, len(value))] if self.rng.random() < 0.3 else value


def orders(schema, value):
    """The value, with its members in each order that an alternative of its schema declares, down to what it holds."""
    if schema is True or not isinstance(value, (dict, list)):
        return [value]
    for keyword in ("anyOf", "oneOf"):
        if keyword in schema:
            return [order for one in schema[keyword] for order in orders(one, value)]
    if isinstance(value, list):
        prefix = schema.get("prefixItems", [])
        places = (prefix[i] if i < len(prefix) else schema.get("items", True) for i in range(len(value)))
        return [list(items) for items in itertools.product(*map(orders, places, value))]
    parts = schema.get("allOf", [schema])
    names = [name for part in parts for name in part.get("properties", {})] + list(value)
    keys = sorted(value, key=names.index)
    of_keys = [[order for part in parts for order in orders(schema_of_member(part, key), value[key])] for key in keys]
    return [dict(zip(keys, members, strict=True)) for members in itertools.product(*of_keys)]


def schema_of_member(schema, key):
    others = [*schema.get("patternProperties", {}).values(), schema.get("additionalProperties", True)]
    return schema.get("properties", {}).get(key, others[0] or True)


class GrammarCase(unittest.TestCase):
    def setUp(self):
        self.tool = Tool()
        self.addCleanup(self.tool.close)


class RandomSchemas(GrammarCase):
    def test_written_texts_are_valid_and_valid_values_are_matched(self):
        seed = int(os.environ.get("KVKEEP_TEST_SEED", random.SystemRandom().randrange(1 << 32)))
        print(f"KVKEEP_TEST_SEED={seed}", flush=True)
        rng = random.Random(seed)
        schemas = Schemas(rng)
        counts = {"walks": 0, "values": 0, "refused": 0}
        for number in range(SCHEMAS):
            schema = schemas.any(3)
            validator, closed = Validator(schema), ClosedValidator(schema)
            values = [value for value in (schemas.value(schema) for _ in range(6)) if closed.is_valid(value)]
            answer = self.tool.ask(schema, map(dump, values), seed=rng.randrange(1 << 31))
            context = f"schema {number}: {dump(schema)}\n{answer.get('grammar')}"
            if "error" in answer:
                # Nothing valid, or a combination that is refused by name: both are rare, and no value was found valid.
                counts["refused"] += 1
                nothing = "nothing is valid" in answer["error"]
                self.assertTrue(nothing or "cannot be enforced" in answer["error"], answer["error"] + "\n" + context)
                self.assertFalse(nothing and values, f"{values} are valid: {context}")
                continue
            for walk in answer["walks"]:
                counts["walks"] += 1
                self.assertTrue(validator.is_valid(load(walk)), f"{walk} is not valid: {context}")
            for value, matched in zip(values, answer["matches"], strict=True):
                counts["values"] += 1
                self.assertTrue(matched or self.matches_reordered(schema, value), f"{dump(value)} is not matched: {context}")
        print(counts, flush=True)
        self.assertGreater(counts["walks"], SCHEMAS * 3)
        self.assertGreater(counts["values"], SCHEMAS)
        self.assertLess(counts["refused"], SCHEMAS // 4)

    def matches_reordered(self, schema, value):
        """A value that was made for one alternative may be valid by another one, which has its members in another order."""
        if "anyOf" not in dump(schema):
            return False
        return any(self.tool.ask(schema, map(dump, orders(schema, value)), seed=1)["matches"])


class HostileSchemas(GrammarCase):
    """Refused, or turned into a grammar of bounded size, in no time."""

    def ask(self, schema):
        begin = time.monotonic()
        answer = self.tool.ask(schema, walks=0)
        self.assertLess(time.monotonic() - begin, 5, "generous: machines are busy")
        self.assertLess(len(answer.get("grammar", "")), 600_000)
        return answer

    def refused(self, schema, words):
        self.assertIn(words, self.ask(schema).get("error", "none"))

    def test_deep(self):
        schema = True
        for _ in range(90):
            schema = {"type": "array", "items": schema}
        self.refused(schema, "nested too deep")

    def test_wide(self):
        self.refused({"properties": {f"p{i}": {"type": "string"} for i in range(9000)}}, "too many parts")
        self.refused({"properties": {f"property-{i}": {"type": "string"} for i in range(4000)},
                      "additionalProperties": True}, "schema: ")
        self.refused({"enum": list(range(6000))}, "'enum' has more than 5000 members")
        self.refused({"const": "x" * 600_000}, "longer than 524288 bytes")
        self.assertIn("grammar", self.ask({"properties": {f"p{i}": {"type": "string"} for i in range(1000)}}))

    def test_counts(self):
        self.refused({"type": "string", "maxLength": 10**6}, "counts further than 65536")
        self.refused({"type": "array", "items": True, "minItems": 10**15}, "counts further than 65536")
        self.refused({"type": "string", "pattern": "^a{70000}$"}, "counts further than 65536")
        self.assertIn("grammar", self.ask({"type": "string", "maxLength": 65536}))
        self.assertIn("grammar", self.ask({"type": "string", "pattern": "^((((a{200}){200}){200}){200}){200}$"}))

    def test_references_that_double(self):
        schema = {"$ref": "#/$defs/d0", "$defs": {"d60": {"type": "null"}}}
        for keyword in ("allOf", "anyOf"):
            for i in range(60):
                two = [{"$ref": f"#/$defs/d{i + 1}"}, {"$ref": f"#/$defs/d{i + 1}", "minLength": i}]
                schema["$defs"][f"d{i}"] = {keyword: two}
            self.ask(schema)

    def test_choices_that_multiply(self):
        parts = [{"anyOf": [{"minLength": i}, {"maxLength": 100 + i}, {"pattern": f"^a{i}"}]} for i in range(30)]
        self.refused({"type": "string", "allOf": parts}, "schema")
        self.refused({"allOf": parts * 2}, "schema")

    def test_patterns(self):
        self.refused({"type": "string", "pattern": "(" * 5000 + ")" * 5000}, "nested too deep")
        self.ask({"type": "string", "pattern": "(a|b|" * 50 + "c" + ")*d" * 50})
        self.ask({"type": "string", "pattern": "[" + "".join(chr(0x100 + 2 * i) for i in range(3000)) + "]"})
        self.ask({"enum": ["a" * 50_000], "pattern": "^(a+)+(a+)+(a+)+b$"})


if __name__ == "__main__":
    unittest.main(verbosity=2)
