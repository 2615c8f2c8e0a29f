"""From messages to the prompt, and from text to tokens, against the real server."""

import contextlib
import json
import math
import os
import time

from support import HttpError, ServerCase, main, model, user, words


class Prompts(ServerCase):
    def test_the_templates_print_is_a_prompt_of_completions(self):
        """A BOS that the template prints is not there twice."""
        source = "{{ bos_token }}{% for m in messages %}<|im_start|>{{ m.content }}{% endfor %}"
        server = self.server("--chat-template", source, "--override-kv", "tokenizer.ggml.add_bos_token=bool:true")
        messages = [user("hi there")]
        reply = server.chat(messages, max_tokens=1)
        prompt = server.post("/apply-template", {"messages": messages})["prompt"]
        again = server.post("/v1/completions", {"prompt": prompt, "max_tokens": 1})
        self.assertEqual(again["usage"]["prompt_tokens"], reply["usage"]["prompt_tokens"])
        self.assertGreaterEqual(again["timings"]["cache_n"], reply["usage"]["prompt_tokens"] - 1)

    def test_prompts_and_settings_in_replies_of_llama_servers_shape(self):
        server = self.server("--override-kv", "tokenizer.ggml.add_bos_token=bool:true")
        body = {"prompt": {"prompt_string": "hi there"}, "n_predict": 2, "temperature": 0}
        reply = server.post("/completion", {**body, "ignore_eos": True})
        self.assertEqual(reply["prompt"], server.get("/props")["bos_token"] + "hi there")
        biases = reply["generation_settings"]["logit_bias"]
        self.assertTrue(biases and all(bias["bias"] is None for bias in biases), biases)
        self.assertEqual(server.post("/completion", body)["generation_settings"]["logit_bias"], [])
        self.assertEqual(server.post("/completion", {**body, "prompt": "hi there"})["content"], reply["content"])

    def test_an_answer_goes_on_as_the_template_writes_it(self):
        path = os.path.join(os.path.dirname(__file__), "..", "jinja", "templates", "qwen3.jinja")
        server = self.server("--chat-template-file", path)
        for last, opening in (({"content": "So far"}, "<think>\n\n</think>\n\nSo far"),
                              ({"content": "So", "reasoning_content": "hm"}, "<think>\nhm\n</think>\n\nSo"),
                              ({"content": "", "reasoning_content": "hm"}, "<think>\nhm")):
            prompt = server.post("/apply-template", {"messages": [user("q"), {"role": "assistant", **last}]})["prompt"]
            self.assertEqual(prompt, "<|im_start|>user\nq<|im_end|>\n<|im_start|>assistant\n" + opening)

    def test_completions_in_the_shape_of_llama_server(self):
        server = self.server("-c", "1024", "-np", "2")
        props = server.get("/props")
        self.assertEqual(props["default_generation_settings"]["n_ctx"], 1024)
        self.assertEqual((props["total_slots"], props["model_path"]), (2, model()))
        self.assertIn("{%", props["chat_template"])
        caps = props["chat_template_caps"]
        self.assertTrue(caps["supports_string_content"] and caps["supports_system_role"])
        self.assertTrue(caps["supports_tools"] and caps["supports_parallel_tool_calls"])
        self.assertFalse(caps["supports_typed_content"] or caps["supports_reasoning_effort"])
        asked = {"prompt": words(40, 3), "n_predict": 12, "temperature": 0, "return_tokens": True}
        theirs = server.post("/v1/completions", asked)
        for path in ("/completion", "/completions"):
            reply = server.post(path, asked)
            self.assertEqual(reply["content"], theirs["choices"][0]["text"], path)
            self.assertEqual((reply["prompt"], reply["tokens"]), (asked["prompt"], theirs["tokens"]))
            self.assertEqual((reply["tokens_evaluated"], reply["tokens_predicted"], reply["stop_type"]),
                             (theirs["usage"]["prompt_tokens"], 12, "limit"))
        events = [event for _, event in server.stream("/completion", {**asked, "return_tokens": False, "stream": True})]
        self.assertEqual({event["tokens_evaluated"] for event in events}, {theirs["usage"]["prompt_tokens"]})
        self.assertEqual([event["stop"] for event in events], [False] * (len(events) - 1) + [True])
        self.assertEqual("".join(event["content"] for event in events), theirs["choices"][0]["text"])
        self.assertEqual([token for event in events[:-1] for token in event["tokens"]], theirs["tokens"])
        ids = server.tokenize("one two three")
        self.assertIn("one two three", server.post("/completion", {"prompt": ids, "n_predict": 1})["prompt"])
        full = server.post("/completion", {"prompt": words(800, 4), "ignore_eos": True})
        self.assertEqual((full["truncated"], full["stop_type"]), (True, "limit"))

    def test_probabilities(self):
        server = self.server()
        asked = {"prompt": words(40, 3), "max_tokens": 8, "temperature": 0, "return_tokens": True, "cache_prompt": False}
        plain = server.post("/v1/completions", asked)
        reply = server.post("/v1/completions", {**asked, "logprobs": 4})
        self.assertEqual(reply["choices"][0]["text"], plain["choices"][0]["text"])
        scores = reply["choices"][0]["logprobs"]
        self.assertEqual([one["id"] for one in scores["content"]], reply["tokens"])
        for one in scores["content"]:
            likeliest = [other["logprob"] for other in one["top_logprobs"]]
            self.assertEqual((len(likeliest), one["top_logprobs"][0]["id"]), (4, one["id"]), "greedy takes the likeliest")
            self.assertEqual(likeliest, sorted(likeliest, reverse=True))
            self.assertLessEqual(sum(math.exp(logprob) for logprob in likeliest), 1.000001)
        self.assertEqual("".join(scores["tokens"]), reply["choices"][0]["text"])
        streamed = [event["choices"][0]["logprobs"]["content"] for _, event
                    in server.stream("/v1/completions", {**asked, "logprobs": 4, "stream": True})
                    if event != "[DONE]" and event["choices"][0]["logprobs"]]
        self.assertEqual([one["id"] for list_ in streamed for one in list_], reply["tokens"])
        native = server.post("/completion", {**asked, "n_probs": 4})["completion_probabilities"]
        self.assertEqual([one["id"] for one in native], reply["tokens"])
        chat = server.chat([user("hi")], max_tokens=4, logprobs=True, top_logprobs=2)
        self.assertEqual([len(one["top_logprobs"]) for one in chat["choices"][0]["logprobs"]["content"]], [2] * 4)
        cached = server.post("/v1/completions", {**asked, "logprobs": 4, "cache_prompt": True})
        again = server.post("/v1/completions", {**asked, "logprobs": 4, "cache_prompt": True})
        self.assertGreater(again["timings"]["cache_n"], 30)
        self.assertEqual(again["choices"][0]["logprobs"]["tokens"], cached["choices"][0]["logprobs"]["tokens"])

    def test_a_run_that_cannot_be_interrupted_is_refused(self):
        server = self.server("-c", "131072")
        self.assertTrue(server.post("/tokenize", {"content": "a" * (1 << 20)})["tokens"])
        run = "a" * (2 << 20)
        for path, body in (("/tokenize", {"content": run}), ("/v1/completions", {"prompt": run}),
                           ("/v1/chat/completions", {"messages": [user(run)]}),
                           ("/v1/messages/count_tokens", {"messages": [user(run)]})):
            with self.assertRaises(HttpError) as refused:
                server.post(path, body)
            self.assertEqual(refused.exception.status, 400)
            self.assertIn("at most 1048576 such bytes in a row", refused.exception.body["error"]["message"], path)

    def test_a_long_text_is_abandoned_when_its_client_leaves(self):
        """In every script: words, sentences without spaces, tables, code."""
        server = self.server()
        lines = ("В лесу родилась ёлочка, в лесу она росла.\n", "他走进房间，看见桌上有一本书。", "2026-11-23,17,3.5,Berlin\r\n",
                 '{"id":17,"tags":["a","b"]},', "if(a[i]!=b){f(&a);}")
        for path, line in (("/tokenize", " some words"), *(("/v1/messages/count_tokens", line) for line in lines)):
            text = line * ((4 << 20) // len(line.encode()))
            body = {"content": text} if path == "/tokenize" else {"messages": [user(text)]}
            before = server.cpu_seconds()
            with contextlib.closing(server.connection()) as connection:
                connection.request("POST", path, json.dumps(body))
            time.sleep(0.7)
            settled = server.cpu_seconds()
            time.sleep(0.5)
            self.assertLess(server.cpu_seconds() - settled, 0.2, f"{path} {line} went on for a client that left")
            self.assertLess(settled - before, 1, f"{path} {line}")


if __name__ == "__main__":
    main()
