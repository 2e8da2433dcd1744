"""The commands of the pages of docs/ and of the README, and how they are run as they stand there."""

import os
import pathlib
import re
import shlex
import signal
import subprocess
import time

import topology

PATIENCE = topology.PATIENCE
# What a line of a block begins with that is a command (or flags of one), and no output.
PROGRAMS = {"--numeric", "CsvProducer", "MasterApp", "Predictor", "ServerApp", "TopicSource", "Watch", "WorkerApp",
            "build/venv/bin/python", "curl", "kafka-console-consumer", "kafka-console-producer",
            "kafka-topics", "mkdir", "pkill", "python3"}  # fmt: skip


def _is_whole(command):
    if command.endswith("\\"):
        return False
    try:
        shlex.split(command, comments=True)
    except ValueError:  # a quotation goes on in the next line
        return False
    return True


def commands_of(page):
    """Of the indented blocks of a page, each with its place; continued lines are one command."""
    found, command, place = [], "", 0
    for number, line in enumerate((topology.ROOT / page).read_text(encoding="utf-8").split("\n"), 1):
        if command:
            command += "\n" + line[4:]
        elif line.startswith("    ") and line.split()[:1] and line.split()[0] in PROGRAMS:
            command, place = line[4:], number
        if command and _is_whole(command):
            found.append((f"{page}:{place}", command))
            command = ""
    return found


def plain(command):
    """Without its comment and line breaks."""
    return re.sub(r"\s+", " ", re.sub(r"\\\n", " ", re.sub(r"\s+# .*$", "", command, flags=re.M))).strip()


class Pages:
    """The commands of some pages, each of which has to be taken once, or the pages have one that nobody
    tests. What stands in several places is one command."""

    def __init__(self, *names):
        self.left = {}  # as it stands there, and where, by its plain text
        for name in names:
            for place, text in commands_of(name):
                self.left.setdefault(plain(text), (text, []))[1].append(place)

    def take(self, beginning):
        """The command that is this text, or the only one that begins so; as it stands on its page."""
        found = [text for text in self.left if text == beginning] or [
            text for text in self.left if text.startswith(beginning)]
        if len(found) != 1:
            raise AssertionError(f"{len(found)} commands on the pages begin with {beginning!r}: {found}")
        return self.left.pop(found[0])[0]


class Terminals:
    """Where a reader of the pages types: the programs are on the path, the shell stands in `folder`."""

    def __init__(self, pages, folder):
        self.pages, self.folder, self._running = pages, pathlib.Path(folder), []
        self._environment = {**os.environ, "PATH": ":".join(
            [str(topology.PROGRAMS), str(topology.ROOT / "build" / "venv" / "bin"), str(self.folder / "bin"),
             os.environ["PATH"]])}  # fmt: skip

    def run(self, beginning):
        """Until it ends, with exit code 0; what it has printed."""
        return self.type(self.pages.take(beginning))

    def type(self, command):
        """A command that stands on no page."""
        done = subprocess.run(["bash", "-c", command], cwd=self.folder, env=self._environment,
                              timeout=PATIENCE, check=False, capture_output=True, text=True)
        if done.returncode != 0:
            raise AssertionError(f"exit code {done.returncode} of {command}\n{done.stdout}{done.stderr}")
        return done.stdout + done.stderr

    def begin(self, beginning):
        """One that stays, in a terminal of its own."""
        return self.begin_typed(self.pages.take(beginning))

    def begin_typed(self, command):
        self._running.append(Started(command, self.folder / f"terminal-{len(self._running)}.log",
                                     self.folder, self._environment))
        return self._running[-1]

    def said(self):
        return "".join(f"--- {started.command}\n{started.said()[-1500:]}\n" for started in self._running)

    def close(self):
        for started in self._running:
            started.kill()


class Started:
    def __init__(self, command, log, folder, environment):
        self.command, self._log, self._folder, self._environment = command, log, folder, environment
        self.again()

    def again(self):
        """Typed once more, after it has ended."""
        with open(self._log, "ab") as out:
            self._begin = out.tell()
            self._process = subprocess.Popen(["bash", "-c", f"exec {self.command}"], cwd=self._folder,
                                             env=self._environment, stdin=subprocess.DEVNULL, stdout=out,
                                             stderr=out)

    def said(self):
        return self._log.read_bytes()[self._begin:].decode(errors="replace")

    def wait_for(self, text):
        end = time.monotonic() + PATIENCE
        while text not in self.said():
            if self._process.poll() is not None or time.monotonic() > end:
                raise AssertionError(f"'{text}' was not said by {self.command}\n{self.said()}")
            time.sleep(0.05)

    def wait(self, code=0):
        if (got := self._process.wait(PATIENCE)) != code:
            raise AssertionError(f"exit code {got} of {self.command}\n{self.said()}")

    def interrupt(self, code=130):
        self._process.send_signal(signal.SIGINT)
        self.wait(code)

    def kill(self):
        if self._process.poll() is None:
            self._process.kill()
        self._process.wait()
