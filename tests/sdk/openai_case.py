"""The servers that the suites with OpenAI's dialect run against: one with a key and narrow limits, one whose template
knows thoughts."""

import os

import node_run
from support import ServerCase, user, wait_until

THINKING = os.path.join(node_run.HERE, "thinking.jinja")


class OpenAiCase(ServerCase):
    def run_suite(self, script):
        node_run.install()
        server = self.server("-c", 2048, "-a", "local", "--strict-model-names", "--api-key", "secret", "--max-body-mb", 1,
                             "--embeddings", "--pooling", "mean")
        thinker = self.server("-c", 2048, "-a", "local", "--chat-template-file", THINKING)
        node_run.run_script(script, {"BASE_URL": f"http://127.0.0.1:{server.port}/v1", "API_KEY": "secret",
                                     "THINKER_URL": f"http://127.0.0.1:{thinker.port}/v1"})
        # An aborted reply is not generated to its end, and the server answers.
        wait_until(lambda: " done end=client-left " in server.log(), "a reply that was aborted ends")
        reply = server.post("/v1/chat/completions", {"max_tokens": 1, "messages": [user("x")]},
                            headers={"authorization": "Bearer secret"})
        self.assertEqual(reply["object"], "chat.completion")
