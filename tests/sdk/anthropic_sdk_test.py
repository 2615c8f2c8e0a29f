"""@anthropic-ai/sdk against the real server: what its users call works, and fails as they expect."""

import node_run
from support import ServerCase, main


class AnthropicSdk(ServerCase):
    def test_messages(self):
        node_run.install()
        server = self.server("-c", 2048, "--api-key", "secret", "--max-body-mb", 1)
        node_run.run_script("anthropic_sdk.mjs", {"BASE_URL": f"http://127.0.0.1:{server.port}", "API_KEY": "secret"})
        # Whatever the client did, aborts included: nothing is left running, and the server answers.
        reply = server.post("/v1/messages", {"max_tokens": 1, "messages": [{"role": "user", "content": "x"}]},
                            headers={"x-api-key": "secret"})
        self.assertEqual(reply["type"], "message")


if __name__ == "__main__":
    main()
