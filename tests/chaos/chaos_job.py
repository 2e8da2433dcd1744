"""A planned job: its programs, each on a node and with a disk of its own."""

import csv
import io
import pathlib

import topology

DISK_MIB = 256
CLASSES = "low", "middle", "high"
# Beside the label, which a class follows from and a number.
COLUMNS = ["--categorical", "shop,shop*day", "--categorical-buckets", "64"]
ID_COLUMNS = ["--ids", "shop,day,shop*day,id"]
TEXT = ["--text", "words", "--text-buckets", "64"]
BURSTS = 100  # in which a plan's rows come, at most


def classes(plan):
    """Those that are asked for; none of a regression."""
    if plan.kind.regression:
        return ()
    return ("low", "high") if plan.kind.rejects else CLASSES


def features(plan):
    """The label, and columns that it follows from; of an estimated price, the verdict."""
    if plan.kind.regression:
        label = ["--label", "price", "--regression", "--numeric", "weight"]
    else:
        label = ["--label", "verdict", "--classes", ",".join(classes(plan)), "--numeric",
                 "price,weight"]
    columns = ID_COLUMNS if plan.kind.has_ids else COLUMNS
    verdict = ["verdict"] if plan.kind.regression else []
    return [*label, columns[0], ",".join([*verdict, columns[1]]), *columns[2:], *TEXT]


def write_data(plan, path):
    """The rows of a plan; how many of them are to be trained on: those of a class asked for."""
    topology.write_csv(path, plan.rows, seed=plan.data_seed)
    topology.record_in_bursts(path, -(-plan.rows // BURSTS))
    return plan.rows - len(malformed_ids(plan, path))


def malformed_ids(plan, path):
    """Of the rows in a file: those of a class that is not asked for."""
    if not plan.kind.rejects:
        return []
    with open(path, newline="", encoding="utf-8") as file:
        return [row["id"] for row in csv.DictReader(file) if row["verdict"] not in classes(plan)]


def rejected_ids(path):
    """Of the rows in a reject file; none if there is no file."""
    if not path.exists():
        return []
    with open(path, newline="", encoding="utf-8") as file:
        return [next(csv.reader(io.StringIO(line["row"], newline="")))[0]
                for line in csv.DictReader(file)]


class ChaosJob(topology.Job):
    def __init__(self, plan, cluster, name, folder, data, network, make_disk, paced):
        """paced: the rows come over the plan's seconds, not as fast as they can."""
        pathlib.Path(folder).mkdir(parents=True)
        pace = ["--time-column", "recorded", "--speedup", f"{BURSTS / plan.seconds:.2f}"] if paced else []
        super().__init__(
            cluster, name, folder, workers=plan.workers, data=data, servers=plan.servers,
            training=["--model", plan.kind.model, "--schedule", plan.kind.schedule,
                      "--consistency", plan.kind.consistency, *plan.training],
            features=features(plan), producer=pace, common=["--replication-factor", "3"])
        self.plan = plan
        for server in plan.servers:
            command = self.commands[server]
            command += ["--snapshot-dir", self.snapshots]
            if plan.replicas:
                host = network.address(server) if network else "127.0.0.1"
                command += ["--replicas", plan.replicas, "--replica-listen", f"{host}:0"]
                if network:
                    command.append("--replica-insecure")
        self.rejects = self.folder / "producer" / "rejects.csv"  # on the producer's disk
        command = self.commands["producer"]
        command[command.index("--reject-file") + 1] = self.rejects
        self._asks = 0
        # They die with us, and a file that may not grow is an error to them, not a signal.
        keep = ["setpriv", "--pdeathsig", "KILL", "env", "--ignore-signal=SIGXFSZ"]
        for program, command in self.commands.items():
            self.commands[program] = [*keep, *(network.prefix(program) if network else []), *command]
        self.disks = {program: make_disk(self.folder / program, DISK_MIB)
                      for program in plan.programs}

    def ask_for_snapshot(self):
        """Starts who asks; its name."""
        self._asks += 1
        name = f"ask{self._asks}"
        self.commands[name] = [*self.commands["server0"], "--checkpoint-now"]
        self.start(name)
        return name

    def start_from(self, snapshot):
        for server in self.plan.servers:
            self.commands[server] += ["--from-snapshot", snapshot]

    def whole_snapshots(self):
        """Those that were asked for."""
        return sorted(manifest.parent for manifest in self.snapshots.glob("*/manifest.json")
                      if not manifest.parent.name.endswith("-end"))

    def end_rows(self):
        return self.rows() if self.has_rows else {}

    def close(self):
        super().close()
        for disk in self.disks.values():
            disk.remove()
