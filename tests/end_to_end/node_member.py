"""A node of a trainer that only joins, gives signs of life, and passes barriers.

    node_member.py MESSAGES ADDRESS ROLE INSTANCE TIMEOUT

MESSAGES is the folder of what protoc has made of messages/nodes.proto, ADDRESS that of MasterApp. It prints
a line of JSON when it has joined, or is refused. Each line of its input is the number of a passing of the barrier `round`;
it prints what it is told there. It leaves at the end of its input. Whatever is lost with a master is asked
of the next one, for so many seconds (TIMEOUT).
"""

import json
import sys
import threading
import time

import grpc


def say(**what):
    print(json.dumps(what), flush=True)


class Master:
    """Calls are made again until a master answers."""

    def __init__(self, messages, address, timeout):
        self.messages, self.address, self.timeout = messages, address, timeout
        self.channel = grpc.insecure_channel(address, [("grpc.max_reconnect_backoff_ms", 500)])

    def call(self, method, **fields):
        request = getattr(self.messages, f"{method}Request")(**fields)
        stub = self.channel.unary_unary(
            f"/millrace.nodes.Nodes/{method}", request_serializer=lambda message: message.SerializeToString(),
            response_deserializer=getattr(self.messages, f"{method}Response").FromString,
        )  # fmt: skip
        end = time.monotonic() + self.timeout
        while True:
            try:
                return stub(request, wait_for_ready=True, timeout=end - time.monotonic())
            except grpc.RpcError as error:
                if error.code() != grpc.StatusCode.UNAVAILABLE or time.monotonic() > end:
                    raise
                time.sleep(0.1)


def main():
    folder, address, role, instance, timeout = sys.argv[1:]
    sys.path.insert(0, folder)
    from messages import nodes_pb2

    master = Master(nodes_pb2, address, float(timeout))
    try:
        joined = master.call("Join", role=role, instance=instance, address=f"{instance}.example:7000")
    except grpc.RpcError as error:
        say(refused=error.details())
        return
    say(rank=joined.rank, timeout_s=joined.timeout_s, replaced=joined.replaced)

    def give_signs():
        while True:
            master.call("Sign", instance=instance)
            time.sleep(0.3)

    threading.Thread(target=give_signs, daemon=True).start()
    for line in sys.stdin:
        answer = master.call("Barrier", instance=instance, name="round", passing=int(line))
        say(passed=[f"{each.role}-{each.rank}" for each in answer.passed],
            died=[f"{each.role}-{each.rank} {each.instance}" for each in answer.died])  # fmt: skip
    master.call("Leave", instance=instance)


if __name__ == "__main__":
    main()
