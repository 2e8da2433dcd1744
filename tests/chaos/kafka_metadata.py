"""What a broker says of its cluster: a Metadata request, without a JVM of half a second for each."""

import dataclasses
import socket
import struct


class _Reader:
    def __init__(self, data):
        self._data, self._at = data, 0

    def number(self, form):
        (value,) = struct.unpack_from(">" + form, self._data, self._at)
        self._at += struct.calcsize(">" + form)
        return value

    def text(self):
        size = self.number("h")
        if size < 0:
            return None
        self._at += size
        return self._data[self._at - size:self._at].decode()

    def array(self, read):
        return [read() for _ in range(self.number("i"))]


@dataclasses.dataclass(frozen=True)
class Partition:
    topic: str
    number: int
    leader: int  # -1: none
    replicas: tuple
    in_sync: tuple


def read_metadata(data):
    """The brokers that are there, and all partitions, from a response of version 1."""
    reader = _Reader(data)

    def broker():
        node, _, _, _ = reader.number("i"), reader.text(), reader.number("i"), reader.text()
        return node

    def partition(topic):
        reader.number("h")
        return Partition(topic, reader.number("i"), reader.number("i"),
                         tuple(reader.array(lambda: reader.number("i"))),
                         tuple(reader.array(lambda: reader.number("i"))))

    def topic():
        reader.number("h")
        name = reader.text()
        reader.number("b")
        return reader.array(lambda: partition(name))

    brokers = reader.array(broker)
    reader.number("i")
    return brokers, [part for parts in reader.array(topic) for part in parts]


def _exactly(connection, size):
    data = b""
    while len(data) < size:
        more = connection.recv(size - len(data))
        if not more:
            raise ConnectionError("the broker has closed the connection")
        data += more
    return data


def ask(address, timeout=5):
    """OSError when the broker does not answer."""
    host, port = address.rsplit(":", 1)
    name = b"chaos"
    request = struct.pack(">hhih", 3, 1, 7, len(name)) + name + struct.pack(">i", -1)
    with socket.create_connection((host, int(port)), timeout=timeout) as connection:
        connection.sendall(struct.pack(">i", len(request)) + request)
        (size,) = struct.unpack(">i", _exactly(connection, 4))
        return read_metadata(_exactly(connection, size)[4:])
