"""What a seed means: jobs and what happens to them. Pure; the same seed gives the same draws."""

import dataclasses
import random
import typing

BROKERS = "broker1", "broker2", "broker3"
PROGRAMS = "server0", "server1", "server2", "worker0", "worker1", "producer"  # at most

# Of what happens to programs and to brokers, with weights. A cut has a shape of its own.
PROGRAM_EVENTS = {"kill": 4, "kill-servers": 1, "kill-all": 1, "stop": 3, "terminate": 2,
                  "replace": 1, "wipe": 3, "fill": 2, "fill-start": 2, "cut": 4}  # fmt: skip
BROKER_EVENTS = {"kill": 3, "stop": 2, "wipe": 2, "fill": 1, "cut": 3}
CUTS = "drop", "out", "in", "pair", "pair-one-way", "delay"


class Kind(typing.NamedTuple):
    model: str
    consistency: str
    schedule: str = "one-pass"
    regression: bool = False  # a number is estimated; else classes are told apart

    @property
    def has_ids(self):
        return self.model != "softmax" and self.schedule == "one-pass"

    @property
    def rejects(self):
        """Whether it has rows of a class that is not asked for: these models know two."""
        return self.model in ("fm", "deepfm") and not self.regression

    @property
    def other_writers(self):
        """Who writes to a disk besides servers: workers keep the rows of a buffer there, the producer
        those that it rejects."""
        return [*(["worker0", "worker1"] if self.schedule == "buffer" else []),
                *(["producer"] if self.rejects else [])]

    def __str__(self):
        label = " regression" if self.regression else ""
        return f"{self.model}{label} {self.consistency} {self.schedule}"


# Every kind of job once, in an order in which also the first few differ much. (New ones come at the
# end: so the first jobs of a seed stay what they are.)
KINDS = [Kind("fm", "sequential"), Kind("softmax", "eventual", "buffer"),
         Kind("softmax", "sequential"), Kind("deepfm", "bounded:2"),
         Kind("deepfm", "sequential"), Kind("softmax", "sequential", "buffer"),
         Kind("fm", "eventual"), Kind("softmax", "bounded:2"),
         Kind("deepfm", "eventual"), Kind("softmax", "bounded:2", "buffer"),
         Kind("fm", "bounded:2"), Kind("softmax", "eventual"),
         Kind("network", "sequential"), Kind("softmax", "sequential", regression=True),
         Kind("network", "eventual", "buffer"), Kind("fm", "sequential", regression=True),
         Kind("network", "bounded:2"), Kind("softmax", "eventual", "buffer", regression=True),
         Kind("network", "sequential", regression=True), Kind("deepfm", "bounded:2", regression=True),
         Kind("softmax", "bounded:2", regression=True)]  # fmt: skip


@dataclasses.dataclass(frozen=True)
class Event:
    at: float  # seconds after the job's shards answer
    kind: str
    target: str  # a program, a broker, or several: "servers", "programs"
    lasts: float  # seconds until it is undone: started again, room made, healed
    shape: str = ""  # of a cut
    peer: str = ""  # of a cut between two
    milliseconds: int = 0  # of a delay

    @property
    def name(self):
        return f"cut-{self.shape}" if self.kind == "cut" else self.kind

    def __str__(self):
        words = [f"{self.at:6.1f} s", self.name, self.target]
        if self.peer:
            words.append(f"and {self.peer}" if self.shape == "pair" else f"to {self.peer}")
        if self.milliseconds:
            words.append(f"by {self.milliseconds} ms")
        return " ".join([*words, f"for {self.lasts:.1f} s"])


@dataclasses.dataclass(frozen=True)
class JobPlan:
    number: int
    kind: Kind
    training: tuple  # further flags of ServerApp
    servers: dict  # the shards of each
    replicas: int
    workers: int
    rows: int
    seconds: float  # in which the rows are sent
    data_seed: int
    events: tuple
    snapshots: tuple  # when one is asked for
    again: "JobPlan | None" = None  # goes on from one of them, on another number of shards

    @property
    def shards(self):
        return sum(len(ids) for ids in self.servers.values())

    @property
    def same_bytes(self):
        """Whether its result is the same bytes whatever happens to it."""
        return (self.kind.consistency == "sequential" and self.kind.schedule == "one-pass"
                and "--top-k" not in self.training)

    def undisturbed(self):
        """The same job, to compare its bytes with, which no layout changes: as cheap as it can be."""
        return dataclasses.replace(self, servers={"server0": [0]}, replicas=0, events=(), snapshots=(),
                                   again=None)

    def short(self):
        """Without accidents: enough for an error that is planted."""
        return dataclasses.replace(self, rows=1000, seconds=2, events=(), snapshots=(), again=None)

    @property
    def programs(self):
        return [*self.servers, "worker0", "worker1", "producer"]

    @property
    def writers(self):
        """Whose disks can be full: those of all who write to one."""
        return [*self.servers, *self.kind.other_writers]

    def __str__(self):
        servers = "; ".join(f"{name}: {','.join(map(str, ids))}"
                            for name, ids in self.servers.items())
        text = (f"{self.kind} {' '.join(self.training)}, "
                f"shards ({servers}), replicas {self.replicas}, workers {self.workers}, "
                f"{self.rows} rows in {self.seconds:.0f} s")
        if self.snapshots:
            text += f", {len(self.snapshots)} snapshots"
        if self.again:
            text += f", then again from a snapshot on {self.again.shards} shards"
        return text


def _pick(draw, weights):
    return draw.choices(list(weights), list(weights.values()))[0]


def _cut(draw, node, others, at, lasts):
    shape = draw.choice(CUTS)
    peer = draw.choice(others) if shape.startswith("pair") else ""
    late = draw.choice((20, 50, 100, 300)) if shape == "delay" else 0
    return Event(at, "cut", node, lasts, shape, peer, late)


def _program_event(draw, programs, servers, writers, at):
    stores = [name for name in programs if name != "producer"]
    # Servers have other things to delete when they start, and producers their reject file.
    with_stores = [name for name in writers if name.startswith("worker")]
    kind = _pick(draw, {kind: weight for kind, weight in PROGRAM_EVENTS.items()
                        if kind != "fill-start" or with_stores})  # fmt: skip
    # Longer than the session timeout of workers in one of two.
    lasts = round(draw.choice((draw.uniform(0.2, 1.2), draw.uniform(2, 7))), 1)
    if kind == "kill-servers":
        return Event(at, "kill", "servers", lasts)
    if kind == "kill-all":
        return Event(at, "kill", "programs", lasts)
    # The disks of several servers at once: all of the shards come from their topics.
    if kind == "wipe" and draw.random() < 0.2:
        return Event(at, "wipe", "servers", lasts)
    if kind == "fill-start":
        return Event(at, kind, draw.choice(with_stores), lasts)
    at_random = {"replace": servers, "fill": writers or servers, "wipe": stores}.get(kind, programs)
    target = draw.choice(servers if draw.random() < 0.5 else at_random)
    if kind == "cut":
        # Servers fetch replicas from each other; else programs speak to brokers only.
        others = [name for name in servers if name != target] if target in servers else []
        return _cut(draw, target, [*BROKERS, *others], at, round(lasts + 2, 1))
    return Event(at, kind, target, lasts)


def _broker_event(draw, programs, at):
    kind = _pick(draw, BROKER_EVENTS)
    target = draw.choice(BROKERS)
    lasts = round(draw.uniform(1, 8), 1)
    if kind == "cut":
        others = [name for name in (*BROKERS, *programs) if name != target]
        return _cut(draw, target, others, at, lasts)
    return Event(at, kind, target, lasts)


def draw_events(draw, servers, programs, writers, seconds):
    """Programs and brokers have their troubles independently of each other; but of the programs one
    at a time, and of the brokers: topics have three replicas, two of which must be in sync.
    writers: who writes to a disk, besides servers."""
    events = []
    for pause, one in (1.5, lambda at: _program_event(draw, programs, servers, writers, at)), \
                      (6, lambda at: _broker_event(draw, programs, at)):  # fmt: skip
        at = draw.uniform(0.5, 2 * pause)
        while at < seconds:
            events.append(one(round(at, 1)))
            at += events[-1].lasts + draw.uniform(0.5, 2) * pause
    return tuple(sorted(events, key=lambda event: event.at))


def draw_servers(draw):
    """One of all shards, or one of each, or something between."""
    shards = draw.randint(1, 3)
    hosts = draw.randint(1, shards)
    servers = {f"server{i}": [] for i in range(hosts)}
    for shard in range(shards):
        servers[f"server{shard % hosts}"].append(shard)
    return servers


def _draw_training(draw, kind):
    if kind.schedule == "buffer":
        flags = ["--buffer-min", "64", "--buffer-max", "256", "--rounds-after-end", "3"]
    else:
        flags = ["--batch-rows", str(draw.choice((8, 16, 32)))]
    update = "gradient"
    if kind.model == "softmax":
        # The first, also without a word of it: nothing else is said of an optimizer.
        updates = ("online", "gradient", "weight-change") if kind.schedule == "one-pass" else (
            "gradient", "weight-change")  # fmt: skip
        update = draw.choices(updates, (4, 4, 2)[-len(updates):])[0]
        if update != "online" or draw.random() < 0.5:
            flags += ["--update", update]
    if update == "weight-change":
        flags += ["--l2", "0.001"]
    elif draw.random() < 0.3:
        values = draw.choice(("fp16", "bf16"))
        # (ServerApp refuses fp16 with online learners.)
        flags += ["--compress", "bf16" if update == "online" else values]
    if update == "gradient":
        flags += ["--learning-rate", "0.05"]
        flags += ["--optimizer", draw.choice(("adagrad", "adam", "sgd", "momentum", "ftrl")
                                             if kind.model == "softmax" else ("adagrad", "ftrl"))]
        if kind.consistency != "sequential" and draw.random() < 0.2:
            flags += ["--top-k", "0.5"]
    if kind.model in ("fm", "deepfm"):
        flags += ["--factors", "4"]
    if kind.has_ids:
        flags += ["--embedding-cache", "1"]
        if draw.random() < 0.3:
            flags += ["--admit-after", "2"]
    if kind.model in ("deepfm", "network"):
        flags += ["--hidden", "16,8"]
    return (*flags, *(_draw_loss(draw) if kind.regression else _draw_class_weights(draw)))


def _draw_class_weights(draw):
    weights = draw.choice((None, None, "balanced", "high=2.5,low=0.5"))
    return ["--class-weight", weights] if weights else []


def _draw_loss(draw):
    """Squared errors are also the default."""
    return draw.choice(([], ["--loss", "squared"], ["--loss", "absolute"], ["--loss", "huber"],
                        ["--loss", "huber", "--huber-limit", "0.5"]))


def draw_job(seed, number):
    """A job is a function of the seed and its number alone."""
    draw = random.Random(f"{seed}:{number}")
    # Each seed begins with another kind; then all of them come in turn.
    kind = KINDS[(seed - 1 + number) % len(KINDS)]
    servers, writers = draw_servers(draw), kind.other_writers
    programs = [*servers, "worker0", "worker1", "producer"]
    seconds = draw.uniform(20, 35)
    snapshots = tuple(round(draw.uniform(3, seconds - 8), 1)
                      for _ in range(draw.choice((0, 1, 1, 2))))
    plan = JobPlan(
        number, kind, _draw_training(draw, kind), servers, draw.randint(0, len(servers) - 1), draw.randint(2, 4),
        # Not more: brokers spend their time on rounds, and accidents come by the clock.
        draw.randint(4000, 16000) // 2,
        seconds, draw.randrange(1 << 30), draw_events(draw, list(servers), programs, writers, seconds),
        tuple(sorted(snapshots)))
    if not plan.snapshots or not plan.same_bytes:
        return plan
    others = draw_servers(draw)
    while sum(map(len, others.values())) == plan.shards:
        others = draw_servers(draw)
    again = dataclasses.replace(
        plan, servers=others, replicas=draw.randint(0, len(others) - 1), seconds=15, snapshots=(),
        events=draw_events(draw, list(others), [*others, "worker0", "worker1", "producer"], writers,
                           12))
    return dataclasses.replace(plan, again=again)
