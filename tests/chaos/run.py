"""Jobs of a seed, one after the other, on a cluster of their own, until the time is over."""

import itertools
import json
import pathlib
import shutil
import subprocess
import time

import checks
import chaos_job
import plan as plans
import stage as stages
import topology

# What a program takes at most, in bytes. Peaks of such small jobs are far below; see the report.
MEMORY = {"server": 600 << 20, "worker": 400 << 20, "producer": 200 << 20}
# Topics that were deleted are gone; what stays on a broker's disk are Kafka's own.
BROKER_DISK = 300 << 20


class Run:
    def __init__(self, folder, cluster, network, make_disk, report, seed, say, plant=""):
        self.folder, self.cluster, self.network = pathlib.Path(folder), cluster, network
        self.make_disk, self.report, self.seed, self.say = make_disk, report, seed, say
        self.plant = plant
        self.stage = None  # what runs

    def jobs(self, numbers, until, keep_going):
        """Whether all that ran were right."""
        for number in numbers:
            if time.monotonic() > until and self.report.jobs:
                break
            try:
                plan = plans.draw_job(self.seed, number)
                self._one(plan.short() if self.plant else plan)
            except stages.Failed:
                if not keep_going:
                    return False
                self.cluster.heal()
                self.cluster.delete_topics(f"job{number}-")
        return not self.report.failures

    def _one(self, plan):
        folder = self.folder / f"job{plan.number}"
        folder.mkdir()
        self.say(f"job {plan.number}: {plan}")
        data = folder / "rows.csv"
        rows = chaos_job.write_data(plan, data)
        expected = None
        if plan.same_bytes:
            job = self._run(plan.undisturbed(), folder, "quiet", data, rows, paced=False)
            expected = job.weights.read_bytes(), job.end_rows()
        job = self._run(plan, folder, "chaos", self._planted(data), rows, expected=expected)
        if plan.again:
            taken = job.whole_snapshots()
            if taken:
                self._run(plan.again, folder, "again", data, rows, expected=expected,
                          snapshot=taken[0])
                self.report.restarts += 1
            else:
                self.say(f"job {plan.number}: no snapshot was made, so none is gone on from")
        self.cluster.wait_until_whole()
        self.cluster.delete_topics(f"job{plan.number}-")
        size = self._settled_disk()
        self.report.add_disk(size)
        self.report.jobs += 1
        self.report.kinds[str(plan.kind)] += 1
        if size > BROKER_DISK:
            self._failed(plan, folder, None, [f"a broker's disk holds {size >> 20} MiB after the "
                                              f"job's topics are deleted"])
        shutil.rmtree(folder)

    def _settled_disk(self):
        """What is left when the deleted segments are gone, which brokers do a second later."""
        for _ in range(20):
            if not self.cluster.topic_bytes("job"):
                break
            time.sleep(0.5)
        return self.cluster.bytes_on_disks()

    def _planted(self, data):
        """The rows, but for one if that is the planted error."""
        if self.plant != "row":
            return data
        lines = data.read_text(encoding="utf-8").splitlines(keepends=True)
        path = data.with_name("planted.csv")
        path.write_text("".join(lines[:-1]), encoding="utf-8")
        return path

    def _run(self, plan, folder, turn, data, rows, paced=True, expected=None, snapshot=None):
        name = f"job{plan.number}-{turn}"
        job = chaos_job.ChaosJob(plan, self.cluster, name, folder / turn, data,
                                            self.network, self.make_disk, paced)
        stage = self.stage = stages.Stage(job, self.cluster, self.network, lambda: self._progress(stage, name))
        try:
            if snapshot:
                job.start_from(snapshot)
            job.start(*plan.programs)
            if self.plant == "kill" and turn == "chaos":
                job.processes["worker0"].kill()  # of which the stage knows nothing
            stage.run(plan.events, plan.snapshots)
            stage.wrong += self._judge(stage, rows, expected)
        except stages.Failed:
            pass
        except (OSError, RuntimeError, AssertionError, subprocess.SubprocessError) as error:
            stage.fail(f"{type(error).__name__}: {error}")
        finally:
            stage.close()
            if self.network:
                self.network.heal_all()
            self.stage = None
        self.report.add_stage(stage)
        for log in job.logs.values():
            self.report.warnings.update(checks.warnings(log.read_text(errors="replace")))
        if stage.wrong:
            self._failed(plan, folder, stage, stage.wrong)
            raise stages.Failed
        return job

    def _judge(self, stage, rows, expected):
        job, wrong = stage.job, []
        summary = job.summary()
        (job.folder / "summary.json").write_text(json.dumps(summary, indent=2))
        wrong += checks.wrong_counts(summary, rows, job.plan.kind.schedule)
        rejected = chaos_job.rejected_ids(job.rejects)
        wrong += checks.wrong_rejects(rejected, chaos_job.malformed_ids(job.plan, job.data))
        self.report.rejected += len(rejected)
        if expected is not None:
            found = job.end_rows()
            wrong += checks.different_results(job.weights.read_bytes(), expected[0], found,
                                              expected[1])
            self.report.comparisons += 1
            self.report.embedding_rows += len(found)
        for name in job.logs:
            for line in checks.wrong_lines(job.log(name), name in stage.caused):
                wrong.append(f"{name} says: {line}")
        peaks = {name: stage.memory.peak(name) for name in stage.memory.points}
        wrong += checks.too_much_memory(peaks, MEMORY)
        if job.plan.kind.schedule == "one-pass":
            self.report.rows += rows
        else:
            self.report.buffered[0] += summary.get("rows_trained") or 0
            self.report.buffered[1] += rows
        self.report.snapshots += len(job.whole_snapshots())
        return wrong

    def _progress(self, stage, name):
        if not stage.every("progress", 10):
            return
        running = [program for program in stage.job.processes if stage.runs(program)]
        done = sum(1 for _, began, _, _ in stage.happened if began is not None)
        minutes = (time.monotonic() - self.report.began) / 60
        self.say(f"{minutes:4.1f} min  {name}: {done} events over, {len(running)} programs run; "
                 f"{self.report.jobs} jobs and {self.report.rows:,} rows before")

    def _failed(self, plan, folder, stage, wrong):
        kept = self.folder.parent / f"failed-seed-{self.seed}-job-{plan.number}"
        shutil.rmtree(kept, ignore_errors=True)
        lines = [f"seed {self.seed}, job {plan.number}: {sentence}" for sentence in wrong[:20]]
        lines.append(f"  the job: {plan}")
        if stage:
            lines.append(f"  of {stage.job.name}, seconds after its shards answered:")
            for event, began, ended, note in stage.happened:
                lines.append(f"    {event}: " + (f"{began:.1f} to {ended:.1f} s {note}"
                                                 if began is not None else f"not done {note}"))
            lines += [f"    {t.event}: began at {t.began:.1f} s, and goes on"
                      for t in stage.active if t is not None]
        lines.append(f"  repeat it:  scripts/chaos --seed {self.seed} --job {plan.number}")
        lines.append(f"  logs: {kept}")
        for line in lines:
            self.say(line)
        (folder / "failure.txt").write_text("\n".join(lines) + "\n")
        self.cluster.keep_logs(folder)
        shutil.move(folder, kept)
        self.report.failures += lines[:len(wrong[:20])]


def numbers_from(job):
    """Jobs of a run: the one that is asked for, or all."""
    return [job] if job is not None else itertools.count()
