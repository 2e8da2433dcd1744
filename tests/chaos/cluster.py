"""Three brokers, each with a node and a disk of its own."""

import os
import pathlib
import shutil
import signal
import subprocess
import time

import disks
import kafka_metadata
import topology

PATIENCE = 300  # seconds, for a machine that has other things to do


class Cluster(topology.Broker):
    def __init__(self, folder, network, make_disk, mib):
        self.names = [f"broker{i}" for i in (1, 2, 3)]
        places = ",".join(f"{name}={network.address(name)}" for name in self.names) if network else ""
        super().__init__(folder, brokers=3, options=["--namespaces", places] if places else [])
        self.disks = {name: make_disk(self._home(name), mib) for name in self.names}

    def _home(self, name):
        return pathlib.Path(self.folder) / f"node-{name[-1]}"

    def pid(self, name):
        """None: it does not run."""
        try:
            pid = int((self._home(name) / "pid").read_text())
            command = pathlib.Path(f"/proc/{pid}/cmdline").read_text()
            if not command:  # it has ended; where we are process 1, it is ours
                os.waitpid(pid, os.WNOHANG)
        except (OSError, ValueError):
            return None
        return pid if str(self._home(name)) in command else None

    def signal(self, name, sig):
        pid = self.pid(name)
        if pid is not None:
            signal.pidfd_send_signal(os.pidfd_open(pid), sig)

    def kill_node(self, name):
        self.kill(node=int(name[-1]))

    def begin_start(self, name):
        """A process that ends when the broker answers."""
        return subprocess.Popen([topology.ROOT / "scripts" / "kafka", "start", "--node", name[-1],
                                 "--dir", self.folder], stdout=subprocess.DEVNULL,
                                stderr=subprocess.DEVNULL, stdin=subprocess.DEVNULL)

    def wipe(self, name):
        shutil.rmtree(self._home(name) / "data")

    def is_whole(self):
        """Whether all brokers are there and every partition has all its replicas in sync."""
        for address in self.address.split(","):
            try:
                brokers, partitions = kafka_metadata.ask(address)
            except OSError:
                return False
            if len(brokers) < 3 or any(set(part.replicas) != set(part.in_sync) or part.leader < 0
                                       for part in partitions):
                return False
        return True

    def partitions_without_leader(self):
        for address in self.address.split(","):
            try:
                return [p for p in kafka_metadata.ask(address)[1] if p.leader < 0]
            except OSError:
                continue
        return []

    def heal(self):
        """Undoes all that a job which was given up has left of its events."""
        for name in self.names:
            self.signal(name, signal.SIGCONT)
            self.disks[name].make_room(self.pid(name))
        self.start()
        self.wait_until_whole()

    def wait_until_whole(self):
        end = time.monotonic() + PATIENCE
        while not self.is_whole():
            if time.monotonic() > end:
                raise AssertionError(f"after {PATIENCE} s not all brokers are in sync again")
            time.sleep(0.5)

    def delete_topics(self, prefix):
        """Those whose names begin so."""
        if topics := [topic for topic in self.topics() if topic.startswith(prefix)]:
            self.delete(*topics)

    def topic_bytes(self, prefix=""):
        """On the broker that holds most, by topic; of those whose names begin so."""
        most = {}
        for name in self.names:
            totals = {}
            for folder in (self._home(name) / "data").glob(f"{prefix}*-*"):
                topic = folder.name.rsplit("-", 1)[0]
                totals[topic] = totals.get(topic, 0) + disks.bytes_on_disk(folder)
            for topic, size in totals.items():
                most[topic] = max(most.get(topic, 0), size)
        return most

    def bytes_on_disks(self):
        """Of the broker that has most."""
        return max(disks.bytes_on_disk(self._home(name) / "data") for name in self.names)

    def keep_logs(self, folder):
        for name in self.names:
            for log in self._home(name).glob("log*"):
                shutil.copy(log, pathlib.Path(folder) / f"{name}-{log.name}")

    def close(self):
        for name in self.names:
            self.signal(name, signal.SIGCONT)
        self._call("kill")
        for disk in self.disks.values():
            disk.remove()
