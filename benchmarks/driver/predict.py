"""What Predictor costs beside a bare server of the same library, and beside reading and writing a file.
The servers' threads are counted, and not the client, which is the same for both."""

import json
import subprocess

from common import Result, TOOLS, WORK


def run(options):
    path = WORK / "predict-part.json"
    folder = WORK / "state"
    folder.mkdir(parents=True, exist_ok=True)
    subprocess.run([TOOLS / "predictor/bench_predict", "--json", path, "--turns", str(options.turns),
                    "--seconds", "1"], check=True, cwd=folder)
    results = [Result(**line) for line in json.loads(path.read_text())]
    path.unlink()
    return results
