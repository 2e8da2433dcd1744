"""scripts/chaos: what is asked for, where it runs, and that nothing is left of it."""

import argparse
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "end_to_end")]

import cluster as clusters  # noqa: E402
import disks  # noqa: E402
import endless  # noqa: E402
import isolation  # noqa: E402
import network as networks  # noqa: E402
import plan as plans  # noqa: E402
import report as reports  # noqa: E402
import run as runs  # noqa: E402
import topology  # noqa: E402

HELP = """\
Runs jobs on a Kafka cluster of three brokers and lets accidents happen to everything, at random:

  kill       SIGKILL, of one program, of all servers, of all programs; started again a moment later
  stop       SIGSTOP, and SIGCONT some seconds later
  terminate  SIGTERM: it must end by itself, and say so by its exit code
  replace    a server hangs, another is started in its place, and it moves again
  wipe       killed, and its disk deleted
  fill       its disk is full: a server's, a producer's that rejects rows, a worker's that keeps a
             buffer; who ends must say which folder is full, and goes on when there is room again
  fill-start such a worker is killed, and started on a full disk: it must end, and say so
  cut        the network: everything dropped, one direction, between two only, or late
  (brokers   the same: kill, stop, wipe, fill, cut; one broker at a time)

The jobs are of every kind: softmax, fm, deepfm and network; of classes, and of numbers with every
loss; row by row, by gradients and by averages; sequential, bounded and eventual; one pass and
buffer; 1 to 3 shards on 1 to 3 servers, with replicas; snapshots, and jobs that go on from one on
another number of shards. Of each it is checked that

  - every row is counted exactly once, and every malformed row is in the reject file once;
  - a sequential one-pass job ends in the same bytes as an undisturbed run of it on one shard: the
    weights, and every embedding row of the snapshot at its end;
  - every program ends with an exit code that has a cause, and none hangs;
  - no log has an error, or a line of a library, that no event has caused;
  - memory is bounded, and a broker's disk is steady from job to job.
"""

EXAMPLES = """\
Examples
  scripts/chaos --minutes 2 --seed 1         as in scripts/test
  scripts/chaos --minutes 60 --seed 7        an hour; another seed is another hour
  scripts/chaos --seed 7 --job 12            only job 12 of seed 7, to see a failure again
  scripts/chaos --seed 7 --job 12 --draws    what is drawn for it; nothing is run
  scripts/chaos --endless --minutes 60       no accidents: a stream that does not end, and whether
                                             memory, disks and topics stop growing
  scripts/chaos --plant row --minutes 0      one job, with a row too few: is that reported?

A seed repeats the draws: jobs, rows, events and their times. What the machine makes of it differs,
so a failure may need some turns to come again.

Programs are those of build/release (MILLRACE_BUILD_DIR names another folder): build them first,
  cmake --preset release && cmake --build build/release
All runs in namespaces of its own (processes, mounts, network), which end with it: nothing is left
when it is interrupted or killed. That needs root, or a kernel that gives users namespaces of their
own; cuts need nftables and iproute2 (scripts/setup test), delays /dev/net/tun. What this machine does
not allow is said at the beginning and at the end.

A failure prints the seed, the job, and its events with their times; the logs are kept in
build/chaos/failed-seed-S-job-J. Figures of the run: build/chaos/report.json.

Exit code: 0 everything was right; 1 something was not; 2 wrong usage; 130 interrupted.
"""


def parse(arguments):
    parser = argparse.ArgumentParser(prog="scripts/chaos", description=HELP, epilog=EXAMPLES,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=2, metavar="N",
                        help="no job is begun after N minutes; at least one is run [2]")
    parser.add_argument("--seed", type=int, default=1, metavar="S", help="what is drawn [1]")
    parser.add_argument("--job", type=int, metavar="J", help="only this job of the seed, from 0 on")
    parser.add_argument("--draws", action="store_true",
                        help="print what is drawn, of --job or the first jobs, and end")
    parser.add_argument("--keep-going", action="store_true",
                        help="go on with the next job after one that failed")
    parser.add_argument("--endless", action="store_true",
                        help="a stream without an end, and no accidents")
    parser.add_argument("--rate", type=int, default=1500, metavar="R",
                        help="--endless: rows per second [1500]")
    parser.add_argument("--plant", choices=("row", "kill"), default="",
                        help="an error of our own, and no accidents: a row is left out, or a program "
                             "killed without our order; exit code 0 when that is reported")
    parser.add_argument("--inside", help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=pathlib.Path, help=argparse.SUPPRESS)
    return parser.parse_args(arguments)


PLANTED = {"row": "rows trained on: ", "kill": "worker0 ended with code -9"}  # and what is to be said


def say(text):
    print(f"chaos: {text}", flush=True)


def print_draws(options):
    for number in [options.job] if options.job is not None else range(len(plans.KINDS)):
        plan = plans.draw_job(options.seed, number)
        print(f"job {number}: {plan}")
        for event in plan.events:
            print(f"  {event}")


def outside(options, arguments):
    """Prepares what needs the machine's own network, then runs itself inside. The exit code."""
    if not (topology.PROGRAMS / "ServerApp").exists():
        say(f"there is no {topology.PROGRAMS}/ServerApp: build it (see --help)")
        return 1
    subprocess.run([topology.ROOT / "scripts" / "kafka", "jars"], check=True,
                   stdout=subprocess.DEVNULL)
    prefix, title, why = isolation.choose()
    if not prefix:
        say(f"THIS MACHINE GIVES US NO NAMESPACES ({why}): nothing is cut off, and full disks are "
            "played by a limit of file sizes (RLIMIT_FSIZE)")
    folder = _new_folder()
    # It is told to end by us alone, once; and it ends if we are killed.
    inside = subprocess.Popen(
        ["setpriv", "--pdeathsig", "KILL", *prefix, sys.executable, "-B", HERE / "main.py",
         "--inside", title, "--folder", folder, *arguments], start_new_session=True)
    told = []

    def forward(sig, _):
        if told:
            inside.kill()  # asked twice
        told.append(sig)
        for pid in _driver(inside.pid, bool(prefix)):
            os.kill(pid, signal.SIGINT)

    for sig in signal.SIGINT, signal.SIGTERM, signal.SIGHUP:
        signal.signal(sig, forward)
    code = inside.wait()
    shutil.rmtree(folder, ignore_errors=True)
    return 130 if told else code if code >= 0 else 1


def _new_folder():
    """For what a run writes. What a run has left that was killed is deleted."""
    parent = topology.ROOT / "build" / "chaos"
    for old in parent.glob("run-*"):
        if not pathlib.Path("/proc", old.name.removeprefix("run-")).exists():
            shutil.rmtree(old, ignore_errors=True)
    folder = parent / f"run-{os.getpid()}"
    folder.mkdir(parents=True)
    return folder


def _driver(pid, has_children):
    """unshare waits for the driver, and takes no signals; without it, the driver is the process."""
    if not has_children:
        return [pid]
    return map(int, pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split())


def inside(options):
    def interrupt(*_):
        raise KeyboardInterrupt

    signal.signal(signal.SIGINT, interrupt)
    signal.signal(signal.SIGTERM, interrupt)
    report, network, make_disk = reports.Report(), None, disks.LimitedFolder
    if options.inside != "nothing":
        isolation.enter()
        make_disk = disks.MountedDisk
        why = networks.missing()
        if why:
            report.impossible["cutting off"] = why
        else:
            network = networks.Network([*plans.BROKERS, *plans.PROGRAMS])
            if network.no_delays:
                report.impossible["packets that are late"] = network.no_delays
    else:
        report.impossible["cutting off"] = "no namespaces"
        report.impossible["disks that are full"] = \
            "nothing may be mounted: files may not grow (RLIMIT_FSIZE) instead"
    for what, why in report.impossible.items():
        say(f"NOT TRIED HERE: {what}: {why}")
    say(f"isolation: {options.inside}; network: {'namespaces, nft' if network else 'shared'}; "
        f"disks: {'tmpfs' if make_disk is disks.MountedDisk else 'folders'}")

    folder = options.folder
    cluster, run = None, None
    try:
        cluster = clusters.Cluster(folder / "kafka", network,
                                   disks.Folder if options.endless else make_disk, mib=1024)
        cluster.start()
        cluster.wait_until_whole()
        if options.endless:
            good = endless.run(options, folder, cluster, network, say)
        else:
            run = runs.Run(folder, cluster, network, make_disk, report, options.seed, say,
                           options.plant)
            good = run.jobs(runs.numbers_from(options.job),
                            time.monotonic() + 60 * options.minutes, options.keep_going)
            for line in report.lines():
                say(line)
            report.write(folder.parent / "report.json")
            if options.plant:
                good = any(PLANTED[options.plant] in failure for failure in report.failures)
                say(f"the planted error was {'' if good else 'NOT '}reported")
        return 0 if good else 1
    except KeyboardInterrupt:
        say("interrupted")
        return 130
    finally:
        for sig in signal.SIGINT, signal.SIGTERM:
            signal.signal(sig, signal.SIG_IGN)
        if run and run.stage:
            run.stage.close()
        if cluster:
            cluster.close()


def main(arguments):
    options = parse(arguments)
    if options.draws:
        print_draws(options)
        return 0
    return inside(options) if options.inside else outside(options, arguments)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
