"""codex against the real server: a session with a call, its continuation, and a second session."""

import os

from client_case import ClientCase, package_path
from scripted_proxy import Call
from support import main


def program():
    [triple] = os.listdir(package_path("@openai", "codex", "vendor"))
    return package_path("@openai", "codex", "vendor", triple, "bin", "codex")


class Codex(ClientCase):
    def configure(self, port):
        self.write(os.path.join(self.home, ".codex", "config.toml"), f"""
model = "local"
model_provider = "kvkeep"
model_context_window = 65536
approval_policy = "never"
sandbox_mode = "danger-full-access"

[model_providers.kvkeep]
name = "kvkeep"
base_url = "http://127.0.0.1:{port}/v1"
wire_api = "responses"
""")

    def say(self, *arguments):
        return self.run_client(program(), "exec", *arguments)

    def test_two_sessions(self):
        proxy = self.start(lambda body: any(tool.get("name") == "exec_command" for tool in body.get("tools", [])))
        self.configure(proxy.port)
        read = Call("exec_command", {"cmd": "cat README.md"})
        proxy.script += [read, "It is about trees."]
        self.assertIn("It is about trees.", self.say("What is README.md about?"))
        proxy.script += ["An oak, I think."]
        self.assertIn("An oak, I think.", self.say("resume", "--last", "Which one is the tallest?"))
        proxy.script += [Call("exec_command", {"cmd": "ls"}), read, "Three kinds."]
        self.assertIn("Three kinds.", self.say("How many kinds of trees are there?"))

        first, result, more, other, second_result, third_result = self.traced(proxy)
        self.assert_goes_on(first, result)
        self.assert_goes_on(result, more)
        self.assert_known_up_to_its_difference(other, least_share=0.98)
        self.assert_goes_on(other, second_result)
        self.assert_goes_on(second_result, third_result)


if __name__ == "__main__":
    main()
