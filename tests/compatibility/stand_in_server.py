#!/usr/bin/env python3
"""Starts the server KVKEEP_COMPATIBILITY_SERVER as a test of llama.cpp asks, with a model from
KVKEEP_COMPATIBILITY_MODELS in the place of the one that it would download (or of a router's many), one thread and no
cache of an earlier test.
"""

import os
import sys
import tempfile

STAND_INS = (("split/", "split-00001-of-00003.gguf"), ("bert-bge", "embedding.gguf"), ("reranker", "rerank.gguf"),
             ("infill", "infill.gguf"), ("MOE", "moe.gguf"), ("gemma3", "gemma3.gguf"), ("", "stories.gguf"))


def adapted(arguments, models):
    """--no-jinja is passed by every test that does not ask for --jinja; both servers have no other engine."""
    kept, wanted = [], []
    rest = iter(arguments)
    for argument in rest:
        if argument in ("--hf-repo", "--hf-file"):
            wanted.append(next(rest))
        elif argument != "--no-jinja":
            kept.append(argument)
    if "--model" in kept:
        return ["--threads", "1", *kept]
    model = next(name for part, name in STAND_INS if part in "/".join(wanted))
    return ["--model", os.path.join(models, model), "--threads", "1", *kept]


if __name__ == "__main__":
    server = os.environ["KVKEEP_COMPATIBILITY_SERVER"]
    models = os.environ["KVKEEP_COMPATIBILITY_MODELS"]
    os.environ["XDG_CACHE_HOME"] = tempfile.mkdtemp(prefix="cache-", dir=models)
    os.execv(server, [server, *adapted(sys.argv[1:], models)])
