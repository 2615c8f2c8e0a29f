"""LangChain's client of OpenAI's dialect against the real server."""

from openai_case import OpenAiCase
from support import main


class LangChain(OpenAiCase):
    def test_all(self):
        self.run_suite("langchain.mjs")


if __name__ == "__main__":
    main()
