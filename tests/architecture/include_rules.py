#!/usr/bin/env python3
"""Checks the architecture that ARCHITECTURE.md draws: who may include what.

    include_rules.py [ROOT]

prints one line for each violation, "file:line: what is wrong", and exits with 1 if there are any.
A folder may use the folders listed for it below, and no other; the graph has no circles. Foreign
libraries are reached through one folder each, or a few: what is listed there may include their headers, and
nobody else may reach them, not even over the headers between.
"""

import os
import re
import sys

# Who may use whom. "apps" may use everything.
MAY_USE = {
    "base": [],
    "messages": [],
    "formats": ["base"],
    "models": ["base"],
    "kafka": ["base"],
    "collective": ["base"],
    "http": ["base"],
    "topics": ["base", "messages", "models"],
    "features": ["base", "formats", "messages", "models"],
    "exports": ["base", "features", "formats", "messages", "models"],
    "predictor": ["base", "exports", "features", "formats", "kafka", "messages", "models",
                  "producer"],
    "stores": ["base", "messages", "topics"],
    "processors": ["base", "messages", "models", "stores", "topics"],
    "tasks": ["base", "messages", "models", "processors", "stores", "topics"],
    "job": ["base", "kafka", "messages", "models", "topics"],
    "follower": ["base", "durability/checkpoints", "exports", "job", "kafka", "messages", "models",
                 "predictor", "processors", "stores", "tasks", "topics"],
    "rpc": ["base", "job", "kafka", "messages", "tasks", "topics"],
    "durability/checkpoints": ["base", "job", "kafka", "messages", "stores", "tasks", "topics"],
    "durability/replicas": ["base", "durability/checkpoints", "job", "kafka", "messages", "rpc",
                            "stores", "tasks", "topics"],
    "durability/snapshots": ["base", "exports", "formats", "job", "kafka", "messages", "models",
                             "processors", "stores", "tasks", "topics"],
    "server": ["base", "durability/checkpoints", "durability/replicas", "durability/snapshots",
               "features", "formats", "job", "kafka", "messages", "models", "processors", "rpc",
               "stores", "tasks", "topics"],
    "worker": ["base", "job", "kafka", "messages", "models", "processors", "rpc", "stores", "tasks",
               "topics"],
    "producer": ["base", "features", "formats", "http", "job", "kafka", "messages", "metrics",
                 "models", "topics"],
    "master": ["base", "job", "kafka", "launcher", "messages", "processors", "topics"],
    "members": ["base", "collective", "durability/checkpoints", "job", "kafka", "messages", "models",
                "processors", "server", "stores", "tasks", "topics", "worker"],
    "metrics": ["base", "messages"],
    "launcher": ["base", "messages", "topics"],
    "launcher/kubernetes": ["base", "http", "launcher", "messages", "topics"],
    "watch": ["base", "kafka", "messages", "metrics", "topics"],
    # The headers of the library for others' programs, and the library.
    "include/millrace": [],
    "client": ["base", "include/millrace", "job", "kafka", "messages", "models", "processors",
               "rpc", "tasks", "topics"],
    "python": ["base", "client", "exports", "features", "include/millrace", "kafka", "messages",
               "models", "topics"],
}
MAY_USE["apps"] = sorted(MAY_USE)
HEADERS_ALONE = ["include/millrace"]  # folders without a library

# Foreign headers and the places (files or folders) that may include them.
MAY_INCLUDE = {
    "gloo/": ["collective/mesh.cc", "benchmarks/collective/"],
    "librdkafka/": ["kafka/", "tests/kafka/", "benchmarks/"],
    "grpc/": ["rpc/", "master/task_server.cc"],
    "grpcpp/": ["rpc/", "tests/rpc/", "durability/replicas/", "tests/durability/replicas/", "master/grpc_caller.h",
                "client/node_client.cc",
                "master/node_service.cc", "master/task_server.cc", "members/member_node.cc", "tests/members/",
                "tests/master/", "examples/gloo-trainer/", "benchmarks/kafka/bare_stream.cc",
                "benchmarks/kafka/bare_stream.h"],
    "messages/answers.": ["rpc/"],
    "messages/elasticai.": ["master/task_server.cc", "tests/master/", "examples/gloo-trainer/"],
    "messages/nodes.": ["client/node_client.cc", "master/node_service.cc", "members/member_node.cc", "tests/members/",
                        "tests/master/", "examples/gloo-trainer/"],
    "messages/replica.grpc": ["durability/replicas/", "tests/durability/replicas/"],
    "rocksdb/": ["stores/rocksdb_byte_map.cc", "stores/rocksdb_log.cc", "stores/rocksdb_log.h",
                 "stores/rocksdb_settings.cc", "stores/rocksdb_settings.h", "benchmarks/"],
    "Eigen/": ["models/", "benchmarks/", "tests/models/"],
    "lbfgs.h": ["models/local_solver.cc"],
    "zlib.h": ["formats/decompressor.cc", "tests/formats/"],
    "simdjson.h": ["formats/avro_schema.cc", "formats/json_fields.cc",
                   "formats/registry_answer.cc"],
    "curl/": ["http/http_client.cc"],
    "microhttpd.h": ["predictor/http_server.cc", "benchmarks/"],
    "gnutls/": ["predictor/http_server.cc"],
    "zstd.h": ["formats/decompressor.cc", "tests/formats/"],
    "onnx/": ["exports/onnx_model.cc", "tests/exports/"],
    "nanobind/": ["python/src/module.cc"],
    "Python.h": ["python/src/"],
    "CLI/": ["apps/", "benchmarks/", "examples/", "tests/"],
    "spdlog/": ["apps/", "durability/", "follower/", "job/", "master/", "members/", "producer/", "rpc/", "server/", "watch/", "worker/"],
}
# Headers that certain folders must not reach, over whatever is between; but where they may be included.
NO_PROTOBUF = ["base/", "collective/", "formats/", "kafka/", "models/"]
# Whoever includes them need not have what the library is made of.
PUBLIC_HEADERS = ["include/"]
EVERY_FOLDER = [f"{folder}/" for folder in MAY_USE]
UNREACHABLE = {
    "absl/": PUBLIC_HEADERS,
    "google/protobuf/": NO_PROTOBUF + PUBLIC_HEADERS,
    "messages/": NO_PROTOBUF + PUBLIC_HEADERS,
    "spdlog/": PUBLIC_HEADERS,
    "Eigen/": EVERY_FOLDER,
    "gloo/": EVERY_FOLDER,
    "librdkafka/": EVERY_FOLDER,
    "onnx/": EVERY_FOLDER,
    "grpcpp/": EVERY_FOLDER,
    "rocksdb/": EVERY_FOLDER,
}

# The same input gives the same bytes: no time, chance, thread, order of a hash, or printing.
PURE = ["models/", "processors/", "tasks/", "topics/"]
# Tasks are handed the time: they may compute with it, and not ask for it.
MAY_COMPUTE_WITH_TIME = ["tasks/"]
IMPURE_HEADERS = {
    "atomic", "barrier", "chrono", "condition_variable", "ctime", "filesystem", "fstream", "future",
    "iostream", "latch", "mutex", "ostream", "random", "semaphore", "shared_mutex", "stop_token",
    "base/clock.h", "sys/time.h", "thread", "time.h", "unistd.h", "unordered_map", "unordered_set",
}
IMPURE_PREFIXES = ("absl/container/flat_hash", "absl/container/node_hash", "absl/random/",
                   "absl/synchronization/", "absl/time/")
IMPURE_CALLS = re.compile(
    r"(?<![.>\w])(rand|srand|time|std::clock|clock_gettime|gettimeofday|getenv|printf|fprintf|puts|"
    r"[\w:]*_clock::now)\s*\(")

# Errors of the world are Status values. CLI11 reports by exceptions, which apps/ catches, and Gloo,
# which collective/mesh.cc catches; those of Python are exceptions.
EXCEPTIONS = re.compile(r"\b(throw|try|catch)\b")
MAY_THROW = ["apps/", "collective/mesh.cc", "python/src/interpreter_lock.h", "python/src/module.cc"]

INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]')
TOKENS = re.compile(
    r'//[^\n]*|/\*.*?\*/|R"([^(\s]*)\(.*?\)\1"|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'', re.S)
SKIPPED_FOLDERS = {"build", "docker", "docs", "scripts", "cmake", "datasets"}


def without_comments_and_strings(text):
    """The text with what is no code blanked out, line for line."""
    return TOKENS.sub(lambda match: re.sub(r"[^\n]", " ", match.group()), text)


def is_in(path, places):
    """Whether the file stands in one of the places; "folder/*" is the folder without folders."""
    for place in places:
        if place.endswith("/*"):
            if os.path.dirname(path) == place[:-2]:
                return True
        elif path == place or (place.endswith("/") and path.startswith(place)):
            return True
    return False


class Source:
    def __init__(self, root, path):
        self.path = path
        with open(os.path.join(root, path), encoding="utf-8") as file:
            self.text = file.read()
        self.code = without_comments_and_strings(self.text)
        self.includes = []  # (line, header, whether in quotes)
        commented = re.sub(r"/\*.*?\*/", lambda m: re.sub(r"[^\n]", " ", m.group()), self.text,
                           flags=re.S)
        for number, line in enumerate(commented.split("\n"), 1):
            if match := INCLUDE.match(line):
                # Others' programs find the public headers without their folder.
                header = re.sub("^millrace/", "include/millrace/", match.group(2))
                self.includes.append((number, header, match.group(1) == '"'))

    def lines_of(self, pattern):
        for number, line in enumerate(self.code.split("\n"), 1):
            for match in re.finditer(pattern, line):
                yield number, match


def read_sources(root):
    sources = {}
    for folder, folders, files in os.walk(root):
        relative = os.path.relpath(folder, root)
        if relative == ".":
            folders[:] = [f for f in folders if f not in SKIPPED_FOLDERS and not f.startswith(".")]
        for name in sorted(files):
            if name.endswith((".cc", ".h")):
                path = os.path.normpath(os.path.join(relative, name))
                sources[path] = Source(root, path)
    return dict(sorted(sources.items()))


def folder_of(path):
    """The folder of MAY_USE that a file or a header belongs to; None: none of ours."""
    folder = os.path.dirname(path)
    while folder:
        if folder in MAY_USE:
            return folder
        folder = os.path.dirname(folder)
    return None


def check_circles():
    def visit(folder, above):
        if folder in above:
            yield f"include_rules.py: {' -> '.join(above + [folder])} is a circle"
            return
        for used in MAY_USE[folder]:
            yield from visit(used, above + [folder])

    for folder in MAY_USE:
        yield from visit(folder, [])


def check_folders(sources):
    for path, source in sources.items():
        folder = folder_of(path)
        for line, header, in_quotes in source.includes:
            used = folder_of(header)
            if header.startswith("tests/") and not path.startswith("tests/"):
                yield f"{path}:{line}: {header} is for tests only"
            if folder and used and used != folder and used not in MAY_USE[folder]:
                yield f"{path}:{line}: {folder} must not use {used} ({header})"
            if folder and in_quotes and "/" not in header:
                yield f"{path}:{line}: write the path of {header} from the root"
            if in_quotes and used and header.endswith(".h") and not header.endswith(".pb.h") \
                    and header not in sources:
                yield f"{path}:{line}: {header} does not exist"


def check_unlisted_folders(sources):
    for path in sources:
        if not folder_of(path) and not is_in(path, ["tests/", "benchmarks/", "examples/"]):
            yield f"{path}:1: its folder is not in the rules; say what it may use"


def check_foreign_includes(sources):
    for path, source in sources.items():
        for line, header, _ in source.includes:
            for prefix, places in MAY_INCLUDE.items():
                if header.startswith(prefix) and not is_in(path, places):
                    yield f"{path}:{line}: {header} may be included in {', '.join(places)} only"


def check_reach(sources):
    reached = {}  # file -> {foreign header: the way to it}

    def reach(path, above):
        if path in reached:
            return reached[path]
        if path in above:
            return {}
        found = {}
        for _, header, _ in sources[path].includes:
            if header in sources:
                for foreign, way in reach(header, above | {path}).items():
                    found.setdefault(foreign, [header] + way)
            found.setdefault(header, [])
        reached[path] = found
        return found

    for path in sources:
        for header, way in sorted(reach(path, frozenset()).items()):
            for prefix, folders in UNREACHABLE.items():
                may_include = prefix in MAY_INCLUDE and is_in(path, MAY_INCLUDE[prefix])
                if header.startswith(prefix) and is_in(path, folders) and not may_include:
                    over = f", over {' and '.join(way)}" if way else ""
                    yield f"{path}:1: must not know {header}{over}"


def check_purity(sources):
    for path, source in sources.items():
        if not is_in(path, PURE):
            continue
        for line, header, _ in source.includes:
            if header == "chrono" and is_in(path, MAY_COMPUTE_WITH_TIME):
                continue
            if header in IMPURE_HEADERS or header.startswith(IMPURE_PREFIXES):
                yield f"{path}:{line}: {header} has no place in {folder_of(path)}, which is pure"
        for line, match in source.lines_of(IMPURE_CALLS):
            yield (f"{path}:{line}: {match.group(1)}() has no place in {folder_of(path)}, "
                   "which is pure")


def check_style(sources):
    for path, source in sources.items():
        for line, _ in source.lines_of(r"\busing\s+namespace\b"):
            yield f"{path}:{line}: using namespace"
        if path.endswith(".h") and not re.search(r"^#pragma once$", source.text, re.M):
            yield f"{path}:1: #pragma once is missing"
        if folder_of(path) and not is_in(path, MAY_THROW):
            for line, match in source.lines_of(EXCEPTIONS):
                yield f"{path}:{line}: '{match.group(1)}': errors are Status values here"


def library_of(folder):
    return os.path.basename(folder)


def read_library(root, folder):
    """The folder's millrace_library: name, sources, and the project's libraries that it links."""
    try:
        with open(os.path.join(root, folder, "CMakeLists.txt"), encoding="utf-8") as file:
            text = re.sub(r"#[^\n]*", "", file.read())
    except FileNotFoundError:
        return []
    libraries = []
    for match in re.finditer(r"\bmillrace_library\(([^)]*)\)", text):
        words = match.group(1).split()
        parts = {"SOURCES": [], "PUBLIC": [], "PRIVATE": []}
        current = None
        for word in words[1:]:
            if word in parts:
                current = parts[word]
            elif current is not None:
                current.append(word)
        libraries.append((words[0], parts))
    return libraries


def read_extra_sources(root, folder):
    """Files of the folder's library that only some builds have: target_sources(...)."""
    with open(os.path.join(root, folder, "CMakeLists.txt"), encoding="utf-8") as file:
        calls = re.findall(r"target_sources\(\s*millrace_\w+\s+PRIVATE\s+([^)]*)\)", file.read())
    return [name for call in calls for name in call.split()]


def check_libraries(root, sources):
    """One library per folder, of all its files; it links what it includes, PUBLIC from headers."""
    folders = [f for f in MAY_USE if f not in ("messages", "apps", "python", *HEADERS_ALONE)]
    public = {}  # library -> libraries that its users get with it
    linked = {}
    for folder in folders:
        own = [path for path in sources if os.path.dirname(path) == folder]
        libraries = read_library(root, folder)
        if not own and not libraries:
            continue
        place = f"{folder}/CMakeLists.txt:1:"
        if len(libraries) != 1 or libraries[0][0] != library_of(folder):
            yield f"{place} one library named {library_of(folder)} is expected"
            continue
        parts = libraries[0][1]
        listed = {os.path.join(folder, name) for name in parts["SOURCES"]}
        listed |= {os.path.join(folder, name) for name in read_extra_sources(root, folder)}
        for path in sorted(listed ^ {p for p in own if p.endswith(".cc")}):
            yield f"{place} {path} is {'not there' if path in listed else 'in no library'}"
        ours = {kind: [w.removeprefix("millrace::") for w in parts[kind]
                       if w.startswith("millrace::")] for kind in ("PUBLIC", "PRIVATE")}
        for kind in ours:
            for name in ours[kind]:
                if name not in [library_of(f) for f in MAY_USE[folder]]:
                    yield f"{place} {library_of(folder)} must not link {name}"
        public[library_of(folder)] = ours["PUBLIC"]
        linked[library_of(folder)] = ours["PUBLIC"] + ours["PRIVATE"]

    def closure(names):
        found = set()
        todo = list(names)
        while todo:
            name = todo.pop()
            if name not in found:
                found.add(name)
                todo += public.get(name, [])
        return found

    for path, source in sources.items():
        folder = folder_of(path)
        name = library_of(folder) if folder else None
        if name not in linked:
            continue
        is_header = path.endswith(".h")
        known = closure(public[name] if is_header else linked[name])
        for line, header, _ in source.includes:
            used = folder_of(header)
            if used and used not in (folder, *HEADERS_ALONE) and library_of(used) not in known:
                kind = "PUBLIC " if is_header else ""
                yield (f"{path}:{line}: {folder}/CMakeLists.txt does not link {kind}"
                       f"millrace::{library_of(used)} ({header})")


def violations(root):
    sources = read_sources(root)
    found = list(check_circles())
    for check in (check_unlisted_folders, check_folders, check_foreign_includes, check_reach, check_purity,
                  check_style):
        found += check(sources)
    found += check_libraries(root, sources)
    return found


def main():
    here = os.path.dirname(os.path.abspath(__file__))
    root = sys.argv[1] if len(sys.argv) > 1 else os.path.join(here, "..", "..")
    found = violations(os.path.abspath(root))
    for violation in found:
        print(violation)
    if found:
        print(f"{len(found)} violations of the architecture (rules: tests/architecture)")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
