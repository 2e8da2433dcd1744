"""Programs that run at the same time: started, watched, ended. Of each that has ended, its processor
time and the most memory that it had."""

import os
import pathlib
import re
import subprocess
import threading
import time

POLL_S = 0.02


class Failed(RuntimeError):
    """A program has failed, or has not done in time what it should."""


def cpu_s(pid):
    """User and system time so far, of a process that runs."""
    words = pathlib.Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rsplit(")", 1)[1].split()
    return (int(words[11]) + int(words[12])) / os.sysconf("SC_CLK_TCK")


def peak_mib(pid):
    """The most resident memory so far; None when the process has none any more. (What wait4 says
    includes that of the process from which it was forked.)"""
    try:
        status = pathlib.Path(f"/proc/{pid}/status").read_text(encoding="ascii", errors="replace")
    except OSError:
        return None
    found = re.search(r"^VmHWM:\s+(\d+) kB", status, re.M)
    return int(found[1]) / 1024 if found else None


class Programs:
    """Those still running are killed when the block is left, by an exception or not."""

    def __init__(self, folder):
        self.folder = pathlib.Path(folder)
        self.folder.mkdir(parents=True, exist_ok=True)
        self.running, self.ended_s = {}, {}
        self.cpu_s, self.peak_mib = {}, {}
        self.lock = threading.Lock()  # a pid is signalled only while it is ours

    def __enter__(self):
        return self

    def __exit__(self, *_):
        with self.lock:
            for process in self.running.values():
                process.kill()
                process.wait()
            self.running.clear()

    def log(self, name):
        return (self.folder / f"{name}.log").read_text(encoding="utf-8", errors="replace")

    def start(self, name, *words):
        """In a session of its own: Ctrl-C in the terminal is for whoever started them."""
        with open(self.folder / f"{name}.log", "w", encoding="utf-8") as out:
            self.running[name] = subprocess.Popen(
                [str(word) for word in words], stdin=subprocess.DEVNULL, stdout=out, stderr=out,
                cwd=self.folder, start_new_session=True)

    def signal(self, name, number):
        """False: it has ended."""
        with self.lock:
            if name not in self.running:
                return False
            # Not by Popen, which would reap one that has ended, and lose what it used.
            os.kill(self.running[name].pid, number)
            return True

    def attend(self):
        """Notes what the running ones use, and reaps those that have ended."""
        for name, process in list(self.running.items()):
            most = peak_mib(process.pid)
            if most is not None:
                self.peak_mib[name] = max(most, self.peak_mib.get(name, 0))
            with self.lock:
                pid, status, usage = os.wait4(process.pid, os.WNOHANG)
                if pid == 0:
                    continue
                process.returncode = os.waitstatus_to_exitcode(status)
                del self.running[name]
            self.ended_s[name] = time.monotonic()
            self.cpu_s[name] = usage.ru_utime + usage.ru_stime
            if process.returncode != 0:
                raise Failed(f"{name}: exit code {process.returncode}: {last_line(self.log(name))}")

    def wait(self, names, limit_s):
        """Until they have ended well."""
        self.until(lambda: not any(name in self.running for name in names), limit_s,
                   lambda: f"{', '.join(name for name in names if name in self.running)} did not end")

    def until(self, is_done, limit_s, what):
        limit = time.monotonic() + limit_s
        while not is_done():
            self.attend()
            if time.monotonic() > limit:
                raise Failed(f"{what()} in {limit_s:.0f} s")
            time.sleep(POLL_S)


def last_line(text):
    lines = [line for line in text.split("\n") if line.strip()]
    return lines[-1] if lines else "it said nothing"
