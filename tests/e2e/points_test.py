"""A model that can be gone on with at points alone, where its user does not do what was to be expected: speaks in place of
the assistant, leaves in the middle of a reply, puts questions behind one prompt. Compared with a model whose rows are all.
"""

import unittest

from support import BASE_FLAGS, ServerCase, assistant, model, system, user, words

FLAGS = ["-c", "16384", "-t", "1", "--cache-ram", "512", *BASE_FLAGS[6:]]


class PointsCase(ServerCase):
    def serve(self, architecture, *flags):
        return self.server(*FLAGS, *flags, base=False, model_path=model("--arch", architecture))

    def prefilled(self, server, messages, max_tokens=4):
        return server.chat(messages, max_tokens=max_tokens)["timings"]["prompt_n"]

    def both(self, turns, seed=0):
        """Tokens prefilled for the last of the prompts, by the model with points and by the one without."""
        counts = []
        for architecture in ("qwen35", "llama"):
            server = self.serve(architecture)
            counts.append([self.prefilled(server, messages) for messages in turns][-1])
            server.stop()
        return counts


class InPlaceOfTheAssistant(PointsCase):
    def setUp(self):
        super().setUp()
        self.talk = [system(words(200)), user(words(1200, 1))]

    def test_the_user_speaks(self):
        points, rows = self.both([self.talk, [*self.talk, user("Something else: " + words(10, 2))]])
        self.assertLessEqual(points, rows + 4)

    def test_a_question_edited_at_its_end(self):
        edited = [self.talk[0], user(self.talk[1]["content"] + " and " + words(10, 2))]
        points, rows = self.both([self.talk, edited])
        self.assertLessEqual(points, rows + 200, "an eighth of the question")

    def test_an_identical_resend(self):
        points, _ = self.both([self.talk, self.talk])
        self.assertLessEqual(points, 4)


class LeavingAReply(PointsCase):
    def leave(self, server, messages, tokens):
        """The text of a reply that its client leaves after so many tokens."""
        text, count = "", 0
        body = {"messages": messages, "max_tokens": tokens + 1000, "stream": True, "temperature": 0}
        for _, event in server.stream("/v1/chat/completions", body):
            piece = event["choices"][0].get("delta", {}).get("content") if event != "[DONE]" else None
            text, count = text + (piece or ""), count + 1
            if count == tokens:
                return text
        raise AssertionError("the reply ended before its client left")

    def test_escape(self):
        server = self.serve("qwen35")
        talk = [system(words(200)), user(words(40, 1))]
        for tokens in (150, 1500, 5000):
            with self.subTest(tokens=tokens):
                seen = self.leave(server, talk, tokens)
                self.assertLessEqual(
                    self.prefilled(server, [*talk, assistant(seen), user("Something else: " + words(10, tokens))]), 300)


class ManyQuestionsBehindOnePrompt(PointsCase):
    def test_each_pays_for_itself(self):
        counts = {}
        for architecture in ("qwen35", "llama"):
            server = self.serve(architecture)
            counts[architecture] = []
            for number in range(12):
                reply = server.chat([system(words(300)), user(f"{number} {words(8, number)}")], max_tokens=1)
                counts[architecture].append(reply["timings"]["prompt_n"])
            self.assertEqual(reply["timings"]["cache_miss_reason"], "new-tokens")
        self.assertLessEqual(sum(counts["qwen35"][2:]), sum(counts["llama"][2:]) + 5, "an opening digit is shared by chance")


if __name__ == "__main__":
    unittest.main()
