"""Claude Code against the real server: a session with calls, its continuation, and a second session."""

import os

from client_case import CLAUDE_CODE, ClientCase, package_path
from scripted_proxy import Call
from support import main


class ClaudeCode(ClientCase):
    def say(self, port, model, *arguments):
        return self.run_client(
            package_path(CLAUDE_CODE, "claude"), "--model", model, "--allowedTools", "Read,Edit,Glob", *arguments,
            environment={
                "ANTHROPIC_BASE_URL": f"http://127.0.0.1:{port}", "ANTHROPIC_API_KEY": "none",
                "ANTHROPIC_DEFAULT_HAIKU_MODEL": model, "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1"})

    def test_a_model_name_that_it_does_not_know(self):
        # Some of its system prompt comes after the user's first message then.
        self.two_sessions("local", least_share=0.75)

    def test_a_model_name_that_it_knows(self):
        self.two_sessions("claude-sonnet-4-5", least_share=0.98)

    def two_sessions(self, model, least_share):
        proxy = self.start(lambda body: any(tool.get("name") == "Edit" for tool in body.get("tools", [])), model)
        readme = os.path.join(self.project, "README.md")
        # It sends this call back with a key that was not sampled: "replace_all".
        edit = Call("Edit", {"file_path": readme, "old_string": "one beech", "new_string": "two beeches"})
        proxy.script += [Call("Read", {"file_path": readme}), edit, "It is about trees."]
        self.assertIn("It is about trees.", self.say(proxy.port, model, "-p", "What is README.md about?"))
        with open(readme) as file:
            self.assertIn("two beeches", file.read())
        proxy.script += ["An oak, I think."]
        self.assertIn("An oak, I think.", self.say(proxy.port, model, "--continue", "-p", "Which one is the tallest?"))
        self.git("checkout", "README.md")  # its prompt has git's status
        proxy.script += [Call("Read", {"file_path": readme}), "Three kinds."]
        self.assertIn("Three kinds.", self.say(proxy.port, model, "-p", "How many kinds of trees are there?"))

        first, read, edited, more, other, last = self.traced(proxy)
        self.assert_goes_on(first, read)
        self.assert_goes_on(read, edited)
        self.assert_goes_on(edited, more)
        self.assert_known_up_to_its_difference(other, least_share)
        self.assert_goes_on(other, last)


if __name__ == "__main__":
    main()
