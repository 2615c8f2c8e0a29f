"""--rpc: a model's layers on the device of an RPC server, which libggml's own backend serves in another process."""

import contextlib
import os
import socket
import subprocess
import sys

from flag_case import COMPLETION, PARAM_SHIM, FlagCase, covers
from support import fresh_directory, fresh_path, main, run_program, serve_command, wait_until, words

LISTENS = "0A"  # a state of /proc/net/tcp

# libggml has the server as a function of its backend.
SERVER = """
import ctypes, sys
pointer = ctypes.c_void_p
base, ggml = ctypes.CDLL("libggml-base.so.0", mode=ctypes.RTLD_GLOBAL), ctypes.CDLL("libggml.so.0")
ggml.ggml_backend_load_all()
def call(name, *arguments):
    function = getattr(ggml, name, None) or getattr(base, name)
    function.restype = pointer
    function.argtypes = [ctypes.c_char_p if isinstance(each, bytes) else pointer for each in arguments]
    return function(*arguments)
start = call("ggml_backend_reg_get_proc_address", call("ggml_backend_reg_by_name", b"RPC"), b"ggml_backend_rpc_start_server")
serve = ctypes.CFUNCTYPE(None, ctypes.c_char_p, ctypes.c_char_p, ctypes.c_size_t, ctypes.c_size_t, ctypes.POINTER(pointer))(start)
serve(sys.argv[1].encode(), None, 1, 1, (pointer * 1)(call("ggml_backend_dev_by_name", b"CPU")))
"""


def listening_port(process):
    """Returns the port on which the process listens, None before. Nothing connects: the server has one client at a time."""
    folder = f"/proc/{process.pid}"
    with contextlib.suppress(FileNotFoundError):  # a file that is closed meanwhile
        files = {os.readlink(f"{folder}/fd/{name}") for name in os.listdir(f"{folder}/fd")}
        with open(f"{folder}/net/tcp") as sockets:
            for _, local, _, state, *_, inode in (line.split()[:10] for line in sockets):
                if state == LISTENS and f"socket:[{inode}]" in files:
                    return int(local.split(":")[1], 16)
    return None


class OtherMachines(FlagCase):
    def rpc_server(self):
        log_path = fresh_path("rpc.log")
        # On a port that the system chooses: one that was free a moment ago may be another test's by now.
        with open(log_path, "w") as log:
            process = subprocess.Popen([sys.executable, "-c", SERVER, "127.0.0.1:0"], stdout=log, stderr=subprocess.STDOUT)
        self._logs.append(("the RPC server", log_path))
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        wait_until(lambda: listening_port(process) or process.poll() is not None, "the RPC server listens")
        self.assertIsNone(process.poll(), "the RPC server ended")
        return f"127.0.0.1:{listening_port(process)}", process

    def cpu_seconds(self, process):
        with open(f"/proc/{process.pid}/stat") as file:
            fields = file.read().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    @covers("--rpc")
    def test_layers_are_computed_there(self):
        address, rpc = self.rpc_server()
        run = run_program("serve", "--list-devices", "--rpc", address)
        self.assertIn(f"RPC0: {address}", run.stdout)
        directory = fresh_directory()
        flags = ("--rpc", address, "-ngl", "99", "--kv-disk-dir", directory, "-lv", "4")
        with self._make(self._logs, flags, {}) as server:
            idle = self.cpu_seconds(rpc)
            body = {"prompt": words(600, 3), "max_tokens": 8, "temperature": 0}
            first = server.post(COMPLETION, body)
            self.assertEqual(first["timings"]["cache_n"], 0)
            self.assertGreater(self.cpu_seconds(rpc), idle + 0.05)
            again = server.post(COMPLETION, body)
            self.assertGreater(again["timings"]["cache_n"], 500)
            self.assertEqual(again["choices"][0]["text"], first["choices"][0]["text"])
            log = server.log()
            server.stop()  # which writes all of it to disk
        self.assertIn(f"computes on RPC0 ({address}) with", log)
        self.assertIn(f"devices=RPC0@{address},", log)
        # Rows of this machine are not those of the other one, and the other way around.
        with self._make(self._logs, ("--kv-disk-dir", directory), {}) as server:
            self.assertEqual(server.post(COMPLETION, body)["timings"]["cache_n"], 0)
            server.stop()
        with self._make(self._logs, flags, {}) as server:
            self.assertGreater(server.post(COMPLETION, body)["timings"]["cache_n"], 500)

    def test_a_server_that_goes_ends_kvkeep_with_a_line(self):
        address, rpc = self.rpc_server()
        server = self.server("--rpc", address, "-ngl", "99")
        rpc.kill()
        rpc.wait()
        with self.assertRaises(OSError):
            server.post(COMPLETION, {"prompt": words(300, 4), "max_tokens": 4})
        self.assertEqual(server.process.wait(20), 1)
        self.assertIn("Is a server of --rpc gone?", server.log())

    def refusal(self, *flags, environment=None):
        run = run_program(*serve_command("--no-kv-disk", "--port", "0", *flags)[1:], environment=environment)
        self.assertEqual(run.returncode, 1, run.stderr)
        return run.stderr.strip().splitlines()[-1]

    def test_a_server_that_does_not_answer_is_named(self):
        with socket.socket() as silent:  # a port that is taken, where nothing listens
            silent.bind(("127.0.0.1", 0))
            address = f"127.0.0.1:{silent.getsockname()[1]}"
            self.assertIn(f"no RPC server answers at {address}", self.refusal("--rpc", address))

    def test_without_the_backend_its_package_is_named(self):
        hidden = {"LD_PRELOAD": PARAM_SHIM, "KVKEEP_HIDE_BACKEND": "RPC"}
        self.assertIn("libggml0-backend-rpc", self.refusal("--rpc", "127.0.0.1:1", environment=hidden))


if __name__ == "__main__":
    main()
