"""Pictures and sounds as openai, @anthropic-ai/sdk and ai send them: each is understood, and encoded once."""

import node_run
from media_test import png, wav
from support import ServerCase, fresh_path, main, model


class MediaParts(ServerCase):
    def test_each_library(self):
        node_run.install()
        kind = ("--arch", "qwen3vl")
        sees = self.server("--metrics", "-c", 2048, "--mmproj", model("--mmproj", *kind), model_path=model(*kind))
        hears = self.server("--metrics", "-c", 2048, "--mmproj", model("--mmproj"))
        files = {"PICTURE": (fresh_path("a.png"), png(7)), "SOUND": (fresh_path("a.wav"), wav(7))}
        for path, contents in files.values():
            with open(path, "wb") as file:
                file.write(contents)
        node_run.run_script("media.mjs", {"SEES": f"http://127.0.0.1:{sees.port}", "HEARS": f"http://127.0.0.1:{hears.port}",
                                          **{name: path for name, (path, _) in files.items()}})


if __name__ == "__main__":
    main()
