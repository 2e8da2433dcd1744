"""Resident memory of the real processes over a run of a million rows, against what it may be.

A ServerApp with 6,150 weights, and one WorkerApp with all four logical workers: with full buffers of
1,024 rows (buffer schedule), and in one pass. Rows come as fast as Kafka takes them, which fills
every queue there is. Ours is the largest value of the run, sampled every 50 ms; the floor column is
the limit, and the ratio is to be at most 1. "steady" holds the largest value of the run's second
half against that of its first: memory that leaks or creeps shows there.
"""

import time

from common import Job, Result, text_rows

LIMITS_MB = {"WorkerApp": 120, "ServerApp": 80}
ROWS_IN_FILE = 100_000
SCHEDULES = {
    "full buffers": ["--schedule", "buffer", "--buffer-min", "1024", "--buffer-max", "1024",
                     "--skip-rows", "--update", "gradient"],  # fmt: skip
    "one pass": ["--update", "gradient", "--batch-rows", "32"],
}


def resident_mb(pid):
    with open(f"/proc/{pid}/status", encoding="ascii") as file:
        for line in file:
            if line.startswith("VmRSS:"):
                return int(line.split()[1]) / 1024
    return None  # it has ended


def samples_of_run(options, name, training):
    """Lists of MB, by program, until the job has ended."""
    data = text_rows(ROWS_IN_FILE, "text")
    samples = {"ServerApp": [], "WorkerApp": []}
    with Job(options.broker, name, training) as job:
        job.serve()
        job.work(processes=1)
        job.produce(data, "--epochs", max(1, options.memory_rows // ROWS_IN_FILE))
        pids = {"ServerApp": job.running["server"].pid, "WorkerApp": job.running["worker-0"].pid}
        while True:
            now = {program: resident_mb(pid) for program, pid in pids.items()}
            if any(mb is None for mb in now.values()):
                break
            for program, mb in now.items():
                samples[program].append(mb)
            time.sleep(0.05)
        job.wait("producer", "worker-0", "server")
    return samples


def run(options):
    results = []
    for schedule, training in SCHEDULES.items():
        name = f"memory-{options.stamp}-{schedule.replace(' ', '-')}"
        samples = samples_of_run(options, name, training)
        for program, values in samples.items():
            middle = len(values) // 2
            results.append(Result(f"{program}, {schedule}", max(values), LIMITS_MB[program], "MB",
                                  "<= 1"))
            results.append(Result(f"{program}, {schedule}: steady", max(values[middle:]),
                                  max(values[:middle]), "MB", "~ 1"))
        print(f"  {schedule}: {len(samples['ServerApp']) * 0.05:.0f} s", flush=True)
    return results
