"""A trainer that only notes which records it gets: of ElasticDL's published package, unmodified.

    task_trainer.py FILE RECORDS EPOCHS SECONDS

FILE gets a line "begin end" for each shard, when its work is done, which takes so many SECONDS. The
environment says who it is and where its master is (WORKER_ID, DLROVER_MASTER_ADDR).
"""

import sys
import time

from elasticai_api.common.data_shard_service import build_data_shard_service

BATCH = 10


def main():
    path, records, epochs, seconds = sys.argv[1:]
    service = build_data_shard_service(
        batch_size=BATCH, num_epochs=int(epochs), dataset_size=int(records),
        num_minibatches_per_shard=2, shuffle=True, dataset_name="numbers",
    )  # fmt: skip
    with open(path, "a", encoding="utf-8") as out:
        while shard := service.fetch_shard():
            print(f"has {shard.start} {shard.end}", flush=True)
            time.sleep(float(seconds))
            out.write(f"{shard.start} {shard.end}\n")
            out.flush()
            for begin in range(shard.start, shard.end, BATCH):
                service.report_batch_done(min(BATCH, shard.end - begin))


if __name__ == "__main__":
    main()
