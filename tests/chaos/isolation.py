"""How far this machine lets us separate programs from each other and from it.

Where it can be had, a run has namespaces of its own for processes, mounts and the network: whatever
happens to the process that drives it, nothing is left, since all of it ends with it."""

import os
import subprocess

_OWN = ["--mount", "--net", "--pid", "--fork", "--kill-child=SIGKILL", "--mount-proc"]


def choose():
    """A prefix for the command that drives a run, what it is called, and if there is none, why."""
    reasons = []
    for title, rights in ("root", []), ("user namespace", ["--user", "--map-root-user"]):
        if title == "root" and os.geteuid() != 0:
            reasons.append("not root")
            continue
        prefix = ["unshare", *rights, *_OWN]
        try:
            # /run/netns is needed, and a mount shows that mounts are allowed.
            tried = subprocess.run([*prefix, "mount", "-t", "tmpfs", "none", "/run"],
                                   capture_output=True, text=True, check=False)
        except FileNotFoundError:
            return [], "nothing", "unshare (util-linux) is not installed"
        if tried.returncode == 0:
            return prefix, title, ""
        reasons.append(f"{title}: {tried.stderr.strip()}")
    return [], "nothing", "; ".join(reasons)


def enter():
    """REQUIRES: the process was started with the prefix."""
    subprocess.run(["mount", "-t", "tmpfs", "none", "/run"], check=True)
