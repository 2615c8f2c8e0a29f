"""The AI SDK with @ai-sdk/openai-compatible and with @ai-sdk/openai against the real server: what its users call works,
and fails as they expect."""

from openai_case import OpenAiCase
from support import main


class AiSdk(OpenAiCase):
    def test_chat(self):
        self.run_suite("ai_sdk.mjs")

    def test_responses(self):
        self.run_suite("ai_responses.mjs")


if __name__ == "__main__":
    main()
