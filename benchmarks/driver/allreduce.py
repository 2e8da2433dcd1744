"""The ordered all-reduce of a million floats by two and four ranks, against Gloo's bare exchange of the
same bytes, without a sum: alltoallv of slices, then allgatherv. Over the loopback; sums per second that
pass."""

import json
import subprocess

from common import Result, TOOLS, WORK

TARGET = 0.7


def run(options):
    path = WORK / "allreduce-part.json"
    subprocess.run([TOOLS / "collective" / "bench_allreduce", "--json", path, "--turns", str(options.turns), "--seconds", "1"],
                   check=True)  # fmt: skip
    results = [Result(**line, target=f">= {TARGET}") for line in json.loads(path.read_text())]
    path.unlink()
    return results
