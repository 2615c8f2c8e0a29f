"""Flags about the threads that compute: where the kernel says that they may run, how urgent they are, how they wait."""

import os

from flag_case import COMPLETION, FlagCase, covers
from support import main, run_program, serve_command, words

PROCESSORS = sorted(os.sched_getaffinity(0))
FIRST, LAST = PROCESSORS[0], PROCESSORS[-1]


def mask(*processors):
    return hex(sum(1 << each for each in processors))


class Threads(FlagCase):
    def computing(self, server):
        """Ids of the threads that compute: libggml's are made by the one named engine, and keep its name."""
        ids = []
        for thread in os.listdir(f"/proc/{server.process.pid}/task"):
            with open(f"/proc/{server.process.pid}/task/{thread}/comm") as file:
                if file.read().strip() == "engine":
                    ids.append(int(thread))
        return ids

    def complete(self, server, tokens):
        server.post(COMPLETION, {"prompt": words(50, tokens), "max_tokens": tokens, "ignore_eos": True})
        return self.computing(server)

    def places(self, server, tokens=4):
        return sorted(tuple(sorted(os.sched_getaffinity(thread))) for thread in self.complete(server, tokens))

    @covers("--cpu-mask", "--cpu-range", "--cpu-strict")
    def test_threads_run_where_they_are_told(self):
        two = ("-t", "2")
        everywhere = tuple(PROCESSORS)
        for flags, places in ((two, [everywhere] * 2),
                              ((*two, "--cpu-mask", mask(LAST)), [(LAST,)] * 2),
                              (("-t", "1", "-C", mask(LAST)), [(LAST,)]),
                              ((*two, "-Cr", f"{FIRST}-{FIRST}", "-C", mask(LAST)), [tuple({FIRST, LAST})] * 2),
                              ((*two, "--cpu-strict", "1", "-C", mask(FIRST, LAST)), sorted([(FIRST,), (LAST,)])),
                              (("-t", "1", "--cpu-strict", "1"), [(FIRST,)])):
            with self.subTest(flags=flags), self._make(self._logs, flags, {}) as server:
                self.assertEqual(self.places(server), places)
                others = [int(each) for each in os.listdir(f"/proc/{server.process.pid}/task")]
                others = [each for each in others if each not in self.computing(server)]
                self.assertEqual({tuple(sorted(os.sched_getaffinity(each))) for each in others}, {everywhere})
        run = run_program(*serve_command("--no-kv-disk", "--port", "0", "-Cr", "500-511")[1:])
        self.assertEqual(run.returncode, 1)
        self.assertIn("no processor that this process may use", run.stderr)

    @covers("--cpu-mask-batch", "--cpu-range-batch", "--cpu-strict-batch")
    def test_prompts_have_places_of_their_own(self):
        for threads in ("1", "2"):
            server = self.server("-t", threads, "-C", mask(FIRST), "-Cb", mask(LAST), "--cpu-strict-batch", "1")
            self.assertEqual(set(self.places(server, tokens=4)), {(FIRST,)})
            self.assertEqual(set(self.places(server, tokens=1)), {(LAST,)})  # the prompt was the last that was computed
            server.stop()
        server = self.server("-t", "2", "-Crb", f"{LAST}-{LAST}")
        self.assertEqual(set(self.places(server, tokens=1)), {(LAST,)})
        self.assertEqual(set(self.places(server, tokens=4)), {tuple(PROCESSORS)})

    @covers("--prio", "--prio-batch")
    def test_priorities(self):
        server = self.server("-t", "2", "--prio", "-1")
        self.assertEqual({os.sched_getscheduler(thread) for thread in self.complete(server, 4)}, {os.SCHED_BATCH})
        server.stop()
        flags = ("-t", "1", "--prio", "1", "--prio-batch", "2")
        if self.may_be_realtime():
            server = self.server(*flags)
            for tokens, priority in ((4, 40), (1, 80)):
                (thread,) = self.complete(server, tokens)
                self.assertEqual(os.sched_getscheduler(thread), os.SCHED_FIFO)
                self.assertEqual(os.sched_getparam(thread).sched_priority, priority)
        else:
            run = run_program(*serve_command("--no-kv-disk", "--port", "0", *flags)[1:])
            self.assertEqual(run.returncode, 1)
            self.assertIn("--prio: the system does not permit priority 1", run.stderr)
        run = run_program(*serve_command("--no-kv-disk", "--port", "0", "--prio", "-1", "--prio-batch", "0")[1:])
        self.assertIn("--prio -1 and --prio-batch 0 cannot be combined", run.stderr)

    def may_be_realtime(self):
        child = os.fork()
        if child == 0:
            try:
                os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(40))
                os._exit(0)
            except OSError:
                os._exit(1)
        return os.waitpid(child, 0)[1] == 0

    def sleeps(self, *flags):
        """How often threads that compute gave up their processor, for 40 tokens."""
        with self._make(self._logs, ("-t", "2", *flags), {}) as server:
            def count():
                total = 0
                for thread in self.computing(server):
                    with open(f"/proc/{server.process.pid}/task/{thread}/status") as file:
                        total += sum(int(line.split()[1]) for line in file if line.startswith("voluntary"))
                return total
            before = count()
            self.complete(server, 40)
            return count() - before

    @covers("--poll", "--poll-batch")
    def test_threads_wait_by_sleeping_or_spinning(self):
        asleep = self.sleeps("--poll", "0")
        spinning = self.sleeps("--poll", "100", "--poll-batch", "100")
        print(f"threads slept {asleep} times with --poll 0, {spinning} times with --poll 100")
        self.assertGreater(asleep, 3 * spinning)
        self.assertGreater(asleep, 40)
        run = run_program(*serve_command("--no-kv-disk", "--port", "0", "--poll", "0", "--poll-batch", "1")[1:])
        self.assertEqual(run.returncode, 1)
        self.assertIn("--poll-batch other than --poll is not supported", run.stderr)


if __name__ == "__main__":
    main()
