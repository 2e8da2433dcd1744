"""The disk of a program: a small file system of its own (a tmpfs, which needs the right to mount), or
else a folder, whose files are kept from growing (RLIMIT_FSIZE)."""

import os
import pathlib
import resource
import shutil
import signal
import subprocess
import time

MIB = 1 << 20


def _empty(folder):
    for entry in folder.iterdir():
        if entry.is_dir() and not entry.is_symlink():
            shutil.rmtree(entry)
        else:
            entry.unlink()


def _wait_until_it_stands(pid):
    """Every thread of it, or the process has ended."""
    for _ in range(10_000):
        try:
            states = [stat.read_text().rsplit(")", 1)[1].split()[0]
                      for stat in pathlib.Path(f"/proc/{pid}/task").glob("*/stat")]
            if all(state in "TtZX" for state in states):
                return
        except (FileNotFoundError, ProcessLookupError):
            pass  # a thread has ended meanwhile
        time.sleep(0.001)
    raise RuntimeError(f"process {pid} does not stop")


class MountedDisk:
    can_be_full = True

    def __init__(self, folder, mib):
        self.folder, self._mib = pathlib.Path(folder), mib
        self.folder.mkdir(parents=True)
        subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={mib}m", "chaos", self.folder],
                       check=True)

    def _resize(self, size):
        # With source and type, mount does not repeat what it was mounted with, which a user namespace
        # may not understand.
        subprocess.run(["mount", "-t", "tmpfs", "-o", f"remount,size={size}", "chaos", self.folder],
                       check=True, capture_output=True)

    def used(self):
        disk = os.statvfs(self.folder)
        return (disk.f_blocks - disk.f_bfree) * disk.f_frsize

    def fill(self, pid):
        """It has no room from now on, nor have files beyond their ends, where a log has megabytes in
        reserve. pid: of the process that uses it, if there is one; it stands meanwhile."""
        if pid is None:
            return self._shrink()
        process = os.pidfd_open(pid)
        try:
            signal.pidfd_send_signal(process, signal.SIGSTOP)
            _wait_until_it_stands(pid)
            self._shrink()
            signal.pidfd_send_signal(process, signal.SIGCONT)
        except ProcessLookupError:
            self._shrink()  # it has just ended
        finally:
            os.close(process)

    def _shrink(self):
        """To what is used, which others than the process may add to."""
        for path in self.folder.rglob("*"):
            if path.is_file():
                os.truncate(path, path.stat().st_size)
        for spare in 0, 64, 1024, 16384:
            try:  # a size of 0 would be no limit at all
                return self._resize(f"{max(4, (self.used() >> 10) + spare)}k")
            except subprocess.CalledProcessError:
                continue
        raise RuntimeError(f"{self.folder} cannot be shrunk to what is used")

    def make_room(self, pid):
        del pid
        self._resize(f"{self._mib}m")

    def wipe(self):
        _empty(self.folder)

    def remove(self):
        subprocess.run(["umount", "--lazy", self.folder], check=False)


class LimitedFolder:
    """REQUIRES: the program ignores SIGXFSZ."""

    can_be_full = False  # for small files there is always room

    def __init__(self, folder, mib):
        del mib
        self.folder = pathlib.Path(folder)
        self.folder.mkdir(parents=True)

    def used(self):
        return bytes_on_disk(self.folder)

    def fill(self, pid):
        """No file of the process grows beyond some kilobytes from now on: a full disk for what is
        written in large files, which RocksDB's and Kafka's logs are. (Not of one that is not there.)"""
        if pid is None:
            return
        _, most = resource.prlimit(pid, resource.RLIMIT_FSIZE)
        resource.prlimit(pid, resource.RLIMIT_FSIZE, (128 << 10, most))

    def make_room(self, pid):
        if pid is not None:
            _, most = resource.prlimit(pid, resource.RLIMIT_FSIZE)
            resource.prlimit(pid, resource.RLIMIT_FSIZE, (most, most))

    def wipe(self):
        _empty(self.folder)

    def remove(self):
        pass


def bytes_on_disk(folder):
    """Blocks, not sizes: Kafka's indexes are files with holes. What vanishes meanwhile is nothing."""
    total, seen = 0, set()
    for path, _, files in os.walk(folder):
        for file in files:
            try:
                stat = os.lstat(os.path.join(path, file))
            except FileNotFoundError:
                continue
            if stat.st_ino not in seen:
                seen.add(stat.st_ino)
                total += stat.st_blocks * 512
    return total


class Folder(LimitedFolder):
    """Of the machine's own disk, without limits."""
