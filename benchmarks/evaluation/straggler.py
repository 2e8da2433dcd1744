"""A program that is slowed down on purpose.

It is stopped (SIGSTOP) for most of each period and runs (SIGCONT) for the rest, so that over any second it
works for the same share of the time, whatever else the machine does. All periods are equal, nothing is
drawn. A program that is stopped loses no state and no connection; others just have to wait for it.
"""

import signal
import threading

PERIOD_S = 0.04
RUNS = 0.25  # of each period


class Straggler(threading.Thread):
    """Slows a program of `programs` down until it ends, or the block is left."""

    def __init__(self, programs, name):
        super().__init__(daemon=True)
        self.programs, self.name_of_program, self.over = programs, name, threading.Event()

    def run(self):
        while self.programs.signal(self.name_of_program, signal.SIGSTOP):
            self.over.wait(PERIOD_S * (1 - RUNS))
            if not self.programs.signal(self.name_of_program, signal.SIGCONT) or self.over.is_set():
                return
            self.over.wait(PERIOD_S * RUNS)

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, *_):
        self.over.set()
        self.join()
        self.programs.signal(self.name_of_program, signal.SIGCONT)


def words():
    """How, for readers."""
    return (f"one of the four WorkerApps is stopped by SIGSTOP for {1000 * PERIOD_S * (1 - RUNS):.0f} ms and runs "
            f"(SIGCONT) for {1000 * PERIOD_S * RUNS:.0f} ms, repeatedly, from the first row on: it has "
            f"{RUNS:.0%} of the time of the others")
