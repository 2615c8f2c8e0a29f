"""A kvkeep that was built without libmtmd: it serves text, and refuses a projector with the reason."""

from support import ServerCase, main, model, run_program, serve_command, user

CHAT = "/v1/chat/completions"
DOT = "data:image/gif;base64,R0lGODlhAQABAIAAAAAAAP///ywAAAAAAQABAAACAkQBADs="


class WithoutLibmtmd(ServerCase):
    def test_a_projector_is_refused_with_the_reason(self):
        command = serve_command("--mmproj", model("--mmproj"), "--no-kv-disk", model_path=model())
        ended = run_program(*command[1:])
        self.assertNotEqual(ended.returncode, 0)
        self.assertIn("--mmproj: this kvkeep was built without libmtmd: it knows no pictures and sound", ended.stderr)

    def test_text_is_served_and_pictures_are_refused(self):
        server = self.server()
        server.post(CHAT, {"messages": [user("Hello")], "max_tokens": 2})
        shown = {"role": "user", "content": [{"type": "image_url", "image_url": {"url": DOT}}]}
        self.assert_refused(400, server.post, CHAT, {"messages": [shown], "max_tokens": 2},
                            contains="image input is not supported")


if __name__ == "__main__":
    main()
