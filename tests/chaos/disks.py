"""The disk of a program: a small file system of its own (a tmpfs, which needs the right to mount), or
else a folder, whose files are kept from growing (RLIMIT_FSIZE)."""

import os
import pathlib
import resource
import shutil
import subprocess

MIB = 1 << 20


def _empty(folder):
    for entry in folder.iterdir():
        if entry.is_dir() and not entry.is_symlink():
            shutil.rmtree(entry)
        else:
            entry.unlink()


class MountedDisk:
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
        """It has no room from now on. (It shrinks to what is used, which may grow meanwhile.)"""
        del pid
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

    def __init__(self, folder, mib):
        del mib
        self.folder = pathlib.Path(folder)
        self.folder.mkdir(parents=True)

    def used(self):
        return bytes_on_disk(self.folder)

    def fill(self, pid):
        """No file of the process grows beyond some kilobytes from now on: a full disk for what is
        written in large files, which RocksDB's and Kafka's logs are."""
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
