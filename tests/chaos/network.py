"""A network of namespaces on one machine: a router, and a node for each program and broker.

The router is the namespace in which this runs. Every packet between two nodes passes through it, so
what the router drops or delays is lost or late on the way: neither end is told.

REQUIRES: a network namespace of our own with CAP_NET_ADMIN (see isolation.py), where /run is ours.
"""

import json
import os
import pathlib
import subprocess
import sys

HERE = pathlib.Path(__file__).parent


def run(*words, text=None):
    done = subprocess.run([str(word) for word in words], input=text, capture_output=True, text=True,
                          check=False)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(map(str, words))}: {(done.stderr or done.stdout).strip()}")
    return done.stdout


class Network:
    def __init__(self, names):
        """A node for each name."""
        self._index = {name: i for i, name in enumerate(names, start=1)}
        self._cuts, self._delays = {}, {}
        self.no_delays = "" if os.access("/dev/net/tun", os.R_OK | os.W_OK) else \
            "/dev/net/tun cannot be opened"
        run("ip", "link", "set", "lo", "up")
        for key, value in {"ip_forward": 1, "conf/all/rp_filter": 0,
                           "conf/default/rp_filter": 0}.items():
            pathlib.Path(f"/proc/sys/net/ipv4/{key}").write_text(str(value))
        for name in names:
            self._add(name)
        # Packets of the router itself, and those that were delayed already, take the direct way.
        run("ip", "rule", "add", "pref", "40", "iif", "lo", "lookup", "main")
        run("nft", "add", "table", "ip", "chaos")

    def _add(self, name):
        i = self._index[name]
        run("ip", "netns", "add", name)
        run("ip", "link", "add", f"to{i}", "type", "veth", "peer", "name", "eth0", "netns", name)
        run("ip", "addr", "add", f"10.77.{i}.1/30", "dev", f"to{i}")
        run("ip", "link", "set", f"to{i}", "up")
        run("ip", "-n", name, "link", "set", "lo", "up")
        run("ip", "-n", name, "addr", "add", f"{self.address(name)}/30", "dev", "eth0")
        run("ip", "-n", name, "link", "set", "eth0", "up")
        run("ip", "-n", name, "route", "add", "default", "via", f"10.77.{i}.1")

    def address(self, name):
        return f"10.77.{self._index[name]}.2"

    def prefix(self, name):
        """What a command begins with that runs on a node."""
        return ["nsenter", f"--net=/run/netns/{name}"]

    def cut(self, key, sources, destinations):
        """Drops what the sources send to the destinations; no name: anybody. `key` heals it."""
        rules = []
        for source in sources or [None]:
            for destination in destinations or [None]:
                rule = ""
                if source:
                    rule += f"ip saddr {self.address(source)} "
                if destination:
                    rule += f"ip daddr {self.address(destination)} "
                rules.append(f"add rule ip chaos {key} {rule}counter drop")
        run("nft", "-f", "-", text="\n".join([
            f"add chain ip chaos {key} {{ type filter hook forward priority 0; }}", *rules, ""]))
        self._cuts[key] = True

    def delay(self, key, name, milliseconds):
        """What a node sends and what is sent to it comes so much later."""
        i = self._index[name]
        device, table = f"late{i}", str(1000 + i)
        line = subprocess.Popen([sys.executable, HERE / "delay_line.py", device, str(milliseconds)],
                                stdout=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True)
        if line.stdout.readline() != "ready\n":
            raise RuntimeError(f"no packet can be delayed here: {line.stdout.read()}")
        run("ip", "link", "set", device, "up", "mtu", "1500")
        run("ip", "route", "add", "default", "dev", device, "table", table)
        rules = [["pref", "50", "iif", device, "lookup", "main"],
                 ["pref", "100", "iif", f"to{i}", "lookup", table],
                 ["pref", "101", "to", self.address(name), "lookup", table]]
        for rule in rules:
            run("ip", "rule", "add", *rule)
        self._delays[key] = (line, rules)

    def heal(self, key):
        """Ends a cut or a delay; how many packets it has met."""
        if key in self._delays:
            line, rules = self._delays.pop(key)
            for rule in rules:
                run("ip", "rule", "del", *rule)
            line.terminate()  # it passes on what it holds
            packets = line.communicate(timeout=60)[0]
            return int(packets)
        del self._cuts[key]
        rules = json.loads(run("nft", "-j", "list", "chain", "ip", "chaos", key))["nftables"]
        run("nft", "delete", "chain", "ip", "chaos", key)
        return sum(part["counter"]["packets"] for entry in rules if "rule" in entry
                   for part in entry["rule"]["expr"] if "counter" in part)

    def heal_all(self):
        for key in [*self._cuts, *self._delays]:
            self.heal(key)


def missing():
    """Why there can be no such network here; nothing if there can. Asked within a namespace of our
    own."""
    for tool in "ip", "nft", "nsenter":
        if not any(os.access(pathlib.Path(folder) / tool, os.X_OK)
                   for folder in os.environ["PATH"].split(":")):
            return f"{tool} is not installed"
    try:
        run("ip", "link", "add", "chaos-probe", "type", "veth", "peer", "name", "chaos-probe2")
        run("ip", "link", "del", "chaos-probe")
        run("nft", "add", "table", "ip", "chaos-probe")
        run("nft", "add", "chain", "ip", "chaos-probe", "f",
            "{ type filter hook forward priority 0; }")
        run("nft", "delete", "table", "ip", "chaos-probe")
    except RuntimeError as error:
        return str(error)
    return ""
