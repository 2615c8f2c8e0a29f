"""qwen-code against the real server: a session with a call, and a second session."""

import os

from client_case import ClientCase, package_path
from scripted_proxy import Call
from support import main


class QwenCode(ClientCase):
    def say(self, port, prompt):
        return self.run_client("node", package_path("@qwen-code", "qwen-code", "cli-entry.js"), "--auth-type", "openai",
                               "--approval-mode", "yolo", prompt, environment={
                                   "OPENAI_BASE_URL": f"http://127.0.0.1:{port}/v1", "OPENAI_API_KEY": "none",
                                   "OPENAI_MODEL": "local"})

    def test_two_sessions(self):
        # Its memory, which works beside it, has fewer tools.
        proxy = self.start(lambda body: any(tool["function"]["name"] == "agent" for tool in body.get("tools", [])))
        readme = os.path.join(self.project, "README.md")
        proxy.script += [Call("read_file", {"file_path": readme}), "It is about trees."]
        self.assertIn("It is about trees.", self.say(proxy.port, "What is README.md about?"))
        proxy.script += [Call("glob", {"pattern": "*.md"}), Call("read_file", {"file_path": readme}), "Three kinds."]
        self.assertIn("Three kinds.", self.say(proxy.port, "How many kinds of trees are there?"))

        first, result, other, second_result, third_result = self.traced(proxy)
        self.assert_goes_on(first, result)
        self.assert_known_up_to_its_difference(other, least_share=0.98)
        self.assert_goes_on(other, second_result)
        self.assert_goes_on(second_result, third_result)


if __name__ == "__main__":
    main()
