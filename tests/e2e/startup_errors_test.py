"""Starts that must fail: one line on standard error that says what to change, a non-zero exit, and no crash."""

import os
import shutil
import signal
import socket
import struct
import subprocess
import time
import unittest

from support import PROGRAM, ServerProcess, fresh_directory, fresh_path, main, model, needs_libmtmd, run_program, serve_command


def gguf_with_architecture(path, architecture):
    """The smallest GGUF file that names an architecture: a header, one string, no tensors."""
    def text(value):
        return struct.pack("<Q", len(value)) + value.encode()

    with open(path, "wb") as file:
        file.write(b"GGUF" + struct.pack("<IQQ", 3, 0, 1))
        file.write(text("general.architecture") + struct.pack("<I", 8) + text(architecture))
        file.write(b"\0" * 64)
    return path


class StartupErrors(unittest.TestCase):
    def refused(self, arguments, *parts, environment=None):
        """Runs `serve`, which must end with one line that has all `parts`."""
        run = run_program("serve", *arguments, "--no-kv-disk", "--port", "0", environment=environment)
        self.assertEqual(run.returncode, 1, run.stderr)
        self.assertEqual(run.stdout, "")
        errors = [line for line in run.stderr.splitlines() if line.startswith("kvkeep: ")]
        self.assertEqual(len(errors), 1, run.stderr)
        self.assertEqual(run.stderr.splitlines()[-1], errors[0])
        for line in run.stderr.splitlines()[:-1]:
            self.assertRegex(line, r"^\d{4}-\d\d-\d\d [\d:.]+ (info|warning) ")
        for part in parts:
            self.assertIn(part, errors[0])
        return run.stderr

    def refused_before_loading(self, arguments, *parts):
        self.assertNotIn("loading", self.refused(arguments, *parts))

    def test_a_link_named_llama_server_takes_its_command_lines(self):
        link = os.path.join(fresh_directory(), "llama-server")
        os.symlink(PROGRAM, link)
        for program, words in ((link, ()), (link, ("serve",)), (PROGRAM, ()), (PROGRAM, ("serve",))):
            run = run_program(*words, "-m", "/nowhere.gguf", "--no-webui", "--no-mmap", "-ngl", "99", "--fit", "on",
                              program=program)
            self.assertEqual(run.returncode, 1)
            self.assertIn("/nowhere.gguf: no such file", run.stderr)
        self.assertTrue(run_program("--version", program=link).stdout.startswith("kvkeep "))

    def test_no_model_was_named(self):
        self.refused([], "--model")

    def test_model_is_missing(self):
        self.refused_before_loading(["-m", "/nowhere/at/all.gguf"], "/nowhere/at/all.gguf", "no such file")

    def test_model_is_a_directory(self):
        self.refused_before_loading(["-m", os.path.dirname(model())], os.path.dirname(model()), "is a directory")

    def test_model_is_not_a_gguf_file(self):
        path = fresh_path("text.gguf")
        for content, kind in ((b"This is no model.\n" * 100, "a text file"), (b"\x80\x02\x8a\n" * 100, "another kind"),
                              (b"version https://git-lfs.github.com/spec/v1\noid sha256:0\n", "run git lfs pull"),
                              (b"<!DOCTYPE html><html></html>", "a web page")):
            with open(path, "wb") as file:
                file.write(content)
            with self.subTest(kind=kind):
                self.refused_before_loading(["-m", path], path, "not a GGUF file", kind)

    def test_files_for_which_libllama_would_end_the_process(self):
        def changed(at, new):
            with open(model(), "rb") as file:
                data = bytearray(file.read())
            begin = at(data)
            data[begin:begin + len(new)] = new
            path = fresh_path("spoiled.gguf")
            with open(path, "wb") as file:
                file.write(data)
            return path

        def first_token(data):  # key, type, type of items, count, length
            return data.index(b"tokenizer.ggml.tokens") + len("tokenizer.ggml.tokens") + 4 + 4 + 8 + 8

        layers = b"llama.block_count"
        path = changed(lambda data: data.index(layers) + len(layers) + 4, b"\0\0\0\0")
        self.refused(["-m", path], path, "no layers")
        with open(model(), "rb") as file:
            data = file.read()
        spelling = data[first_token(data):first_token(data) + 2]  # of a byte: two bytes of UTF-8
        path = changed(lambda data: first_token(data) + 10, spelling)
        self.refused(["-m", path], path, "its tokens 0 and 1 are spelt alike")
        self.refused(["-m", model(), "--override-kv", "llama.block_count=int:0"], model(), "damaged")

    def test_model_is_empty(self):
        path = fresh_path("empty.gguf")
        open(path, "w").close()
        self.refused_before_loading(["-m", path], path, "the file is empty")

    def test_model_is_truncated(self):
        # In the header, in the metadata, and in the weights.
        size = os.path.getsize(model())
        for kept in (20, 5_000, size // 2, size - 1_000):
            path = fresh_path("cut.gguf")
            shutil.copyfile(model(), path)
            os.truncate(path, kept)
            with self.subTest(kept=kept):
                self.refused(["-m", path], path)

    def test_model_of_an_unknown_architecture(self):
        path = gguf_with_architecture(fresh_path("odd.gguf"), "perceptron")
        self.refused(["-m", path], path, "perceptron")

    def test_a_key_file_that_others_may_read_or_write(self):
        path = fresh_path("keys")
        with open(path, "w") as file:
            file.write("sesame\n")
        for mode, warned in ((0o600, None), (0o640, "read"), (0o622, "write"), (0o666, "read and write")):
            os.chmod(path, mode)
            told = self.refused(["-m", model(), "--api-key-file", path, "--host", "192.0.2.1"], "192.0.2.1")
            with self.subTest(mode=oct(mode)):
                self.assertEqual(f"may {warned} the keys; run chmod 600 {path}" in told, warned is not None, told)
                self.assertEqual(told.count(" warning "), 1 if warned else 0, told)

    def test_port_is_in_use(self):
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            taken.listen()
            port = taken.getsockname()[1]
            run = run_program(*serve_command("--no-kv-disk", "--port", str(port))[1:])
        self.assertEqual(run.returncode, 1)
        last = run.stderr.splitlines()[-1]
        self.assertTrue(last.startswith("kvkeep: "), run.stderr)
        self.assertIn(str(port), last)
        self.assertIn("in use", last)

    def test_host_is_not_of_this_machine(self):
        self.refused(["-m", model(), "--host", "192.0.2.1"], "192.0.2.1")

    def test_context_is_too_small(self):
        self.refused(["-m", model(), "-c", "10"], "10", "too small")

    def test_batch_is_too_small_for_the_sequences(self):
        self.refused(["-m", model(), "-c", "512", "-b", "4", "-ub", "4"], "a batch of 4 tokens is too small")

    def test_context_is_larger_than_memory(self):
        self.refused(["-m", model(), "-c", "1000000000", "-ctk", "f32", "-ctv", "f32"], "memory")

    def test_unknown_flags_suggest_the_nearest(self):
        self.refused(["-m", model(), "--ctx-sise", "4096"], "--ctx-sise", "--ctx-size")
        self.refused(["-m", model(), "--kv-disk-dri", "x"], "--kv-disk-dir")

    def test_bad_values_name_the_flag(self):
        self.refused(["-m", model(), "-c", "many"], "--ctx-size", "many")
        self.refused(["-m", model(), "-ctk", "q9_9"], "--cache-type-k", "q9_9")
        self.refused(["-m", model(), "--port", "99999"], "--port")
        self.refused(["-m", model(), "-c"], "--ctx-size")
        self.refused(["-m", model(), "-b", "64", "-ub", "128"], "--ubatch-size", "--batch-size")
        self.refused(["-m", model(), "-fa", "off", "-ctv", "q8_0"], "flash")

    def test_flags_of_other_programs_are_refused_with_a_reason(self):
        self.refused(["-m", model(), "--model-draft", "x"], "--model-draft", "speculative")
        self.refused(["-m", model(), "--mmproj", "x"], "--mmproj x: no such file")
        self.refused(["-m", model(), "--mmproj", model("--mmproj"), "--media-path", "/nowhere"],
                     "--media-path /nowhere: no such directory")
        self.refused(["-m", model(), "--webui-config", "x"], "--webui-config", "no settings")
        self.refused(["-m", model()], "LLAMA_ARG_HF_REPO", environment={"LLAMA_ARG_HF_REPO": "x"})
        self.refused(["-m", model()], "LLAMA_ARG_JINJA", "--no-jinja", environment={"LLAMA_ARG_JINJA": "0"})

    @needs_libmtmd
    def test_a_projector_is_a_gguf_file(self):
        self.refused(["-m", model(), "--mmproj", __file__], "--mmproj", "not a GGUF file")

    def test_all_refusals_are_reported_at_once_with_a_line_that_works(self):
        told = self.refused(["-m", model(), "--model-draft", "x.gguf", "--no-perf", "--hf-repo", "a/b", "-c", "9999k"],
                            "--model-draft is not supported", "--no-perf is not supported", "--hf-repo is not supported",
                            f"Try: {PROGRAM} serve -m {model()} -c 9999k --no-kv-disk")
        line = told.split("Try: ")[1].strip()
        self.assertTrue(line.endswith("--port 0"), line)

    def test_variables_that_nothing_reads_are_named(self):
        run = run_program("serve", "-m", "/nowhere", environment={"LLAMA_ARG_CTX_SISE": "9", "LLAMA_ARG_HOST": "::1",
                                                                  "LLAMA_ARG_CACHE_REUSE": "256"})
        named = [line for line in run.stderr.splitlines() if "LLAMA_ARG_" in line]
        self.assertEqual(len(named), 2, run.stderr)
        for line in named:
            self.assertIn(" warning ", line)
        self.assertIn("LLAMA_ARG_CACHE_REUSE sets nothing: --cache-reuse 256 is not supported", named[0])
        self.assertIn("LLAMA_ARG_CTX_SISE", named[1])

    def test_contradictions(self):
        run = run_program("serve", "-m", model(), "--no-kv-disk", "--kv-disk-dir", fresh_path())
        self.assertEqual(run.returncode, 1)
        self.assertIn("--no-kv-disk", run.stderr)

    def test_files_that_flags_name_are_missing(self):
        for flag in ("--chat-template-file", "--api-key-file", "--lora", "--control-vector"):
            with self.subTest(flag=flag):
                for path in ("/nowhere/file", os.path.dirname(model())):
                    self.refused_before_loading(["-m", model(), flag, path], f"{flag} {path}: ")
        self.refused_before_loading(["-m", model(), "--lora-scaled", "/nowhere/file:2"], "--lora /nowhere/file: ")

    def test_adapters_that_are_no_adapters(self):
        path = fresh_path("text.gguf")
        with open(path, "w") as file:
            file.write("no adapter")
        for flag in ("--lora", "--control-vector"):
            with self.subTest(flag=flag):
                self.refused(["-m", model(), "-c", "512", flag, model()], model())
                self.refused_before_loading(["-m", model(), flag, path], f"{flag} {path}: ", "GGUF")

    def test_broken_template(self):
        path = fresh_path("broken.jinja")
        for text, reason in (("{% for message in messages %}{{ message['content'] ", "template"), ("", "empty")):
            with open(path, "w") as file:
                file.write(text)
            self.refused_before_loading(["-m", model(), "--chat-template-file", path], "--chat-template-file", path,
                                        reason)

    def test_key_file_without_a_key(self):
        path = fresh_path("keys")
        with open(path, "w") as file:
            file.write("# nothing but a comment\n")
        self.refused_before_loading(["-m", model(), "--api-key-file", path], "--api-key-file", path, "no key")

    def test_log_file_that_cannot_be_written(self):
        self.refused(["-m", model(), "--log-file", "/proc/no/log"], "--log-file")


class OrderlyRuns(unittest.TestCase):
    def test_help_and_version(self):
        for arguments in (["--help"], ["--version"], ["serve", "--help"], ["serve", "-h"], ["model", "--help"],
                          ["model", "make", "--help"], ["serve", "--version"], []):
            with self.subTest(arguments=arguments):
                run = run_program(*arguments)
                self.assertEqual((run.returncode, run.stderr), (0, ""))
                self.assertIn("kvkeep", run.stdout)

    def test_the_exit_status_is_the_documented_one(self):
        for status, arguments in ((0, ["serve", "--help-all"]), (0, ["warm", "--help"]), (1, ["sevre"]), (1, ["warm"]),
                                  (1, ["serve", "-m", "/nowhere.gguf"]), (1, ["cache", "stat", "--kv-disk-dir", "/nowhere"]),
                                  (1, ["warm", "--url", "http://127.0.0.1:1", "/nowhere.json"])):
            with self.subTest(arguments=arguments):
                run = run_program(*arguments)
                self.assertEqual(run.returncode, status, run.stderr)
                self.assertEqual(run.stderr == "", status == 0)
        server = self.enterContext(ServerProcess([*serve_command("--no-kv-disk")]))
        self.assertEqual(server.stop(), 0)

    def test_list_devices(self):
        run = run_program("serve", "--list-devices")
        self.assertEqual(run.returncode, 0, run.stderr)
        self.assertIn("CPU", run.stdout)

    def test_model_make_refuses_what_it_cannot_make(self):
        for arguments in (["--arch", "perceptron", fresh_path()], ["--size", "huge", fresh_path()], [],
                          ["/nowhere/at/all.gguf"]):
            with self.subTest(arguments=arguments):
                run = run_program("model", "make", *arguments)
                self.assertEqual(run.returncode, 1)
                self.assertRegex(run.stderr, "^kvkeep: .*\n$", "one line, and none of libraries' own")

    def test_model_make_replaces_nothing_unasked(self):
        path = fresh_path("model.gguf")
        with open(path, "w") as file:
            file.write("precious")
        run = run_program("model", "make", path)
        self.assertEqual(run.returncode, 1)
        self.assertRegex(run.stderr, rf"^kvkeep: {path} exists: .*--force\n$")
        with open(path) as file:
            self.assertEqual(file.read(), "precious")
        run = run_program("model", "make", "--force", path)
        self.assertEqual(run.returncode, 0, run.stderr)
        with open(path, "rb") as file:
            self.assertEqual(file.read(4), b"GGUF")

    def test_model_make_tells_that_replies_do_not_end(self):
        run = run_program("model", "make", fresh_path())
        self.assertEqual((run.returncode, run.stdout.count("\n"), run.stderr.count("\n")), (0, 1, 1))
        self.assertIn("max_tokens", run.stderr)
        self.assertEqual(run_program("model", "make", "--free-output", fresh_path()).stderr, "")

    def test_sigterm_while_the_model_loads(self):
        # The small model takes long enough to be caught between "loading" and "serving".
        path = model("--size", "small")
        process = subprocess.Popen(serve_command("--no-kv-disk", "--port", "0", model_path=path), text=True,
                                   stderr=subprocess.PIPE, stdin=subprocess.DEVNULL)
        with process:
            seen = process.stderr.readline()
            self.assertIn("loading", seen)
            process.send_signal(signal.SIGTERM)
            begin = time.monotonic()
            rest = process.communicate(timeout=30)[1]
        self.assertLess(time.monotonic() - begin, 10)
        self.assertGreaterEqual(process.returncode, 0, "ended by the signal itself: nothing could be settled")
        self.assertNotIn("serving ", rest)


if __name__ == "__main__":
    main()
