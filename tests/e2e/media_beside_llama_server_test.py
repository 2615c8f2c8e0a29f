"""Pictures and sound beside llama-server, with the same model, projector and requests: what it takes kvkeep takes, in replies
of the same shape, and what it refuses kvkeep refuses, unless a reason stands here.

llama.cpp's own tests of this (test_vision_api.py) download their model and pictures.
"""

import os

from media_test import KINDS, MediaCase, block, data_url, encoded, gif, jpeg, png, text, wav
from support import ServerProcess, fresh_directory, fresh_path, main, model, user

LLAMA_SERVER = os.environ["KVKEEP_LLAMA_SERVER"]
CHAT, MESSAGES, RESPONSES, COMPLETION = "/v1/chat/completions", "/v1/messages", "/v1/responses", "/completions"
MARKER = "<__media__>"  # the one that llama-server had before it drew one at each start
PICTURE = png(1)
# Fields of its replies that have nothing to do with files, and are not compared: the first is of replies that were not cut
# in OpenAI's API, the second of no error in Anthropic's, and the third lists settings.
OTHERS = {"completed_at", "code", "generation_settings"}


def url_part(url):
    return {"type": "image_url", "image_url": {"url": url}}


def asks(*parts):
    return {"messages": [{"role": "user", "content": [text("What is this?"), *parts]}], "max_tokens": 4, "temperature": 0}


def completes(prompt, *files):
    return {"prompt": {"prompt_string": prompt, "multimodal_data": list(files)}, "n_predict": 4, "temperature": 0}


def sound(file, form="wav"):
    return {"type": "input_audio", "input_audio": {"data": encoded(file), "format": form}}


class Pair(MediaCase):
    @classmethod
    def start_pair(cls, kind, *flags):
        cls.pictures = fresh_directory("pictures")
        cls.outside = fresh_path("outside.png")
        for place in (os.path.join(cls.pictures, "a.png"), cls.outside):
            with open(place, "wb") as file:
                file.write(PICTURE)
        path = model(*kind)
        flags = ("--mmproj", model("--mmproj", *kind), "--media-path", cls.pictures, "-c", "2048", "-t", "1", *flags)
        environment = {"LLAMA_MEDIA_MARKER": MARKER}
        cls.ours = cls.class_server(*flags, base=False, model_path=path, environment=environment)
        cls.theirs = cls._class_stack.enter_context(ServerProcess(
            [LLAMA_SERVER, "-m", path, *flags, "--no-warmup"], environment=environment, log_path=fresh_path("llama-server.log")))

    def both(self, path, body):
        return [self.send(server, path, body) for server in (self.ours, self.theirs)]

    def assert_taken_by_both(self, requests):
        """kvkeep's replies have everything that llama-server's have."""
        for what, (path, body) in requests.items():
            with self.subTest(what):
                (status, ours), (their_status, theirs) = self.both(path, body)
                self.assertEqual((status, their_status), (200, 200), (ours, theirs))
                self.assert_has(what, ours, theirs)

    def assert_refused_by_both(self, requests):
        for what, (path, body) in requests.items():
            with self.subTest(what):
                (status, ours), (their_status, theirs) = self.both(path, body)
                self.assertEqual(status, 400, ours)
                self.assertIn(their_status, (400, 500), theirs)
                self.assert_has(what, ours["error"], theirs["error"])

    def assert_has(self, place, ours, theirs):
        if isinstance(theirs, dict):
            self.assertEqual(set(theirs) - set(ours) - OTHERS, set(), place)
            for name in (set(theirs) & set(ours)) - OTHERS:
                self.assert_has(f"{place}.{name}", ours[name], theirs[name])
        elif isinstance(theirs, list) and theirs and ours:
            self.assert_has(f"{place}[0]", ours[0], theirs[0])
        elif theirs is not None and ours is not None and not isinstance(theirs, list):
            self.assertIs(isinstance(ours, str), isinstance(theirs, str), place)


class Pictures(Pair):
    @classmethod
    def start_class_servers(cls):
        cls.start_pair(KINDS["gemma3"])

    def test_both_say_that_the_model_sees(self):
        for path in ("/models", "/v1/models"):
            for server in (self.ours, self.theirs):
                self.assertLessEqual({"completion", "multimodal"}, set(server.get(path)["models"][0]["capabilities"]))
        ours, theirs = (server.get("/props") for server in (self.ours, self.theirs))
        self.assertEqual(ours["media_marker"], theirs["media_marker"])
        self.assertEqual(ours["modalities"], {**theirs["modalities"], "video": False})

    def test_pictures_in_chats(self):
        whole, coded = data_url(PICTURE), encoded(PICTURE)
        urls = {"a data: URL": whole, "the MIME type of another format": "data:image/jpeg;base64," + coded,
                "a parameter of the MIME type": "data:image/png;charset=utf-8;base64," + coded, "base64 without a prefix": coded,
                "base64 without padding": whole.rstrip("="), "a file": "file://a.png", "a file with a point": "file://./a.png",
                "a GIF": "data:image/gif;base64," + encoded(gif(2)), "a JPEG": "data:image/jpeg;base64," + encoded(jpeg(64))}
        requests = {what: (CHAT, asks(url_part(url))) for what, url in urls.items()}
        requests |= {"two pictures": (CHAT, asks(url_part(whole), url_part(data_url(png(2))))), "none": (CHAT, asks()),
                     "counting": (CHAT + "/input_tokens", asks(url_part(whole))),
                     "probabilities": (CHAT, {**asks(url_part(whole)), "logprobs": True, "top_logprobs": 2}),
                     "a picture in the system prompt": (CHAT, {"max_tokens": 4, "messages": [
                         {"role": "system", "content": [text("Look."), url_part(whole)]}, user("Seen?")]})}
        self.assert_taken_by_both(requests)

    def test_pictures_in_other_apis(self):
        shown = {"model": "m", "max_tokens": 4, "messages": [{"role": "user", "content": [block(PICTURE), text("Seen?")]}]}
        from_tool = {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t", "content": [text("Here."), block(PICTURE)]}]}
        call = {"role": "assistant", "content": [{"type": "tool_use", "id": "t", "name": "see", "input": {}}]}
        tools = [{"name": "see", "input_schema": {"type": "object"}}]
        by_url = {"type": "image", "source": {"type": "url", "url": data_url(PICTURE)}}
        asked = {"max_output_tokens": 4, "input": [{"role": "user", "content": [
            {"type": "input_text", "text": "Seen?"}, {"type": "input_image", "image_url": data_url(PICTURE)}]}]}
        self.assert_taken_by_both({
            "messages": (MESSAGES, shown), "messages, counted": (MESSAGES + "/count_tokens", shown),
            "messages, by URL": (MESSAGES, {**shown, "messages": [{"role": "user", "content": [by_url, text("Seen?")]}]}),
            "messages, of a tool": (MESSAGES, {**shown, "messages": [user("Look."), call, from_tool], "tools": tools}),
            "responses": (RESPONSES, asked), "responses, counted": (RESPONSES + "/input_tokens", asked)})
        self.assert_refused_by_both({
            "messages": (MESSAGES, {**shown, "messages": [{"role": "user", "content": [block(b"no picture"), text("Seen?")]}]}),
            "responses": (RESPONSES, {"input": [{"role": "user", "content": [{"type": "input_image", "image_url": "malformed"}]}]}),
            "responses, no URL": (RESPONSES, {"input": [{"role": "user", "content": [{"type": "input_image"}]}]})})

    def test_no_pictures_in_chats(self):
        urls = {"another word": "malformed", "nothing": "", "a number": 7, "a data: URL without base64": "data:image/png," + encoded(PICTURE),
                "no base64": "data:image/png;base64,!!!!", "no bytes": "data:image/png;base64,", "base64 with a blank": "data:image/png;base64,iVBO Rw0K",
                "base64 for URLs": "data:image/png;base64," + encoded(PICTURE).replace("/", "_").replace("+", "-"),
                "text": "data:image/png;base64," + encoded(b"hello"), "half a picture": data_url(PICTURE[:60]),
                "another host": "http://127.0.0.1:1/a.png", "no file": "file://none.png", "the directory": "file://",
                "a file elsewhere": "file://../" + os.path.basename(self.outside)}
        requests = {what: (CHAT, asks(url_part(url))) for what, url in urls.items()}
        requests |= {"no URL": (CHAT, asks({"type": "image_url"})), "a sound": (CHAT, asks(sound(wav(1)))),
                     "a string for the picture": (CHAT, asks({"type": "image_url", "image_url": data_url(PICTURE)}))}
        self.assert_refused_by_both(requests)

    def test_pictures_in_completions(self):
        coded, other = encoded(PICTURE), encoded(png(2))
        listed = [completes(MARKER, coded)["prompt"], {"prompt_string": "hi"}, "ho"]
        self.assert_taken_by_both({what: (COMPLETION, body) for what, body in {
            "one": completes(f"What is this: {MARKER}\n", coded), "only one": completes(MARKER, coded),
            "two": completes(f"{MARKER} and {MARKER}!", coded, other), "two and nothing else": completes(MARKER + MARKER, coded, other),
            "none": completes("hi"), "no list": {"prompt": {"prompt_string": "hi"}, "n_predict": 2},
            "null": {"prompt": {"prompt_string": "hi", "multimodal_data": None}, "n_predict": 2},
            "several prompts": {"prompt": listed, "n_predict": 2}, "a list of one": {"prompt": listed[:1], "n_predict": 2}}.items()})
        self.assert_refused_by_both({what: (COMPLETION, body) for what, body in {
            "another word": completes(MARKER, "malformed"), "an empty one": completes("What?", ""), "a URL": completes(MARKER, data_url(PICTURE)),
            "an empty one for a marker": completes(MARKER, ""), "no marker": completes("What?", coded), "a number": completes(MARKER, 7),
            "fewer files than markers": completes(MARKER + MARKER, coded), "fewer markers than files": completes(MARKER, coded, coded),
            "a marker and no file": completes("What is this: " + MARKER), "another marker": completes("<__image__>", coded),
            "no text": completes("", coded), "data without a text": {"prompt": {"multimodal_data": [coded]}},
            "among ids": {"prompt": [1, completes(MARKER, coded)["prompt"]]}}.items()})

    def test_what_only_one_of_them_takes(self):
        """docs/media.md and docs/compatibility.md say why."""
        coded, cut = encoded(PICTURE), encoded(jpeg(256)[:-40])
        reply = {"messages": [user("x"), {"role": "assistant", "content": [url_part(data_url(PICTURE))]}, user("y")], "max_tokens": 4}
        for what, (path, body), only_ours in (
                ("the marker in a message's text", (CHAT, asks(url_part(data_url(PICTURE)), text("Here: " + MARKER))), True),
                ("a file part", (CHAT, asks({"type": "file", "file": {"file_data": data_url(PICTURE)}})), True),
                ("a line break in base64", (CHAT, asks(url_part(f"data:image/png;base64,{coded[:80]}\n{coded[80:]}"))), True),
                ("no MIME type", (CHAT, asks(url_part("data:;base64," + coded))), True),
                ("a file's whole path", (CHAT, asks(url_part(f"file://{self.pictures}/a.png"))), True),
                ("pictures at /v1/completions", ("/v1/completions", completes(MARKER, coded)), True),
                ("a JPEG that was cut off", (CHAT, asks(url_part("data:image/jpeg;base64," + cut))), False),
                ("other characters after base64", (CHAT, asks(url_part(data_url(PICTURE) + "!"))), False),
                ("a picture in a reply", (CHAT, reply), False),
                ("a picture in a prompt's text", ("/apply-template", asks(url_part(data_url(PICTURE)))), False)):
            with self.subTest(what):
                self.assertEqual([status == 200 for status, _ in self.both(path, body)], [only_ours, not only_ours])


class Sounds(Pair):
    @classmethod
    def start_class_servers(cls):
        cls.start_pair(())

    def test_sounds(self):
        self.assert_taken_by_both({"a sound": (CHAT, asks(sound(wav(1)))), "two": (CHAT, asks(sound(wav(1)), sound(wav(2)))),
                                   "a completion": (COMPLETION, completes(MARKER + "What is said?", encoded(wav(1))))})
        self.assert_refused_by_both({"no sound": (CHAT, asks(sound(b"hello"))), "nothing": (CHAT, asks(sound(b""))),
                                     "a picture": (CHAT, asks(url_part(data_url(PICTURE)))), "half": (CHAT, asks(sound(wav(1)[:30])))})


class Embeddings(Pair):
    @classmethod
    def start_class_servers(cls):
        cls.start_pair(KINDS["gemma3"], "--embeddings", "--pooling", "mean")

    def test_only_text_is_embedded(self):
        """llama-server pools the tokens after the picture only, so that the picture reaches them by attention alone."""
        prompt = completes(f"What is this: {MARKER}\n", encoded(PICTURE))["prompt"]
        (status, ours), (their_status, _) = self.both("/embeddings", {"content": [prompt]})
        self.assertEqual((status, their_status), (400, 200))
        self.assertIn("only text is embedded", ours["error"]["message"])
        self.assert_taken_by_both({"no files": ("/embeddings", {"content": [{"prompt_string": "x", "multimodal_data": []}]})})


if __name__ == "__main__":
    main()
