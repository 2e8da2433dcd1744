"""Rows per second out of input-data by the reader of all programs, against bare librdkafka: the first
fetch to the last record, four partitions, without a look at what the rows hold."""

from common import Job, Programs, TOOLS, compared, in_turns, text_rows

TARGET = 0.5
ROWS_IN_FILE = 100_000
WORKERS = 4


def first_number(options, name, tool, *flags):
    with Programs(name) as programs:
        programs.start("reader", TOOLS / "kafka" / tool, "--brokers", options.broker, *flags)
        programs.wait("reader")
        return float(programs.log("reader").split()[0])


def run(options):
    data = text_rows(ROWS_IN_FILE, "text")
    job_name = f"reader-{options.stamp}"
    topic = f"{job_name}.input-data"

    def read(turn):
        rate = first_number(options, f"{job_name}-ours-{turn}", "reader_rows", "--topic", topic,
                            "--partitions", WORKERS)
        print(f"  PartitionConsumer: {rate:,.0f} rows/s", flush=True)
        return rate

    def bare(turn):
        rate = first_number(options, f"{job_name}-bare-{turn}", "bare_ingest", "--from", topic)
        print(f"  bare consumer: {rate:,.0f} rows/s", flush=True)
        return rate

    with Job(options.broker, job_name) as job:
        job.produce(data, "--epochs", max(1, options.ingest_rows // ROWS_IN_FILE))
        job.wait("producer")
        ours, floor = in_turns(options.turns, read, bare)
    return [compared("PartitionConsumer, input-data", "rows/s", ours, floor, f">= {TARGET}")]
