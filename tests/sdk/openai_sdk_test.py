"""openai against the real server: what its users call works, and fails as they expect."""

from openai_case import OpenAiCase
from support import main


class OpenAiSdk(OpenAiCase):
    def test_chat(self):
        self.run_suite("openai_sdk.mjs")

    def test_responses(self):
        self.run_suite("openai_responses.mjs")


if __name__ == "__main__":
    main()
