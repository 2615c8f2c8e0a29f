"""The workload files and the text they are played with."""

import pathlib
import tempfile
import unittest

import workload


def pieces_of_words(text):
    """A tokenizer whose tokens are words with the blank before them, as byte-level vocabularies have it."""
    first, *others = text.split(" ")
    return [first] + [" " + word for word in others]


def parsed(text):
    with tempfile.TemporaryDirectory() as directory:
        path = pathlib.Path(directory) / "some.txt"
        path.write_text(text)
        return workload.load(path)


SETTINGS = "# Title\ncontext 10\nsmall-context 5\nreply 2\n"


class Files(unittest.TestCase):
    def test_there_are_eight(self):
        loads = workload.all_workloads()
        self.assertEqual([load.name[0] for load in loads], list("12345678"))
        self.assertEqual([load.kills for load in loads], [0, 1, 0, 0, 0, 0, 0, 3])

    def test_system_prompts_of_conversations_are_long(self):
        for load in workload.all_workloads():
            sizes = {step[1]: step[2] for step in load.steps if step[0] == "system"}
            for step in load.steps:
                if step[0] == "open":
                    self.assertGreaterEqual(sizes[step[2]], 870, load.name)

    def test_statements(self):
        load = parsed(SETTINGS + "system s 900\nopen a s # why\nturn a 7\nbranch b a 1\nquote t s a 1\nkill 0.5\n")
        self.assertEqual(load.title, "Title")
        self.assertEqual(load.steps, (("system", "s", 900), ("open", "a", "s"), ("turn", "a", 7), ("branch", "b", "a", 1),
                                      ("quote", "t", "s", "a", 1), ("kill", 0.5)))
        self.assertEqual((load.requests, load.kills, load.context, load.small_context, load.reply), (2, 1, 10, 5, 2))

    def test_mistakes_name_the_line(self):
        for line, reason in (("trun a 7", "unknown statement 'trun'"), ("turn a", "'turn' takes 2 arguments"),
                             ("turn a x", "invalid literal")):
            with self.assertRaisesRegex(workload.WorkloadError, f":5: .*{reason}"):
                parsed(SETTINGS + line + "\n")
        with self.assertRaisesRegex(workload.WorkloadError, "reply missing"):
            parsed("# Title\ncontext 10\nsmall-context 5\n")
        with self.assertRaisesRegex(workload.WorkloadError, "title"):
            parsed("context 10\n")


class Text(unittest.TestCase):
    def test_has_the_wanted_length(self):
        for tokens in (1, 2, 60, 900):
            text = workload.text_of_tokens("label", tokens, pieces_of_words)
            self.assertEqual(len(pieces_of_words(text)), tokens)

    def test_never_splits_a_word(self):
        halves = lambda text: [text[i:i + 3] for i in range(0, len(text), 3)]
        whole = workload.text_of_tokens("label", 500, pieces_of_words).split(" ")
        for tokens in range(10, 60):
            text = workload.text_of_tokens("label", tokens, halves)
            self.assertLessEqual(len(text), 3 * tokens)
            self.assertEqual(text.split(" "), whole[:len(text.split(" "))])

    def test_depends_on_the_label_alone(self):
        first, again, other = (workload.text_of_tokens(label, 50, pieces_of_words) for label in "aab")
        self.assertEqual(first, again)
        self.assertNotEqual(first, other)


if __name__ == "__main__":
    unittest.main()
