"""The page's chat: replies as they come, stop, edits that make branches, reasoning and calls of tools."""

import json

from page_case import BASE_URL, PageCase, support

from checks import flaws

LAST = "[...document.querySelectorAll('.message')].at(-1)"


def stream_of(*deltas, timings=None, finish="stop"):
    """A streamed reply as /v1/chat/completions sends it."""
    events = [{"id": "chatcmpl-1", "choices": [{"index": 0, "delta": delta, "finish_reason": None}]} for delta in deltas]
    events.append({"id": "chatcmpl-1", "choices": [{"index": 0, "delta": {}, "finish_reason": finish}], "timings": timings or {}})
    return "".join(f"data: {json.dumps(event)}\n\n" for event in events) + "data: [DONE]\n\n"


class Chat(PageCase):
    @classmethod
    def start_class_servers(cls):
        super().start_class_servers()
        cls.shared = cls.class_server()

    def begin(self, most_tokens=6, server=None):
        tab = self.open(server or self.shared, "chat")
        tab.click("details summary")
        tab.click(".pair input")
        tab.run("document.querySelector('.pair input').select()")
        tab.type(str(most_tokens))
        return tab

    def say(self, tab, text):
        tab.click(".composer textarea")
        tab.type(text)
        tab.press("Enter")

    def wait_for_reply(self, tab, messages):
        tab.wait(f"document.querySelectorAll('.message').length === {messages} && {LAST}.querySelector('.reused')")
        tab.wait("!document.querySelector('.composer')?.innerText.includes('Stop')")

    def reused(self, tab):
        """(tokens reused, tokens of the prompt) of the last reply."""
        line = tab.run(f"{LAST}.querySelector('.reused p').innerText")
        words = line.replace(",", "").split()
        return int(words[0]), int(words[2])

    def test_the_figures_of_a_long_reply_lie_above_the_composer(self):
        tab = self.begin(most_tokens=900)
        self.say(tab, "Tell me a long story.")
        self.wait_for_reply(tab, 2)
        tab.wait("document.documentElement.scrollHeight > 2 * innerHeight")
        tab.wait(f"{LAST}.querySelector('.buttons')")
        end, top = tab.run(f"[{LAST}.getBoundingClientRect().bottom, document.querySelector('.composer').getBoundingClientRect().top]")
        self.assertLessEqual(end, top + 1)

    def test_a_second_message_reuses_the_first(self):
        tab = self.begin()
        self.say(tab, support.words(60, 11))
        self.wait_for_reply(tab, 2)
        self.assertLess(self.reused(tab)[0], 20)
        self.say(tab, "and then")
        self.wait_for_reply(tab, 4)
        reused, prompt = self.reused(tab)
        self.assertGreater(reused, 60)
        self.assertLess(prompt - reused, 20)
        self.assertEqual(flaws(tab), [])
        self.assertEqual(tab.complaints(), [])
        self.picture(tab, "chat")

    def test_an_edit_makes_a_branch_that_reuses_what_is_before_it(self):
        tab = self.begin()
        self.say(tab, support.words(60, 12))
        self.wait_for_reply(tab, 2)
        self.say(tab, "one")
        self.wait_for_reply(tab, 4)
        tab.click_button("Edit", ".message:nth-of-type(3)")
        tab.wait("document.activeElement.tagName === 'TEXTAREA' && document.activeElement.closest('.message')")
        tab.run("document.activeElement.select()")
        tab.type("two")
        tab.click_button("Send as a branch")
        tab.has("2 / 2")
        self.wait_for_reply(tab, 4)
        self.assertGreater(self.reused(tab)[0], 60, "what stands before the edit is reused")
        shown = "[...document.querySelectorAll('.message.user .text')].at(-1).innerText"
        self.assertEqual(tab.run(shown), "two")
        tab.click("[aria-label='Branch before']")
        tab.wait(f"{shown} === 'one'")
        tab.has("1 / 2")
        self.assertEqual(flaws(tab), [])

    def test_a_reply_is_stopped(self):
        server = self.server("-c", 65536)  # room for a reply that is still being written when it is stopped
        tab = self.begin(60_000, server)
        self.say(tab, "write much")
        tab.wait(f"{LAST}.querySelector('.text')?.innerText.length > 20")
        tab.press("Escape")
        tab.has("Stopped.")
        # The job ends with its client.
        support.wait_until(lambda: not any(slot["is_processing"] for slot in server.get("/slots")), "no job runs")
        tab.click_button("Again")
        tab.has("2 / 2")
        tab.click_button("Stop")
        tab.has("Stopped.")

    def test_a_reply_that_grows_moves_nothing_under_the_pointer(self):
        server = self.server("-c", 65536)
        tab = self.begin(60_000, server)
        self.say(tab, "write much")
        seen = tab.run("""new Promise(done => { const seen = []; const look = () => {
            const stop = [...document.querySelectorAll('.composer button')].find(button => button.innerText === 'Stop');
            if (stop) seen.push([stop.getBoundingClientRect().y, document.documentElement.scrollHeight - scrollY - innerHeight]);
            if (document.documentElement.scrollHeight < 3000) setTimeout(look, 20); else done(seen); }; look(); })""")
        places = [y for y, _ in seen]
        self.assertGreater(len(places), 5)
        self.assertLess(max(places) - min(places), 3)
        # Several lines may have come since the page was scrolled, but it goes on to follow them.
        tab.wait("document.documentElement.scrollHeight > 4000")
        tab.wait("document.documentElement.scrollHeight - scrollY - innerHeight < 2")
        tab.run("scrollTo(0, 500)")
        tab.wait("document.documentElement.scrollHeight > 5000")
        self.assertLess(tab.run("scrollY"), 600, "who reads further up is left there")
        tab.press("Escape")
        tab.has("Stopped.")

    def test_a_system_prompt_is_sent(self):
        tab = self.begin()
        tab.click("details textarea")
        tab.type("Answer in rhymes.")
        self.say(tab, "hello")
        self.wait_for_reply(tab, 2)
        sent = json.loads(tab.asked("/v1/chat/completions")[-1]["params"]["request"]["postData"])
        self.assertEqual(sent["messages"], [support.system("Answer in rhymes."), support.user("hello")])
        self.assertEqual(sent["max_tokens"], 6)

    def test_reasoning_and_code_are_told_from_text(self):
        tab = self.browser.tab()
        tab.serve("/v1/chat/completions", stream_of(
            {"reasoning_content": "Let me "}, {"reasoning_content": "think."}, {"content": "See:\n```python\nprint(1)\n"}, {"content": "```\nDone."},
            timings={"cache_n": 90, "prompt_n": 10, "predicted_n": 5, "predicted_ms": 100, "cache_tokens": {"memory": 50, "ram": 40, "disk": 0}}),
            "text/event-stream")
        tab.open(BASE_URL.format(self.shared.port) + "#chat")
        self.say(tab, "hello")
        tab.has("Done.")
        self.assertEqual(tab.run(f"{LAST}.querySelector('pre').innerText"), "print(1)")
        self.assertEqual(tab.run(f"{LAST}.querySelector('details > .text').textContent"), "Let me think.")
        self.assertEqual(self.reused(tab), (90, 100))
        tab.click("details summary")
        self.assertEqual(flaws(tab), [])

    def test_a_call_of_a_tool_is_shown_and_answered(self):
        tab = self.browser.tab()
        call = {"index": 0, "id": "call_1", "type": "function", "function": {"name": "read_file", "arguments": ""}}
        tab.serve("/v1/chat/completions", stream_of({"tool_calls": [call]}, {"tool_calls": [{"index": 0, "function": {"arguments": '{"path":'}}]},
                                                    {"tool_calls": [{"index": 0, "function": {"arguments": ' "a"}'}}]}, finish="tool_calls"),
                  "text/event-stream")
        tab.open(BASE_URL.format(self.shared.port) + "#chat")
        self.say(tab, "read it")
        tab.has("Result of read_file")
        self.assertEqual(tab.run("document.querySelector('.call pre').innerText"), '{"path": "a"}')
        tab.click(".composer textarea")
        tab.type("42 lines")
        tab.serve("/v1/chat/completions", stream_of({"content": "It has 42."}), "text/event-stream")
        tab.click_button("Send the results")
        tab.has("It has 42.")
        sent = json.loads(tab.asked("/v1/chat/completions")[-1]["params"]["request"]["postData"])["messages"]
        self.assertEqual([message["role"] for message in sent], ["user", "assistant", "tool"])
        self.assertEqual(sent[1]["tool_calls"][0]["function"], {"name": "read_file", "arguments": '{"path": "a"}'})
        self.assertEqual((sent[2]["tool_call_id"], sent[2]["content"]), ("call_1", "42 lines"))

    def test_a_refused_request_says_why(self):
        tab = self.begin()
        self.say(tab, support.words(6000, 13))
        tab.wait("document.querySelector('.message .error')?.innerText.includes('context')")

    def test_a_refused_reply_is_no_turn_of_the_next_prompt(self):
        tab = self.begin()
        self.say(tab, support.words(6000, 13))
        tab.wait("document.querySelector('.message .error')?.innerText.includes('context')")
        tab.wait("!document.querySelector('.composer')?.innerText.includes('Stop')")
        self.say(tab, "shorter")
        support.wait_until(lambda: len(tab.asked("/v1/chat/completions")) == 2, "the second message is sent")
        body = tab.asked("/v1/chat/completions")[-1]["params"]["request"]["postData"]
        self.assertEqual([message["role"] for message in json.loads(body)["messages"]], ["user", "user"])

    def test_a_chat_is_forgotten_with_the_page(self):
        tab = self.begin()
        self.say(tab, "remember nothing")
        self.wait_for_reply(tab, 2)
        stored = tab.run("JSON.stringify([Object.keys(localStorage), Object.keys(sessionStorage), document.cookie])")
        self.assertEqual(stored, '[[],[],""]')
        tab.call("Page.reload")
        tab.wait("document.querySelector('.composer') && !document.querySelector('.message')")


if __name__ == "__main__":
    support.main()
