"""Threads that compute must not sleep within a token.

libgomp gives each thread that opens a parallel region a pool of workers. Where two threads of the program compute, there
are more workers than processors, libgomp stops spinning, and every barrier puts a worker to sleep: some 200 voluntary
context switches a token, and a quarter of the speed (measured with `--size real` on two processors). With one pool there
are a handful, for the threads that pass the token on.

Other programs on the machine cause switches too: whoever loses its processor makes the others wait. So the reply is cut
into stretches, the calmest one counts, and the test is given the machine for itself (RUN_SERIAL).
"""

import os
import unittest

from support import ServerCase, model, user

SWITCHES_PER_TOKEN_MAX = 6
STRETCH_TOKENS = 32
STRETCHES = 12
REPLIES_MAX = 6


def voluntary_switches(pid):
    """Returns the switches of all threads of the process, since each began."""
    total = 0
    for task in os.listdir(f"/proc/{pid}/task"):
        with open(f"/proc/{pid}/task/{task}/status") as status:
            total += next(int(line.split()[1]) for line in status if line.startswith("voluntary_ctxt_switches"))
    return total


class DecodeSwitchesTest(ServerCase):
    def test_a_token_takes_a_handful_of_context_switches(self):
        """At the default number of threads, one stream alone."""
        server = self.server("-c", "2048", "--cache-ram", "64", base=False, default_threads=True,
                             model_path=model("--size", "small"), count_shim=None)
        calmest = float("inf")
        for reply in range(REPLIES_MAX):
            calmest = min(calmest, *self.switches_per_token(server, f"Reply {reply}"))
            if calmest <= SWITCHES_PER_TOKEN_MAX:
                break
        print(f"{calmest:.1f} voluntary context switches per token in the calmest {STRETCH_TOKENS} tokens", flush=True)
        self.assertLessEqual(calmest, SWITCHES_PER_TOKEN_MAX)

    def switches_per_token(self, server, text):
        """One figure for each stretch of the reply."""
        body = {"messages": [user(text)], "max_tokens": STRETCHES * STRETCH_TOKENS, "temperature": 0, "stream": True}
        figures, tokens, before = [], 0, None
        for _, event in server.stream("/v1/chat/completions", body):
            if event == "[DONE]" or not event["choices"] or not event["choices"][0]["delta"].get("content"):
                continue
            if tokens % STRETCH_TOKENS == 0:
                now = voluntary_switches(server.process.pid)
                if before is not None:
                    figures.append((now - before) / STRETCH_TOKENS)
                before = now
            tokens += 1
        self.assertGreaterEqual(len(figures), STRETCHES // 2, f"{tokens} tokens came")
        return figures


if __name__ == "__main__":
    unittest.main()
