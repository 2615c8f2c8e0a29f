"""A directory written under one layout of cells is used under the other: one pool (-kvu) and cells of each request's own
(-no-kvu) store the same state. Texts are those of a server without a cache, but for near ties (exactness_case.py).

Classes of memory that cannot have cells of their own keep the pool; the log says so, and their directories stay usable.
"""

from exactness_case import ExactnessCase
from support import assistant, fresh_directory, main, reply_text, system, timings, user, words

PLACES = 2
CELLS = 4096
LAYOUTS = ("-kvu", "-no-kvu")
MOST_COMPUTED_AGAIN = 8  # tokens: the reply's last one, and up to a point where rows cannot be cut


class Layouts(ExactnessCase):
    told = f"each of {PLACES} running requests has {CELLS // PLACES} cells of its own"  # at the start with -no-kvu
    cells_of_own = CELLS // PLACES
    has_pool = True

    def start(self, directory, layout):
        server = self.server("--restore", "always", "--kv-disk-dir", directory, "-c", CELLS, "-np", PLACES, layout,
                             model_path=self.model_path)
        pool = layout == LAYOUTS[0]
        self.assertIn(f"share one pool of {CELLS} cells" if pool and self.has_pool else self.told, server.log())
        self.assertEqual(server.get("/props")["default_generation_settings"]["n_ctx"],
                         CELLS if pool else self.cells_of_own)
        return server

    def test_each_layout_goes_on_from_what_the_other_stored(self):
        directory = fresh_directory()
        talks = [[system(words(400, 1))], [system(words(150, 2))]]
        known = [0, 0]
        for run in range(4):
            server = self.start(directory, LAYOUTS[run % 2])
            for at, talk in enumerate(talks):
                talk = [*talk, user(f"Turn {run}: {words(25, run)}")]
                reply = self.same_chat(server, talk)
                if run > 0:
                    self.assertEqual(timings(reply)["cache_source"], "disk-token")
                    self.assertGreaterEqual(timings(reply)["cache_n"], known[at] - MOST_COMPUTED_AGAIN)
                talks[at] = [*talk, assistant(reply_text(reply))]
                known[at] = len(server.prompt_ids(talk))
            self.assertEqual(server.stop(), 0)


class Sliceable(Layouts):
    pass


class Windowed(Layouts):
    model_flags = ("--arch", "gemma3", "--window", "64")


class Hybrid(Layouts):
    model_flags = ("--arch", "qwen35")


class Recurrent(Layouts):
    model_flags = ("--arch", "mamba2")
    told = "each running request has a state of its own"
    has_pool = False
    cells_of_own = CELLS


class HybridWithWindow(Layouts):
    model_flags = ("--arch", "lfm2", "--window", "64")
    told = "share one pool of cells, although --no-kv-unified asks for cells of their own"
    cells_of_own = CELLS


class Opaque(Layouts):
    model_flags = ("--arch", "deepseek4")
    told = HybridWithWindow.told
    cells_of_own = CELLS


del ExactnessCase, Layouts  # only its children are tests

if __name__ == "__main__":
    main()
