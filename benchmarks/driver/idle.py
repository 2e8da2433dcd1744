"""Processor time of a job that waits for rows, in percent of a core, against what it may be.

Two WorkerApps with two logical workers each, a ServerApp, and a CsvProducer whose input has nothing
more to give; they have trained on some rows, and then wait for --seconds, at least 20. The limits
(the floor column) are 1 % for a program and 2 % for the broker; the ratio is to be at most 1. The
lines "bare librdkafka" hold the same against two processes that wait for a record of `weights`
(benchmarks/kafka/bare_loop.cc), and the broker that has nobody else: there is less to wait for.
A design in which nobody asks Kafka (rows pushed over sockets) has a lower floor.
"""

import pathlib
import subprocess
import time

import loop
from common import TOOLS, WORKERS, Job, Programs, compared, text_rows

LEAST_S = 20
ROWS = 2000
SETTLE_S = 5  # what follows on the last row: a batch that waits a second, a checkpoint
LIMITS = {"WorkerApp": 1, "ServerApp": 1, "CsvProducer": 1, "broker": 2}
MODELS = {"eventual": loop.EVENTUAL, "sequential": loop.SPARSE}


def thread_s(pid):
    """Processor time so far of each thread that there is, to the nanosecond."""
    return {task.name: int((task / "schedstat").read_text().split()[0]) / 1e9
            for task in pathlib.Path(f"/proc/{pid}/task").iterdir()}


def percent_of_a_core(pids, seconds):
    """By name, of processes that all wait."""
    before = {name: thread_s(pid) for name, pid in pids.items()}
    began = time.monotonic()
    time.sleep(seconds)
    used = {}
    for name, pid in pids.items():
        used[name] = sum(after - before[name].get(thread, 0)
                         for thread, after in thread_s(pid).items())
    lasted = time.monotonic() - began
    return {name: 100 * s / lasted for name, s in used.items()}


def waiting_job(options, name, training, data):
    with Job(options.broker, name, training) as job:
        producer = job.produce("-", stdin=subprocess.PIPE)
        job.serve()
        workers = job.work()
        producer.stdin.write(data.read_bytes())
        producer.stdin.flush()
        job.start("rounds", TOOLS / "kafka" / "job_rounds", *job.common)
        job.wait_for("rounds", "\n", 2)
        time.sleep(SETTLE_S)
        job.stop("rounds")
        pids = {"ServerApp": job.running["server"].pid, "CsvProducer": producer.pid,
                "broker": options.broker_pid, **{each: job.running[each].pid for each in workers}}
        used = percent_of_a_core(pids, options.seconds)
        producer.stdin.close()
    used["WorkerApp"] = sum(used.pop(each) for each in workers) / len(workers)
    print(f"  {name}: " + ", ".join(f"{program} {used[program]:.2f} %" for program in LIMITS),
          flush=True)
    return used


def bare(options, name):
    with Programs(name, options.broker) as programs:
        words = [TOOLS / "kafka" / "bare_loop", "--brokers", options.broker, "--prefix", name,
                 "--workers", WORKERS]
        programs.start("create", *words, "create")
        programs.wait("create")
        for i in range(2):
            programs.start(f"worker-{i}", *words, "work", "--partitions", f"{i},{i + 2}")
        time.sleep(SETTLE_S)
        pids = {each: process.pid for each, process in programs.running.items()}
        used = percent_of_a_core({"broker": options.broker_pid, **pids}, options.seconds)
    process = (used["worker-0"] + used["worker-1"]) / 2
    print(f"  {name}: {process:.2f} %, broker {used['broker']:.2f} %", flush=True)
    return {program: used["broker"] if program == "broker" else process for program in LIMITS}


def run(options):
    options = loop.lasting(options, LEAST_S)
    data = text_rows(ROWS, "words", "--min-words", "1", "--max-words", "3")
    waiting_job(options, f"idle-warm-up-{options.stamp}", loop.EVENTUAL, data)
    ours = {model: [] for model in MODELS}
    floors = []
    for turn in range(options.turns):
        for model, training in MODELS.items():
            ours[model].append(waiting_job(options, f"idle-{model}-{options.stamp}-{turn}", training,
                                           data))
        floors.append(bare(options, f"idle-bare-{options.stamp}-{turn}"))
    results = []
    for model, turns in ours.items():
        for program, limit in LIMITS.items():
            mine = [turn[program] for turn in turns]
            results.append(compared(f"{program}, {model}", "% of a core", mine,
                                    [limit] * len(mine), "<= 1"))
            results.append(compared("  against bare librdkafka", "% of a core", mine,
                                    [turn[program] for turn in floors]))
    return results
