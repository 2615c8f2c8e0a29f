"""A prompt that a request asked to keep for a time is still there when all others of its age have left."""

import unittest

from support import ServerCase, timings, user, words

PROMPT_TOKENS = 200


def chat(text, **fields):
    return "/v1/chat/completions", {"messages": [user(text)], "max_tokens": 2, **fields}


def completion(text, **fields):
    return "/v1/completions", {"prompt": text, "max_tokens": 2, **fields}


def message(text, ttl):
    mark = {"type": "ephemeral", **({"ttl": ttl} if ttl else {})}
    return "/v1/messages", {"messages": [{"role": "user", "content": [{"type": "text", "text": text,
                                                                        "cache_control": mark}]}],
                            "model": "any", "max_tokens": 2}


def response(text, **fields):
    return "/v1/responses", {"input": text, "max_output_tokens": 2, **fields}


# They differ from the first letter on: what several prompts begin with stays for all of them.
KEPT = [chat(f"apples {words(PROMPT_TOKENS, 1)}", prompt_cache_retention="24h"),
        completion(f"berries {words(PROMPT_TOKENS, 2)}", prompt_cache_options={"mode": "implicit", "ttl": "30m"}),
        message(f"cherries {words(PROMPT_TOKENS, 3)}", "1h"),
        response(f"lemons {words(PROMPT_TOKENS, 7)}", prompt_cache_retention="24h")]
OTHERS = [chat(f"dates {words(PROMPT_TOKENS, 4)}", prompt_cache_retention="in_memory"),
          completion(f"elders {words(PROMPT_TOKENS, 5)}", prompt_cache_options={"mode": "explicit"}),
          message(f"figs {words(PROMPT_TOKENS, 6)}", None)]


class KeptPrompts(ServerCase):
    def cached(self, server, request):
        path, body = request
        return timings(server.post(path, body))["cache_n"]

    def test_kept_prompts_leave_last(self):
        server = self.server("-np", 1, "-c", 512, "--restore", "always", "--cache-ram", 2, "--replay", "canonical",
                             "--no-prefill-ahead")
        hello = chat("hello")  # the beginning that all chats share stays with it
        for request in [hello, *OTHERS, *KEPT]:
            self.cached(server, request)
        for number in range(120):
            self.cached(server, completion(f"{number} {words(PROMPT_TOKENS, 100 + number)}"))
        for request in KEPT:
            self.assertGreater(self.cached(server, request), PROMPT_TOKENS, request[0])
        for request in OTHERS:
            self.assertLess(self.cached(server, request), PROMPT_TOKENS, request[0])

    def test_a_time_that_is_none_is_refused(self):
        server = self.server()
        for path, body in (chat("hi", prompt_cache_retention="forever"), completion("hi", prompt_cache_retention=1)):
            self.assert_refused(400, server.post, path, body, contains="prompt_cache_retention")


if __name__ == "__main__":
    unittest.main()
