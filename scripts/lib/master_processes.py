"""What a MasterApp has started on this machine, by what the processes say of themselves."""

import os
import pathlib
import re


def processes_in(run_dir):
    """By name: the process ids of the shim and of its command (None: it has not begun, or has ended) of
    each process of the MasterApp with that --run-dir."""
    shims, children = {}, {}
    for folder in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            words = (folder / "cmdline").read_bytes()
            parent = (folder / "stat").read_text(errors="replace").rsplit(")", 1)[1].split()[1]
            program = os.path.basename(os.readlink(folder / "exe"))
        except OSError:
            continue  # it has just ended
        of_run = re.search(re.escape(f"{run_dir}/processes/").encode() + rb"([\w-]+)/\d+", words)
        # (That of a process whose root is elsewhere may be "/", which has no last part.)
        if program.removesuffix(" (deleted)") == "ProcessShim" and of_run:
            shims[int(folder.name)] = of_run.group(1).decode()
        children.setdefault(int(parent), []).append(int(folder.name))
    return {name: (shim, (children.get(shim) or [None])[0]) for shim, name in shims.items()}
