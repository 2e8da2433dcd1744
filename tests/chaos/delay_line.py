"""delay_line.py DEVICE MILLISECONDS: holds each packet that is routed to a TUN device of this name for
so long, and gives it back to the kernel in the same order. (Not every kernel has netem.) On SIGTERM
it gives back all that it holds, and prints how many packets there were."""

import collections
import fcntl
import os
import select
import signal
import struct
import sys
import time

TUNSETIFF, IFF_TUN, IFF_NO_PI = 0x400454CA, 0x0001, 0x1000


def main():
    device, delay = sys.argv[1], float(sys.argv[2]) / 1000
    tun = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
    fcntl.ioctl(tun, TUNSETIFF, struct.pack("16sH22x", device.encode(), IFF_TUN | IFF_NO_PI))
    stop = []
    signal.signal(signal.SIGTERM, lambda *_: stop.append(True))
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the terminal's is not meant for this process
    print("ready", flush=True)
    held, count = collections.deque(), 0
    while not stop or held:
        wait = 1 if not held else max(0, held[0][0] - time.monotonic())
        readable, _, _ = select.select([tun], [], [], min(wait, 0.2))
        try:
            while readable:
                held.append((time.monotonic() + delay, os.read(tun, 65536)))
                count += 1
        except BlockingIOError:
            pass
        while held and (stop or held[0][0] <= time.monotonic()):
            try:
                os.write(tun, held.popleft()[1])
            except OSError:
                pass  # a packet that is lost, as packets are
    print(count, flush=True)


if __name__ == "__main__":
    main()
