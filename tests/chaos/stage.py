"""A job that runs while things happen to it: who is meant to run, who may end, and who hangs."""

import time

import checks
import samples
import troubles

PATIENCE = 300  # seconds without a cause after which something hangs, on the slowest machine


class Failed(Exception):
    """What was wrong is in Stage.wrong."""


class Stage:
    def __init__(self, job, cluster, network, on_tick=None):
        self.job, self.cluster, self.network = job, cluster, network
        self.wrong = []
        self.down = set()  # killed by an event that will start them again
        self.zombies = {}  # replaced, but not gone
        self.full = set()  # programs whose disks have no room now
        self.caused = set()  # programs that have ended with an error that an event caused
        self.packets = {}
        self.happened = []  # (event, when it began, when it was undone, note); None: not at all
        self.active = [None, None]  # of programs, of brokers
        self.asks, self.asked_in_vain = [], 0
        self.memory = samples.Series()
        self.topics = samples.Series()
        self._pardons, self._keys, self._next = {}, 0, {}
        self._on_tick = on_tick
        self._begin = time.monotonic()

    # For troubles

    def runs(self, name):
        return name not in self.down and self.job.processes[name].poll() is None

    def pardon(self, name, codes, full=None):
        """This process, and no successor, may end with one of the codes, and is started again.
        full: a folder without room, which it must name as it ends."""
        self._pardons[name] = (self.job.processes[name], codes, full)

    def next_key(self):
        self._keys += 1
        return f"cut{self._keys}"

    def count_packets(self, name, packets):
        self.packets[name] = self.packets.get(name, 0) + packets

    def is_whole(self):
        return self.every("whole", 1) and self.cluster.is_whole()

    def fail(self, text):
        self.wrong.append(text)

    def close(self):
        """Ends every process, also those of which the job does not know."""
        self.job.close()
        for zombie in self.zombies.values():
            zombie.kill()
            zombie.wait()

    # The run

    def run(self, events, snapshots):
        """Until all programs have ended. Raises Failed on the first thing that cannot be."""
        self._wait_for_answers()
        begin = time.monotonic()
        lanes = [[e for e in events if not troubles.of_broker(e)],
                 [e for e in events if troubles.of_broker(e)]]
        active, snapshots, changed = self.active, list(snapshots), begin
        while True:
            now = time.monotonic() - begin
            for lane in 0, 1:
                before = active[lane]
                active[lane] = self._step(lanes[lane], before, now, begin)
                if active[lane] is not before:
                    changed = time.monotonic()
            while snapshots and snapshots[0] <= now and self.runs("server0"):
                snapshots.pop(0)
                self.asks.append(self.job.ask_for_snapshot())
            self._tick()
            if self._all_ended():
                break
            stream_end = begin + self.job.plan.seconds
            if time.monotonic() - max(changed, stream_end) > PATIENCE:
                alive = [name for name in self.job.processes if self.runs(name)]
                self.fail(f"hangs: {PATIENCE} s after the last event, and after the stream, "
                          f"{', '.join(alive)} still run")
                raise Failed
            time.sleep(0.05)
        self._finish(lanes, begin)

    def _step(self, events, trouble, now, begin):
        """Ends the trouble of a lane when it is due, or begins the next; what is active then."""
        if trouble is not None:
            due = trouble.began + trouble.event.lasts
            if now < due:
                return trouble
            if trouble.end():
                self.happened.append((trouble.event, trouble.began, now, trouble.note))
                self._check()
                return None
            if now - due > PATIENCE:
                self.fail(f"what ends this event is not over after {PATIENCE} s: {trouble.event}")
                raise Failed
            return trouble
        if not events or events[0].at > now:
            return None
        # The cluster has to be whole, which it may not be yet after the last job.
        if troubles.of_broker(events[0]) and not self.is_whole():
            return None
        trouble = troubles.make(events.pop(0), self)
        trouble.began = now
        if trouble.begin():
            return trouble
        self.happened.append((trouble.event, None, None, trouble.note))
        return None

    def _finish(self, lanes, begin):
        """What still happens is undone; what has not begun was drawn too late."""
        limit = time.monotonic() + PATIENCE
        for trouble in self.active:
            if trouble is None:
                continue
            while not trouble.end():
                if time.monotonic() > limit:
                    self.fail(f"what ends this event is not over after {PATIENCE} s: {trouble.event}")
                    raise Failed
                time.sleep(0.1)
            self.happened.append((trouble.event, trouble.began, time.monotonic() - begin,
                                  trouble.note))
        for events in lanes:
            self.happened += [(event, None, None, "the job had ended") for event in events]
        self._tick()  # starts again whom a full disk has ended
        while not self._all_ended():  # also whom the end of an event has started again
            self._tick()
            if time.monotonic() > limit:
                self.fail("programs that were started after the end of the job do not end")
                raise Failed
            time.sleep(0.1)
        self._end_asks()
        self._check()

    def _end_asks(self):
        """Ends who still waits for a snapshot of a job that has ended. (Another may have ended by itself
        since the last tick.)"""
        for name in self.asks:
            process, stopped = self.job.processes[name], set()
            if process.poll() is None:
                process.terminate()
                process.wait(PATIENCE)
                stopped = troubles.STOPPED
                self.asked_in_vain += 1
            self._judge_ask(name, {0, 1} | stopped)

    def _judge_ask(self, name, legal):
        """Of one that has ended. Snapshots are given up when servers die, and the job may end before."""
        code = self.job.processes[name].returncode
        if code not in legal:
            self.fail(f"{name}, who asked for a snapshot, ended with code {code}")
        if code != 0:
            self.caused.add(name)

    def _wait_for_answers(self):
        """Until a server has said something: events before would meet nothing."""
        limit = time.monotonic() + PATIENCE
        topic = f"{self.job.name}.weights"
        while not self.cluster.topic_bytes(topic).get(topic) and not self._all_ended():
            self._tick()
            if time.monotonic() > limit:
                self.fail(f"hangs: no weights came within {PATIENCE} s")
                raise Failed
            time.sleep(0.1)

    def _all_ended(self):
        return not self.down and not self.zombies and all(
            process.poll() is not None for name, process in self.job.processes.items()
            if name not in self.asks)

    def _tick(self):
        for name, process in list(self.job.processes.items()):
            code = process.poll()
            if code in (None, 0) or name in self.down:
                continue
            if name in self.asks:
                self._judge_ask(name, {1})
                continue
            pardoned, legal, full = self._pardons.get(name, (None, (), None))
            if process is pardoned and code in legal:
                self.caused.add(name)
                if full:
                    self.wrong += checks.unexplained_end(name, self.job.said(name), full)
                if name not in self.full:
                    self.job.start(name)
                continue
            self.fail(f"{name} ended with code {code}, which no event has caused")
        self._check()
        if self.every("memory", 1):
            self._sample()
        if self._on_tick:
            self._on_tick()

    def _check(self):
        if self.wrong:
            raise Failed

    def _sample(self):
        now = time.monotonic() - self._begin
        for name, process in self.job.processes.items():
            used = samples.memory(process.pid) if process.returncode is None else None
            if used:
                self.memory.add(name, now, used[0])
        for name in self.cluster.names:
            used = samples.memory(self.cluster.pid(name) or 0)
            if used:
                self.memory.add(name, now, used[0])
        if self.every("topics", 5):
            for topic, size in self.cluster.topic_bytes(f"{self.job.name}.").items():
                self.topics.add(topic.removeprefix(f"{self.job.name}."), now, size)

    def every(self, what, seconds):
        now = time.monotonic()
        if now < self._next.get(what, 0):
            return False
        self._next[what] = now + seconds
        return True
