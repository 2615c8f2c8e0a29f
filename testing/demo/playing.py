"""Parts of the demos: a model, a server whose log is shown if it fails, one turn of a conversation, and its counts."""

import dataclasses
import http.client
import os
import shutil
import signal
import subprocess
import sys
import tempfile

from kvkeep_process import DecodedPrefixes, HttpError, ServerProcess
from view import View

# Two threads and only the processor: the same everywhere. Slices of 128 tokens let the bars move. Quantized rows make
# replies with and without the cache comparable to the letter (f16 results depend on where rows lie in memory).
SERVE_FLAGS = ["-t", "2", "-c", "8192", "-b", "128", "-ub", "128", "-ngl", "0", "-ctk", "q8_0", "-ctv", "q8_0",
               "--restore", "always"]
REPLY_TOKENS = 24


class DemoError(Exception):
    """Says to the user why the demo ended early."""


@dataclasses.dataclass
class Turn:
    label: str
    prompt: int
    cached: int
    prefilled: int
    source: str
    ttft_s: float
    reply: str
    ids: list  # decoded: the prompt's, and of the reply all but the last
    shared: int = 0  # of the cached tokens, those from the shared tier


def make_model(program, size):
    """The model next to the program; made anew when the program is newer."""
    if not os.access(program, os.X_OK):
        raise DemoError(f"there is no program {program}: run 'make build' first, or 'make demo', which does")
    path = os.path.join(os.path.dirname(os.path.abspath(program)), f"demo-{size}.gguf")
    if os.path.exists(path) and os.path.getmtime(path) >= os.path.getmtime(program):
        return path
    unfinished = f"{path}.{os.getpid()}.tmp"
    try:
        made = subprocess.run([program, "model", "make", "--arch", "llama", "--size", size, unfinished],
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        if made.returncode != 0:
            raise DemoError(f"the model could not be made: {made.stdout.strip()}")
        os.replace(unfinished, path)
    finally:
        if os.path.exists(unfinished):
            os.unlink(unfinished)
    return path


def source_of(timings):
    tiers = [tier for tier, tokens in timings["cache_tokens"].items() if tokens]
    return "+".join(tiers) or "-"


def ask(server, view, label, messages, cache_prompt):
    """One turn, streamed. The reply becomes part of `messages`."""
    body = {"messages": messages, "temperature": 0, "max_tokens": REPLY_TOKENS, "cache_prompt": cache_prompt,
            "stream": True, "stream_options": {"include_usage": True}, "return_progress": True, "return_tokens": True}
    prompt_ids = server.prompt_ids(messages)
    reply, sampled, ttft_s, last = "", [], None, None
    for at_s, event in server.stream("/v1/chat/completions", body):
        if event == "[DONE]":
            break
        if "error" in event:
            raise DemoError(f"the server answered: {event['error'].get('message', event['error'])}")
        if "prompt_progress" in event:
            progress = event["prompt_progress"]
            view.progress(label, progress["total"], progress["cache"], progress["processed"])
        for choice in event["choices"]:
            text = choice["delta"].get("content") or ""
            if text and ttft_s is None:
                ttft_s = at_s
            reply += text
            sampled += event.get("tokens", [])
        last = event
    if ttft_s is None or not last or "usage" not in last:
        raise DemoError(f"turn {label}: the reply broke off")
    messages.append({"role": "assistant", "content": reply})
    usage, timings = last["usage"], last["timings"]
    return Turn(label, usage["prompt_tokens"], usage["prompt_tokens_details"]["cached_tokens"], timings["prompt_n"],
                source_of(timings), ttft_s, reply, prompt_ids + sampled[:-1], timings["cache_tokens"]["shared"])


def ideal(turns):
    """Prompt tokens that no earlier turn had computed after the same tokens."""
    decoded = DecodedPrefixes()
    total = 0
    for turn in turns:
        total += decoded.never_decoded(turn.ids[:turn.prompt])
        decoded.add(turn.ids)
    return total


def run_server(command, view, directory, play_on, log="server.log"):
    """Starts a server of our own, whatever the user's environment says to others, and shows its log if it fails."""
    log_path = os.path.join(directory, log)
    server = ServerProcess(command, log_path=log_path)
    server.environment = {name: value for name, value in os.environ.items() if not name.startswith("LLAMA_")}
    try:
        view.wait("loading the model")
        with server:
            return play_on(server)
    except (HttpError, OSError, http.client.HTTPException, RuntimeError, DemoError) as error:
        with open(log_path, errors="replace") as log:
            tail = "".join(log.readlines()[-15:])
        reason = str(error).split("\n", maxsplit=1)[0].rstrip(":") or type(error).__name__
        raise DemoError(f"{reason}\nThe end of the server's log:\n{tail}") from error


def run_main(name, run):
    """Calls run(view, directory) with a folder that is removed afterwards; returns the exit status."""
    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is not signal.SIG_IGN:  # as under nohup
            signal.signal(number, _interrupt)
    view = View()
    directory = tempfile.mkdtemp(prefix="kvkeep-demo-")
    try:
        run(view, directory)
        return 0
    except KeyboardInterrupt:
        view.end_line()
        print(f"{name}: interrupted", file=sys.stderr)
        return 130
    except (DemoError, OSError) as error:
        view.end_line()
        print(f"{name}: {error}", file=sys.stderr)
        return 1
    finally:
        shutil.rmtree(directory, ignore_errors=True)


def _interrupt(*_):
    raise KeyboardInterrupt
