"""Many clients that stream at the same time, on one thread: what each was answered, and when."""

import asyncio
import collections
import dataclasses
import json
import time

from doors_case import allow_many_sockets, resident_bytes
from exactness_case import CACHED, ExactnessCase, common_length
from support import words

NATIVE = "/completion"
MESSAGES = "/v1/messages"
LIMIT_S = 600
REFUSED = {NATIVE: 503, MESSAGES: 529}


@dataclasses.dataclass
class Answer:
    number: int  # of the client
    path: str = NATIVE
    sent_s: float = 0
    first_s: float = 0  # the first token came; 0: none did
    status: int = 0
    headers: dict = dataclasses.field(default_factory=dict)
    tokens: list = dataclasses.field(default_factory=list)
    is_whole: bool = False
    trouble: str = ""  # what became of the connection; empty: the server ended it

    def ttft_s(self):
        return self.first_s - self.sent_s

    def fate(self):
        if self.status == REFUSED[self.path] and not self.trouble:
            return "refused"
        return "served" if self.status == 200 and self.is_whole and not self.trouble else "dropped"


def fates(answers):
    """How many were served, refused and dropped: the connection failed, or the reply broke off."""
    return collections.Counter(answer.fate() for answer in answers)


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
    if (event.get("tokens") or event.get("type") == "content_block_delta") and not answer.first_s:
        answer.first_s = time.monotonic()
    answer.tokens += event.get("tokens", [])
    answer.is_whole |= event.get("stop", False) or event.get("type") == "message_stop"


async def exchange(reader, writer, answer, body):
    text = json.dumps(body).encode()
    writer.write(f"POST {answer.path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
                 f"Content-Length: {len(text)}\r\n\r\n".encode() + text)
    answer.sent_s = time.monotonic()
    answer.status, answer.headers = await read_head(reader)
    if answer.status != 200:
        return
    rest = b""
    async for piece in read_chunks(reader):
        *lines, rest = (rest + piece).split(b"\n")
        for line in lines:
            if line.startswith(b"data: {"):
                take_event(answer, line[6:])


async def ask(port, number, path, body):
    """One request on a connection of its own."""
    answer = Answer(number, path)
    try:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
    except OSError as error:
        answer.trouble = repr(error)
        return answer
    try:
        await exchange(reader, writer, answer, body)
    except (OSError, EOFError, ValueError, IndexError) as error:
        answer.trouble = repr(error)
    finally:
        writer.close()
    return answer


class ManyClientsCase(ExactnessCase):
    cached_flags = ("-np", 16, "--metrics", *CACHED)
    REPLY = 8

    def setUp(self):
        super().setUp()
        allow_many_sockets()

    def body(self, number):
        return {"prompt": f"client {number} asks {words(12, number)}", "n_predict": self.REPLY, "temperature": 0,
                "stream": True, "return_tokens": True}

    def request(self, number):
        return NATIVE, self.body(number)

    def play(self, coroutine):
        return asyncio.run(asyncio.wait_for(coroutine, LIMIT_S))

    def loop_for(self, server, clients, seconds, request=None, at_half=lambda: None):
        """Each client asks again and again; refused ones come again when they were told to. Returns all answers."""
        request = request or self.request
        end = time.monotonic() + seconds

        async def client(number):
            answers = []
            while time.monotonic() < end or not answers:
                answers.append(await ask(server.port, number, *request(number)))
                if answers[-1].status != 200:
                    await asyncio.sleep(float(answers[-1].headers.get("retry-after", 1)))
            return answers

        async def half():
            await asyncio.sleep(seconds / 2)
            at_half()
            return []

        async def all_clients():
            return [answer for each in await asyncio.gather(half(), *map(client, range(clients))) for answer in each]

        return self.play(all_clients())

    def ask_in_order(self, server, clients):
        """Each client asks once, and comes when the one before has sent all."""
        async def all_clients():
            tasks = []
            for number in range(clients):
                tasks.append(asyncio.create_task(ask(server.port, number, *self.request(number))))
                await asyncio.sleep(0.001)
            return await asyncio.gather(*tasks)

        return self.play(all_clients())

    def assert_all_served(self, answers):
        others = [(answer.number, answer.status, answer.trouble) for answer in answers if answer.fate() != "served"]
        self.assertEqual(others, [], "some were refused, or broken off")

    def assert_told_to_come_again(self, answers):
        """Those that found the queue full were told when to come again, and no reply broke off."""
        dropped = [(answer.number, answer.status, answer.trouble) for answer in answers if answer.fate() == "dropped"]
        self.assertEqual(dropped, [])
        refused = [answer for answer in answers if answer.fate() == "refused"]
        self.assertTrue(all(1 <= int(answer.headers["retry-after"]) <= 60 for answer in refused))

    def compare_texts(self, answers):
        """Each reply shall be that of its client's prompt alone, but for tokens that are nearly as likely. Returns how many
        have such tokens, and the clients whose replies are others altogether."""
        expected, within_noise, differing, mixed_up = {}, {}, 0, []
        for answer in answers:
            number = answer.number
            if number not in expected:
                expected[number] = self.plain.post(NATIVE, {**self.body(number), "stream": False,
                                                            "cache_prompt": False})["tokens"]
            if answer.tokens == expected[number]:
                continue
            differing += 1
            text = (number, *answer.tokens)
            if text not in within_noise:
                within_noise[text] = self.is_within_noise(number, answer.tokens, expected[number])
            if not within_noise[text]:
                mixed_up.append(number)
        return differing, mixed_up

    def is_within_noise(self, number, tokens, expected):
        ids = self.plain.tokenize(self.body(number)["prompt"], special=True)
        body = {name: value for name, value in self.body(number).items() if name not in ("n_predict", "stream")}
        try:
            self.assert_within_noise(ids, body, tokens, common_length(expected, tokens))
        except self.failureException:
            return False
        return True

    def assert_own_texts(self, answers):
        """Returns the share of replies that differ within the noise."""
        differing, mixed_up = self.compare_texts(answers)
        self.assertEqual(mixed_up, [], "texts of other prompts")
        return differing / len(answers)

    def memory_of(self, server):
        return resident_bytes(server)
