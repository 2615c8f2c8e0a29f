"""cline's command line against the real server: a session with a call, and a second session."""

import os

from client_case import CLINE, ClientCase, package_path
from scripted_proxy import Call
from support import main


class Cline(ClientCase):
    def cline(self, *arguments):
        return self.run_client(package_path(CLINE, "bin", "cline"), *arguments)

    def test_two_sessions(self):
        proxy = self.start(lambda body: bool(body.get("tools")))
        self.cline("auth", "--provider", "openai", "--baseurl", f"http://127.0.0.1:{proxy.port}/v1", "--apikey", "none",
                   "--modelid", "local")
        read = Call("read_files", {"files": [{"path": os.path.join(self.project, "README.md")}]})
        proxy.script += [read, "It is about trees."]
        self.assertIn("It is about trees.", self.cline("What is README.md about?"))
        proxy.script += [Call("search_codebase", {"queries": ["beech"]}), read, "Three kinds."]
        self.assertIn("Three kinds.", self.cline("How many kinds of trees are there?"))

        first, result, other, second_result, third_result = self.traced(proxy)
        self.assert_goes_on(first, result)
        self.assert_known_up_to_its_difference(other, least_share=0.97)
        self.assert_goes_on(other, second_result)
        self.assert_goes_on(second_result, third_result)


if __name__ == "__main__":
    main()
