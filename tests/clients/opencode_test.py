"""opencode against the real server: a session with a call, its continuation, and a second session."""

import os

from client_case import OPENCODE, ClientCase, package_path
from scripted_proxy import Call
from support import main


def is_main(body):
    """In chat completions a tool's name lies within its function."""
    return any(tool.get("function", tool).get("name") == "task" for tool in body.get("tools", []))


class OpenCode(ClientCase):
    def configure(self, port, library):
        self.write(os.path.join(self.home, ".config", "opencode", "opencode.json"), {
            "$schema": "https://opencode.ai/config.json",
            "model": "kvkeep/local",
            "provider": {"kvkeep": {
                "npm": library,
                "name": "kvkeep",
                "options": {"baseURL": f"http://127.0.0.1:{port}/v1", "apiKey": "none"},
                "models": {"local": {"name": "local", "limit": {"context": 65536, "output": 4096}}},
            }},
        })

    def say(self, *arguments):
        return self.run_client(package_path(OPENCODE, "bin", "opencode"), "run", *arguments, environment={
            "OPENCODE_DISABLE_AUTOUPDATE": "1", "OPENCODE_DISABLE_MODELS_FETCH": "1"})

    def test_over_chat_completions(self):
        self.two_sessions("@ai-sdk/openai-compatible")

    def test_over_responses(self):
        self.two_sessions("@ai-sdk/openai")

    def two_sessions(self, library):
        proxy = self.start(is_main)
        self.configure(proxy.port, library)
        readme = os.path.join(self.project, "README.md")

        proxy.script += [Call("read", {"filePath": readme}), "It is about trees."]
        self.assertIn("It is about trees.", self.say("What is README.md about?"))
        proxy.script += ["An oak, I think."]
        self.assertIn("An oak, I think.", self.say("--continue", "Which one is the tallest?"))
        self.commit_a_change(readme)
        proxy.script += [Call("glob", {"pattern": "*.md"}), Call("read", {"filePath": readme}), "Four kinds."]
        self.assertIn("Four kinds.", self.say("How many kinds of trees are there?"))

        first, result, more, other, second_result, third_result = self.traced(proxy)
        self.assert_goes_on(first, result)
        self.assert_goes_on(result, more)
        self.assert_known_up_to_its_difference(other, least_share=0.98)
        self.assert_goes_on(other, second_result)
        self.assert_goes_on(second_result, third_result)

    def commit_a_change(self, readme):
        self.write(readme, "# Trees\n\nOaks, limes, ashes and one beech.\n")
        self.commit()


if __name__ == "__main__":
    main()
