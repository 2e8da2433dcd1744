"""The inner loops against their bare floors: arithmetic (Eigen), codec (memcpy), store (RocksDB); the
fold of an update of many workers, against that of four; a checkpoint that a follower takes, against
loading the shard again."""

import json
import subprocess

from common import Result, TOOLS, WORK


def run(options):
    results = []
    for program in ("models/bench_models", "processors/bench_fold", "tasks/bench_follow",
                    "topics/bench_codec", "stores/bench_stores"):
        path = WORK / "micro-part.json"
        flags = ["--json", path]
        if program.startswith("stores"):
            flags += ["--folder", WORK / "state", "--rounds", str(options.turns)]
            (WORK / "state").mkdir(parents=True, exist_ok=True)
        subprocess.run([TOOLS / program, *flags], check=True)
        results += [Result(**line) for line in json.loads(path.read_text())]
        path.unlink()
    return results
