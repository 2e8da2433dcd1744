"""The first container of a pod as a process of this machine, and what the kubelets of the tests have in common."""

import os
import pathlib
import signal
import subprocess
import threading
import time

MOST_MESSAGE_BYTES = 2048
STARTED_AT = "%Y-%m-%dT%H:%M:%SZ"


def now():
    return time.strftime(STARTED_AT, time.gmtime())


def signal_group(process, number):
    try:
        os.killpg(process.pid, number)
    except ProcessLookupError:
        pass


def not_started(error):
    """As what the status of a container says."""
    return {"exitCode": 128, "reason": "StartError", "message": str(error)}


class PodProcess:
    """OSError: its program cannot be started."""

    def __init__(self, pod, folder, secret):
        """folder: has the pods' logs and volumes. secret: of a name, the texts of its files by their names."""
        self._folder = pathlib.Path(folder)
        name = pod["metadata"]["name"]
        self._log = self._folder / f"{name}.log"
        places = self._mount(pod, secret)
        words = [self._on_this_machine(word.replace("$$", "$"), places)
                 for word in pod["spec"]["containers"][0].get("command") or ["true"]]  # fmt: skip
        with open(self._log, "ab") as output:
            self._process = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=output,
                                             stderr=output, start_new_session=True)  # fmt: skip
        self._asked_at = None
        with open(self._folder / "begun", "a", encoding="utf-8") as begun:
            begun.write(name + "\n")

    @staticmethod
    def _on_this_machine(word, places):
        for path in sorted(places, key=len, reverse=True):
            if word == path or word.startswith(path + "/"):
                return places[path] + word[len(path):]
        return word

    def _mount(self, pod, secret):
        """From the paths in the container to those on this machine."""
        places = {}
        volumes = {volume["name"]: volume for volume in pod["spec"].get("volumes", [])}
        for mount in pod["spec"]["containers"][0].get("volumeMounts", []):
            place = self._folder / pod["metadata"]["uid"] / mount["name"]
            if claim := volumes[mount["name"]].get("persistentVolumeClaim"):
                place = self._folder / "claims" / claim["claimName"]
            place.mkdir(parents=True, exist_ok=True)
            if of_secret := volumes[mount["name"]].get("secret"):
                for name, text in secret(of_secret["secretName"]).items():
                    (place / name).write_text(text)
            places[mount["mountPath"]] = str(place)
        return places

    def terminated(self):
        """As the status of its container says it; None: it runs."""
        code = self._process.poll()
        if code is None:
            return None
        last = self._log.read_bytes()[-MOST_MESSAGE_BYTES:].decode(errors="replace")
        return {"exitCode": code if code >= 0 else 128 - code, "reason": "Error" if code else "Completed",
                "message": last if code else ""}  # fmt: skip

    def stop(self, grace):
        """Called again and again, until it has ended: it gets so many seconds from the first call on."""
        if self._asked_at is None:
            self._asked_at = time.monotonic()
            signal_group(self._process, signal.SIGTERM)
        elif time.monotonic() - self._asked_at > grace:
            self.kill()

    def kill(self):
        signal_group(self._process, signal.SIGKILL)

    def end(self):
        self.kill()
        self._process.wait()


class PodRunner:
    """A thread that runs pods' processes. Who derives from it has _run(), which ends soon after is_ending."""

    def __init__(self, folder):
        self.folder = pathlib.Path(folder)
        self.processes = {}  # by uid
        self.is_ending = False
        self._thread = threading.Thread(target=self._run, daemon=True)

    def start(self):
        self._thread.start()
        return self

    def stop(self):
        self.is_ending = True
        self._thread.join()
        for process in self.processes.values():
            process.end()

    def forget(self, present):
        """Ends what runs for pods that are not there: who deleted a pod has vouched for its end."""
        for uid in self.processes.keys() - present:
            self.processes.pop(uid).end()
