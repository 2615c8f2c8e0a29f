"""Claude Code against the real server: a session with calls, its continuation, and a second session; a session with a
screenshot.
"""

import os
import re
import urllib.request

from client_case import CLAUDE_CODE, ClientCase, package_path
from media_test import png
from scripted_proxy import Call
from support import main, model, needs_libmtmd


def edits(body):
    """Returns true for a request of the main conversation."""
    return any(tool.get("name") == "Edit" for tool in body.get("tools", []))


class ClaudeCode(ClientCase):
    def say(self, port, name, *arguments):
        return self.run_client(
            package_path(CLAUDE_CODE, "claude"), "--model", name, "--allowedTools", "Read,Edit,Glob", *arguments,
            environment={
                "ANTHROPIC_BASE_URL": f"http://127.0.0.1:{port}", "ANTHROPIC_API_KEY": "none",
                "ANTHROPIC_DEFAULT_HAIKU_MODEL": name, "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1"})

    def test_a_model_name_that_it_does_not_know(self):
        # Some of its system prompt comes after the user's first message then.
        self.two_sessions("local", least_share=0.75)

    def test_a_model_name_that_it_knows(self):
        self.two_sessions("claude-sonnet-4-5", least_share=0.98)

    @needs_libmtmd
    def test_a_screenshot_is_encoded_once(self):
        """The tool that reads files shows the picture to the model, and each later turn sends it again."""
        kind = ("--arch", "qwen3vl")
        proxy = self.start(edits, "local", "--metrics", "--mmproj", model("--mmproj", *kind), model_path=model(*kind))
        path = os.path.join(self.project, "screen.png")
        with open(path, "wb") as file:
            file.write(png(1, 640, 400))
        proxy.script += [Call("Read", {"file_path": path}), "A pattern, I think."]
        self.assertIn("A pattern, I think.", self.say(proxy.port, "local", "-p", "What does screen.png show?"))
        self.assertEqual(self.encoded_files(proxy), 1)
        proxy.script += ["Blue."]
        self.assertIn("Blue.", self.say(proxy.port, "local", "--continue", "-p", "Which colour is it?"))
        self.assertEqual(self.encoded_files(proxy), 1)
        first, seen, more = self.traced(proxy)
        self.assert_goes_on(first, seen)
        self.assert_goes_on(seen, more)

    def encoded_files(self, proxy):
        with urllib.request.urlopen(f"http://127.0.0.1:{proxy.port}/metrics") as reply:
            return float(re.search(r"(?m)^kvkeep_media_encoded_total (\S+)$", reply.read().decode()).group(1))

    def two_sessions(self, name, least_share):
        proxy = self.start(edits, name)
        readme = os.path.join(self.project, "README.md")
        # It sends this call back with a key that was not sampled: "replace_all".
        edit = Call("Edit", {"file_path": readme, "old_string": "one beech", "new_string": "two beeches"})
        proxy.script += [Call("Read", {"file_path": readme}), edit, "It is about trees."]
        self.assertIn("It is about trees.", self.say(proxy.port, name, "-p", "What is README.md about?"))
        with open(readme) as file:
            self.assertIn("two beeches", file.read())
        proxy.script += ["An oak, I think."]
        self.assertIn("An oak, I think.", self.say(proxy.port, name, "--continue", "-p", "Which one is the tallest?"))
        self.git("checkout", "README.md")  # its prompt has git's status
        proxy.script += [Call("Read", {"file_path": readme}), "Three kinds."]
        self.assertIn("Three kinds.", self.say(proxy.port, name, "-p", "How many kinds of trees are there?"))

        first, read, edited, more, other, last = self.traced(proxy)
        self.assert_goes_on(first, read)
        self.assert_goes_on(read, edited)
        self.assert_goes_on(edited, more)
        self.assert_known_up_to_its_difference(other, least_share)
        self.assert_goes_on(other, last)


if __name__ == "__main__":
    main()
