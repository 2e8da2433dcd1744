"""The inner loops against their bare floors: arithmetic (Eigen), codec (memcpy), store (RocksDB); and
the fold of an update of many workers, against that of four."""

import json
import subprocess

from common import Result, TOOLS, WORK


def run(options):
    results = []
    for program in ("models/bench_models", "processors/bench_fold", "topics/bench_codec",
                    "stores/bench_stores"):
        path = WORK / "micro-part.json"
        flags = ["--json", path]
        if program.startswith("stores"):
            flags += ["--folder", WORK / "state", "--rounds", str(options.turns)]
            (WORK / "state").mkdir(parents=True, exist_ok=True)
        subprocess.run([TOOLS / program, *flags], check=True)
        results += [Result(**line) for line in json.loads(path.read_text())]
        path.unlink()
    return results
