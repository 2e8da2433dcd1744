"""A worker as ElasticDL's: it calls get_task of the published client, and does whatever task it is given.

    get_task_worker.py FILE RECORDS EPOCHS SECONDS

FILE gets a line "TYPE has NUMBER begin end" for each task, and one with "done" when its work is done, which takes so
many SECONDS, of the last task five times as many. NUMBER is that of the evaluation. The environment says who it is and
where its master is (WORKER_ID, DLROVER_MASTER_ADDR).
"""

import sys
import time

from elasticai_api.common.master_client import GlobalMasterClient
from elasticai_api.proto import elasticai_api_pb2 as pb

SET = "numbers"


def get(client):
    """As the client's get_task, which names no data set; again when its master has died."""
    request = pb.GetTaskRequest(worker_id=client._worker_id, dataset_name=SET)
    while True:
        try:
            return client._stub.get_task(request, timeout=30)
        except Exception as error:  # noqa: BLE001 (of gRPC: the master is away, or nothing came for long)
            print(f"again: {error}", flush=True)
            time.sleep(0.5)


def main():
    path, records, epochs, seconds = sys.argv[1:]
    client = GlobalMasterClient.MASTER_CLIENT
    client.report_training_params(batch_size=10, num_epochs=int(epochs), dataset_size=int(records),
                                  num_minibatches_per_shard=2, dataset_name=SET, task_type=pb.TRAINING)  # fmt: skip
    with open(path, "a", encoding="utf-8") as out:
        while (task := get(client)).type != pb.NONE:
            kind = pb.TaskType.Name(task.type)
            for state in "has", "done":
                if state == "done":
                    time.sleep(float(seconds) * (5 if task.type == pb.TRAIN_END_CALLBACK else 1))
                out.write(f"{kind} {state} {task.model_version} {task.shard.start} {task.shard.end}\n")
                out.flush()
            client.report_task_result(task.task_id, "", SET)


if __name__ == "__main__":
    main()
