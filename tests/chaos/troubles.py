"""What an event does to programs and brokers, and how it is undone."""

import signal

# The codes with which a program ends (see --help of each): when it was asked to stop, which may come
# as the job ends; when another has taken its place, or what it would read is gone by then.
STOPPED = {0, 130}
TAKEN_OVER = {1, 4}


class Trouble:
    """One event that happens. `stage` is where it does (stage.py)."""

    def __init__(self, event, stage):
        self.event, self.stage = event, stage
        self.note = ""  # what came of it

    def begin(self):
        """False: there was nothing left to do it to."""
        raise NotImplementedError

    def end(self):
        """Undoes it. False: it takes longer, and this is called again."""
        raise NotImplementedError


class ProgramTrouble(Trouble):
    def __init__(self, event, stage):
        super().__init__(event, stage)
        plan = stage.job.plan
        self.victims = {"servers": list(plan.servers), "programs": plan.programs}.get(
            event.target, [event.target])

    def alive(self):
        return [name for name in self.victims if self.stage.runs(name)]

    def take_down(self):
        """Kills who lives, all at once."""
        self.victims = self.alive()
        self.stage.job.kill_all(self.victims)
        # Who had ended a moment ago is not started again.
        self.victims = [name for name in self.victims
                        if self.stage.job.processes[name].returncode != 0]
        self.stage.down.update(self.victims)
        return bool(self.victims)

    def start(self):
        self.stage.down.difference_update(self.victims)
        self.stage.job.start(*self.victims) if self.victims else None
        return True


class Kill(ProgramTrouble):
    begin = ProgramTrouble.take_down
    end = ProgramTrouble.start


class Wipe(Kill):
    def begin(self):
        if not self.take_down():
            return False
        for name in self.victims:
            self.stage.job.disks[name].wipe()
        return True


class Terminate(ProgramTrouble):
    def begin(self):
        self.victims = self.alive()
        self.stage.down.update(self.victims)
        for name in self.victims:
            self.stage.job.processes[name].terminate()
        return bool(self.victims)

    def end(self):
        for name in self.victims:
            code = self.stage.job.processes[name].poll()
            if code is None:
                return False
            # It had no handler yet, which is legal in its first milliseconds.
            if code not in STOPPED | {-signal.SIGTERM}:
                self.stage.fail(f"{name} ended with code {code} on SIGTERM")
            self.note += f"code {code} "
        return self.start()


class Stop(ProgramTrouble):
    def begin(self):
        self.victims = self.alive()
        for name in self.victims:
            self.stage.job.processes[name].send_signal(signal.SIGSTOP)
        return bool(self.victims)

    def end(self):
        for name in self.victims:
            self.stage.job.processes[name].send_signal(signal.SIGCONT)
        return True


class Replace(Stop):
    """It hangs, another is started in its place, and it moves again: it must end by itself."""

    def begin(self):
        if not super().begin():
            return False
        self.zombies = {name: self.stage.job.processes[name] for name in self.victims}
        self.stage.zombies.update(self.zombies)
        self.stage.caused.update(self.zombies)
        self.stage.job.start(*self.victims)
        # One that was stopped while it took over its shards goes on to do so, and fences its successor,
        # whose supervisor starts it again.
        for name in self.victims:
            self.stage.pardon(name, TAKEN_OVER)
        return True

    def end(self):
        for name, zombie in self.zombies.items():
            zombie.send_signal(signal.SIGCONT)
            code = zombie.poll()
            if code is None:
                return False
            # 0: the job has ended meanwhile.
            if code not in TAKEN_OVER | {0}:
                self.stage.fail(f"{name}, which had been replaced, ended with code {code}")
            self.note = f"code {code}"
            self.stage.zombies.pop(name, None)
        return True


class Fill(ProgramTrouble):
    """It may go on, if it has nothing to write meanwhile; one that ends must say why."""

    def begin(self):
        self.victims = self.alive()
        for name in self.victims:
            disk = self.stage.job.disks[name]
            disk.fill(self.stage.job.processes[name].pid)
            self.stage.pardon(name, {1}, disk.folder)
            self.stage.full.add(name)
        return bool(self.victims)

    def end(self):
        for name in self.victims:
            process = self.stage.job.processes[name]
            ended = process.poll() is not None
            self.stage.job.disks[name].make_room(None if ended else process.pid)
            self.note = "it has ended" if ended else "it has gone on"
            self.stage.full.discard(name)
            # One that lives may still end of what it could not write: the stage starts either again.
        return True


class FillStart(Fill):
    """Killed, and started when its disk is full. (One that runs has room in files that it has made
    longer than what is written in them.)"""

    def begin(self):
        if not self.take_down():
            return False
        for name in self.victims:
            self.stage.job.disks[name].fill(None)
            self.stage.full.add(name)
        self.start()
        for name in self.victims:
            self.stage.pardon(name, {1}, self.stage.job.disks[name].folder)
        return True

    def end(self):
        """It must end: no store can be opened there."""
        for name in self.victims:
            if not self.stage.job.disks[name].can_be_full:
                continue
            code = self.stage.job.processes[name].poll()
            if code is None:
                return False
            if code != 1:
                self.stage.fail(f"{name}, started on a full disk, ended with code {code}")
        return super().end()


class Cut(Trouble):
    def begin(self):
        event, network = self.event, self.stage.network
        if network is None or event.shape == "delay" and network.no_delays:
            self.note = "not possible here"
            return False
        self.key = self.stage.next_key()
        a, b = [event.target], [event.peer] if event.peer else []
        if event.shape == "delay":
            network.delay(self.key, event.target, event.milliseconds)
        else:
            network.cut(self.key, a, b) if event.shape != "in" else network.cut(self.key, [], a)
            if event.shape in ("drop", "pair"):
                self.back = self.stage.next_key()
                network.cut(self.back, b, a)
        return True

    def end(self):
        packets = self.stage.network.heal(self.key)
        if hasattr(self, "back"):
            packets += self.stage.network.heal(self.back)
        self.stage.count_packets(self.event.name, packets)
        self.note = f"{packets} packets"
        return True


class BrokerTrouble(Trouble):
    """After each the cluster becomes whole before another broker has its own."""

    starting = None

    def whole_again(self):
        name, cluster = self.event.target, self.stage.cluster
        if self.starting is None and cluster.pid(name) is None:
            self.starting = cluster.begin_start(name)
        if self.starting is not None:
            code = self.starting.poll()
            if code is None:
                return False
            if code != 0:
                self.stage.fail(f"{name} does not start again")
                return True
        return self.stage.is_whole()


class KillBroker(BrokerTrouble):
    def begin(self):
        self.stage.cluster.kill_node(self.event.target)
        return True

    end = BrokerTrouble.whole_again


class WipeBroker(KillBroker):
    def begin(self):
        super().begin()
        self.stage.cluster.wipe(self.event.target)
        return True


class StopBroker(BrokerTrouble):
    def begin(self):
        self.stage.cluster.signal(self.event.target, signal.SIGSTOP)
        return True

    def end(self):
        self.stage.cluster.signal(self.event.target, signal.SIGCONT)
        return self.whole_again()


class FillBroker(BrokerTrouble):
    def begin(self):
        name, cluster = self.event.target, self.stage.cluster
        cluster.disks[name].fill(cluster.pid(name))
        self.full = True
        return True

    def end(self):
        name, cluster = self.event.target, self.stage.cluster
        if self.full:
            self.full = False
            pid = cluster.pid(name)
            self.note = "it has ended" if pid is None else "it has gone on"
            cluster.disks[name].make_room(pid)
        return self.whole_again()


class CutBroker(Cut, BrokerTrouble):
    healed = False

    def end(self):
        if not self.healed:
            self.healed = super().end()
        return self.whole_again()


PROGRAM = {"kill": Kill, "terminate": Terminate, "stop": Stop, "replace": Replace, "wipe": Wipe,
           "fill": Fill, "fill-start": FillStart, "cut": Cut}  # fmt: skip
BROKER = {"kill": KillBroker, "stop": StopBroker, "wipe": WipeBroker, "fill": FillBroker,
          "cut": CutBroker}  # fmt: skip


def of_broker(event):
    return event.target.startswith("broker")


def make(event, stage):
    return (BROKER if of_broker(event) else PROGRAM)[event.kind](event, stage)
