"""Many clients that stream at the same time, on one thread: what each was answered, and when."""

import asyncio
import dataclasses
import json
import time

from doors_case import allow_many_sockets, resident_bytes
from exactness_case import CACHED, ExactnessCase, common_length
from support import words

NATIVE = "/completion"
LIMIT_S = 600


@dataclasses.dataclass
class Answer:
    number: int  # of the client
    sent_s: float = 0
    first_s: float = 0  # the first token came; 0: none did
    status: int = 0
    headers: dict = dataclasses.field(default_factory=dict)
    tokens: list = dataclasses.field(default_factory=list)
    is_whole: bool = False

    def ttft_s(self):
        return self.first_s - self.sent_s


async def read_head(reader):
    while True:
        head = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
        status = int(head[0].split()[1])
        if status >= 200:  # interim replies probe whether the client is there
            return status, dict(line.lower().split(": ", 1) for line in head[1:] if line)


async def read_chunks(reader):
    """The pieces of a chunked body, as they come."""
    while size := int(await reader.readline(), 16):
        piece = await reader.readexactly(size + 2)
        yield piece[:-2]


def take_event(answer, line):
    event = json.loads(line)
    if event.get("tokens") and not answer.first_s:
        answer.first_s = time.monotonic()
    answer.tokens += event.get("tokens", [])
    answer.is_whole |= event.get("stop", False)


async def ask(port, number, body, path=NATIVE, headers=""):
    """One request on a connection of its own."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    answer = Answer(number)
    try:
        text = json.dumps(body).encode()
        writer.write(f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n{headers}"
                     f"Content-Length: {len(text)}\r\n\r\n".encode() + text)
        answer.sent_s = time.monotonic()
        answer.status, answer.headers = await read_head(reader)
        if answer.status != 200:
            return answer
        rest = b""
        async for piece in read_chunks(reader):
            *lines, rest = (rest + piece).split(b"\n")
            for line in lines:
                if line.startswith(b"data: {"):
                    take_event(answer, line[6:])
        return answer
    finally:
        writer.close()


class ManyClientsCase(ExactnessCase):
    cached_flags = ("-np", 16, "--metrics", *CACHED)
    REPLY = 8

    def setUp(self):
        super().setUp()
        allow_many_sockets()

    def body(self, number):
        return {"prompt": f"client {number} asks {words(12, number)}", "n_predict": self.REPLY, "temperature": 0,
                "stream": True, "return_tokens": True}

    def play(self, coroutine):
        return asyncio.run(asyncio.wait_for(coroutine, LIMIT_S))

    def loop_for(self, server, clients, seconds):
        """Each client asks again and again; refused ones come again when they were told to. Returns all answers."""
        end = time.monotonic() + seconds

        async def client(number):
            answers = []
            while time.monotonic() < end or not answers:
                answers.append(await ask(server.port, number, self.body(number)))
                if answers[-1].status != 200:
                    await asyncio.sleep(float(answers[-1].headers.get("retry-after", 1)))
            return answers

        async def all_clients():
            return [answer for each in await asyncio.gather(*map(client, range(clients))) for answer in each]

        return self.play(all_clients())

    def ask_in_order(self, server, clients):
        """Each client asks once, and comes when the one before has sent all."""
        async def all_clients():
            tasks = []
            for number in range(clients):
                tasks.append(asyncio.create_task(ask(server.port, number, self.body(number))))
                await asyncio.sleep(0.001)
            return await asyncio.gather(*tasks)

        return self.play(all_clients())

    def assert_all_served(self, answers):
        self.assertEqual({answer.status for answer in answers}, {200}, "some were refused")
        self.assertEqual([answer.number for answer in answers if not answer.is_whole], [], "some were broken off")

    def assert_own_texts(self, answers):
        """Each reply is that of its client's prompt alone, but for tokens that are nearly as likely. Returns how many differ."""
        expected, checked, differing = {}, set(), 0
        for answer in answers:
            number = answer.number
            if number not in expected:
                expected[number] = self.plain.post(NATIVE, {**self.body(number), "stream": False,
                                                            "cache_prompt": False})["tokens"]
            if answer.tokens == expected[number]:
                continue
            differing += 1
            if (number, *answer.tokens) in checked:
                continue
            checked.add((number, *answer.tokens))
            ids = self.plain.tokenize(self.body(number)["prompt"], special=True)
            body = {name: value for name, value in self.body(number).items() if name not in ("n_predict", "stream")}
            self.assert_within_noise(ids, body, answer.tokens, common_length(expected[number], answer.tokens))
        return differing

    def memory_of(self, server):
        return resident_bytes(server)
