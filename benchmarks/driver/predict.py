"""What Predictor costs beside a bare server of the same library, and beside reading and writing a file.
The servers' threads are counted, and not the client, which is the same for both."""

import json
import subprocess

from common import Result, TOOLS, WORK

TARGETS = {"HTTP, one row in a request": ">= 0.5", "HTTP, 1,000 rows in a request": "20,000/s"}


def run(options):
    path = WORK / "predict-part.json"
    folder = WORK / "state"
    folder.mkdir(parents=True, exist_ok=True)
    subprocess.run([TOOLS / "predictor/bench_predict", "--json", path, "--turns", str(options.turns),
                    "--seconds", "1"], check=True, cwd=folder)
    results = [Result(**line, target=TARGETS.get(line["name"], ""))
               for line in json.loads(path.read_text())]
    if missing := TARGETS.keys() - {result.name for result in results}:
        raise SystemExit(f"bench_predict has no line of {missing}")
    path.unlink()
    return results
