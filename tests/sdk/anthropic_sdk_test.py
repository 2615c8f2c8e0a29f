"""@anthropic-ai/sdk against the real server: what its users call works, and fails as they expect."""

import node_run
from support import ServerCase, main, wait_until


class AnthropicSdk(ServerCase):
    def test_messages(self):
        node_run.install()
        server = self.server("-c", 2048, "--api-key", "secret", "--max-body-mb", 1)
        node_run.run_script("anthropic_sdk.mjs", {"BASE_URL": f"http://127.0.0.1:{server.port}", "API_KEY": "secret"})
        # An aborted reply is not generated to its end, and the server answers.
        wait_until(lambda: " done end=client-left " in server.log(), "a reply that was aborted ends")
        reply = server.post("/v1/messages", {"max_tokens": 1, "messages": [{"role": "user", "content": "x"}]},
                            headers={"x-api-key": "secret"})
        self.assertEqual(reply["type"], "message")


if __name__ == "__main__":
    main()
