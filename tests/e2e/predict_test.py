"""POST /predict, as Google's Vertex AI calls it: several requests in one body, and the variables that turn it on."""

from support import ServerCase, main, user


def chat(text, **fields):
    return {"@requestFormat": "chatCompletions", "messages": [user(text)], "max_tokens": 8, "temperature": 0, **fields}


class Predict(ServerCase):
    def test_instances_are_answered_as_requests_of_their_paths(self):
        server = self.server(environment={"AIP_MODE": "PREDICTION", "AIP_PREDICT_ROUTE": "/v1/ask",
                                          "AIP_HEALTH_ROUTE": "/alive"})
        self.assertEqual(server.get("/alive"), {"status": "ok"})
        instances = [chat("hi"), chat("hello"), {"@requestFormat": "tokenize", "content": "a b"}, {"@requestFormat": "x"},
                     chat("hi", max_tokens="many"), chat("hi", stream=True)]
        answers = server.post("/v1/ask", {"instances": instances})["predictions"]
        self.assertEqual(len(answers), 6)
        for text, answer in zip(("hi", "hello"), answers):
            alone = server.chat([user(text)], max_tokens=8, temperature=0)
            self.assertEqual(answer["choices"][0]["message"], alone["choices"][0]["message"])
        self.assertEqual(answers[2], server.post("/tokenize", {"content": "a b"}))
        self.assertEqual([answer["error"]["code"] for answer in answers[3:]], [400] * 3)
        self.assertEqual(server.post("/v1/ask", {"instances": []}), {"predictions": []})
        self.assert_refused(400, server.post, "/v1/ask", {"instances": 5})

    def test_only_with_the_mode(self):
        self.assert_refused(404, self.server().post, "/predict", {"instances": []})


main()
