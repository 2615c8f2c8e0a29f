"""kill -9 at random moments under load, 50 times on one directory: each time the server starts again with right
answers, nothing over the budget and no unfinished file left. KVKEEP_TEST_SEED repeats a run, as far as timing allows;
KVKEEP_KILLS changes the number.
"""

import concurrent.futures
import contextlib
import http.client
import os
import subprocess
import time

from support import (NOISE, HttpError, ServerCase, assistant, files_under, fresh_directory, main, make_random,
                     physical_bytes, reply_text, timings, user, wait_until,
                     words)

KILLS = int(os.environ.get("KVKEEP_KILLS", "50"))
BUDGET_MIB = 2
CLIENTS = 3
CONVERSATIONS = 8
COMPLETION = "/v1/completions"


class KillLoop(ServerCase):
    @classmethod
    def start_class_servers(cls):
        cls.plain = cls.class_server("--cache-ram", 0)

    def converse(self, server, choose):
        """A client: conversations that go on and branch, until the server dies under it."""
        with contextlib.suppress(OSError, http.client.HTTPException, HttpError):
            while True:
                messages = [user(f"Conversation {choose.randrange(CONVERSATIONS)}: {words(120, 1)}")]
                for turn in range(choose.randrange(1, 5)):
                    reply = server.chat(messages, max_tokens=choose.choice((1, 8, 60)))
                    messages += [assistant(reply_text(reply)), user(words(choose.choice((5, 40, 200)), turn))]

    def check_answer(self, server, ids):
        """The cached answer is the truth's, give or take the noise of cell order (support.NOISE). Returns cache_n."""
        body = {"prompt": ids, "max_tokens": 1, "temperature": 0, "return_tokens": True}
        reply = server.post(COMPLETION, body)
        [token] = reply["tokens"]
        favoured = self.plain.post(COMPLETION, {**body, "cache_prompt": False, "logit_bias": {str(token): NOISE}})
        self.assertEqual(favoured["tokens"], [token])
        return timings(reply)["cache_n"]

    @staticmethod
    def die_while_starting(server, choose):
        with subprocess.Popen([*server.command, "--port", "0"], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                              stderr=subprocess.DEVNULL) as process:
            time.sleep(choose.uniform(0.0, 0.5))
            process.kill()

    def check_directory(self, directory):
        self.assertLessEqual(physical_bytes(directory), BUDGET_MIB << 20)
        # A server that runs may be writing one; one that is left behind stays.
        wait_until(lambda: not [path for path in files_under(directory) if path.endswith(".tmp")],
                   "no unfinished file is left")

    def test_kills_at_random_moments(self):
        choose = make_random()
        directory = fresh_directory()
        server = self.server("--kv-disk-dir", directory, "--kv-disk-space-mb", BUDGET_MIB, "--restore", "always",
                             "--cache-ram", 1, "-b", 64, "-ub", 64)
        prompts = [self.plain.prompt_ids([user(f"Conversation {number}: {words(120, 1)}")])
                   for number in range(CONVERSATIONS)]
        reused = 0
        for _ in range(KILLS):
            with concurrent.futures.ThreadPoolExecutor(CLIENTS) as pool:
                clients = [pool.submit(self.converse, server, type(choose)(choose.randrange(1 << 32)))
                           for _ in range(CLIENTS)]
                time.sleep(choose.uniform(0.0, 0.5))
                self.assertLessEqual(physical_bytes(directory), BUDGET_MIB << 20)
                server.kill()
                for client in clients:
                    client.result(timeout=60)
                if choose.random() < 0.2:
                    self.die_while_starting(server, choose)
                server.start()
                self.check_directory(directory)
                for ids in choose.sample(prompts, 3):
                    reused += self.check_answer(server, ids) > 0
        self.assertNotIn("damaged", server.log(), "a file that was renamed into place is whole")
        self.assertGreater(reused, KILLS, "the kills were to leave something to reuse")
        self.assertEqual(server.stop(), 0)
        self.check_directory(directory)


if __name__ == "__main__":
    main()
