#!/usr/bin/env python3
"""Shows that include_rules.py notices what it is there to notice: one planted violation each."""

import os
import tempfile
import unittest

import include_rules

CMAKE = {
    "base": "millrace_library(base\n  SOURCES check.cc)",
    "models": "millrace_library(models\n  SOURCES model.cc\n  PUBLIC millrace::base)",
    "topics": "millrace_library(topics\n  SOURCES codec.cc\n"
              "  PUBLIC millrace::base millrace::messages millrace::models)",
    "stores": "millrace_library(stores\n  SOURCES rocksdb_byte_map.cc\n"
              "  PUBLIC millrace::base\n  PRIVATE millrace::topics)",
    "processors": "millrace_library(processors  # pure\n  SOURCES server.cc\n"
                  "  PUBLIC millrace::models millrace::stores millrace::topics)",
    "tasks": "millrace_library(tasks\n  SOURCES task.cc\n  PUBLIC millrace::processors)",
    "server": "millrace_library(server\n  SOURCES loop.cc\n"
              "  PUBLIC millrace::tasks\n  PRIVATE millrace::kafka)",
    "kafka": "millrace_library(kafka\n  SOURCES consumer.cc\n  PUBLIC millrace::base)",
}
HEADER = "#pragma once\n"
TREE = {
    "base/check.h": HEADER,
    "base/check.cc": '#include "base/check.h"\n',
    "models/model.h": HEADER + '#include "base/check.h"\n',
    "models/model.cc": '#include "models/model.h"\n#include <vector>\n',
    "topics/codec.h": HEADER + '#include "messages/records.pb.h"\n#include "models/model.h"\n',
    "topics/codec.cc": '#include "topics/codec.h"\n',
    "stores/map.h": HEADER,
    "stores/rocksdb_byte_map.cc": '#include "stores/map.h"\n#include "rocksdb/db.h"\n'
                                  '#include "topics/codec.h"\n',
    "processors/server.h": HEADER + '#include "stores/map.h"\n',
    "processors/server.cc": '#include "processors/server.h"\n#include "topics/codec.h"\n'
                            "// no <thread>: we try to throw nothing, using namespace neither\n"
                            'const char* k = "catch (time())";\n',
    "tasks/task.h": HEADER + '#include <chrono>\n#include "processors/server.h"\n',
    "tasks/task.cc": '#include "tasks/task.h"\n',
    "server/loop.h": HEADER + '#include "tasks/task.h"\n',
    "server/loop.cc": '#include "server/loop.h"\n#include "kafka/consumer.h"\n',
    "kafka/consumer.h": HEADER + '#include "base/check.h"\n',
    "kafka/handles.h": HEADER + "#include <librdkafka/rdkafka.h>\n",
    "kafka/consumer.cc": '#include "kafka/consumer.h"\n#include "kafka/handles.h"\n',
    "apps/main.cc": '#include "server/loop.h"\nint main() try {} catch (...) {}\n',
    "tests/server/loop_test.cc": '#include "server/loop.h"\n#include <thread>\n',
}


class IncludeRulesTest(unittest.TestCase):
    def violations(self, changes):
        tree = {f"{folder}/CMakeLists.txt": text for folder, text in CMAKE.items()}
        tree.update(TREE)
        for path, text in changes.items():
            tree[path] = tree.get(path, HEADER) + text if text is not None else None
        with tempfile.TemporaryDirectory() as root:
            for path, text in tree.items():
                if text is None:
                    continue
                os.makedirs(os.path.join(root, os.path.dirname(path)), exist_ok=True)
                with open(os.path.join(root, path), "w", encoding="utf-8") as file:
                    file.write(text)
            return include_rules.violations(root)

    def assert_noticed(self, changes, *expected):
        found = self.violations(changes)
        for text in expected:
            self.assertTrue(any(text in violation for violation in found),
                            f"'{text}' is not in {found}")

    def test_a_clean_tree_has_no_violations(self):
        self.assertEqual(self.violations({}), [])

    def test_a_lower_folder_must_not_use_a_higher_one(self):
        self.assert_noticed({"models/model.h": '#include "stores/map.h"\n'},
                            "models/model.h:3: models must not use stores (stores/map.h)")
        self.assert_noticed({"processors/server.cc": '#include "server/loop.h"\n'},
                            "processors must not use server")
        self.assert_noticed({"topics/codec.cc": '#include "stores/map.h"\n'},
                            "topics must not use stores")
        self.assert_noticed({"kafka/consumer.cc": '#include "topics/codec.h"\n'},
                            "kafka must not use topics")
        self.assert_noticed({"base/check.cc": '#include "models/model.h"\n'},
                            "base must not use models")

    def test_public_headers_have_nothing_that_their_users_need_not_have(self):
        public = "include/millrace/status.h"
        for header in ("absl/status/status.h", "google/protobuf/message.h", "spdlog/spdlog.h",
                       "messages/records.pb.h"):
            self.assert_noticed({public: f'#include "{header}"\n'},
                                f"{public}:1: must not know {header}")
        self.assert_noticed({public: '#include "base/check.h"\n'}, "include/millrace must not use base")
        self.assert_noticed({public: '#include "millrace/gone.h"\n'}, "does not exist")
        self.assert_noticed({public: "\n", "base/check.cc": '#include "millrace/status.h"\n'},
                            "base must not use include/millrace")

    def test_a_circle_in_the_rules_themselves_is_noticed(self):
        include_rules.MAY_USE["base"] = ["topics"]
        try:
            self.assert_noticed({}, "is a circle")
        finally:
            include_rules.MAY_USE["base"] = []

    def test_a_new_folder_needs_a_rule(self):
        self.assert_noticed({"plots/plot.h": "\n"},
                            "plots/plot.h:1: its folder is not in the rules")

    def test_production_code_does_not_use_tests(self):
        self.assert_noticed({"tests/fake.h": "\n", "server/loop.cc": '#include "tests/fake.h"\n'},
                            "tests/fake.h is for tests only")

    def test_includes_are_written_from_the_root_and_exist(self):
        self.assert_noticed({"models/model.cc": '#include "model.h"\n'}, "from the root")
        self.assert_noticed({"models/model.cc": '#include "models/gone.h"\n'}, "does not exist")

    def test_rocksdb_stands_in_few_files(self):
        for path in ("stores/map.h", "processors/server.cc", "tests/server/loop_test.cc"):
            self.assert_noticed({path: '#include "rocksdb/db.h"\n'},
                                "rocksdb/db.h may be included in stores/rocksdb_byte_map.cc")
        self.assert_noticed({"stores/rocksdb_settings.h": '#include "rocksdb/options.h"\n',
                             "processors/server.cc": '#include "stores/rocksdb_settings.h"\n'},
                            "rocksdb/")

    def test_rdkafka_stands_in_one_folder(self):
        for path in ("server/loop.cc", "processors/server.h", "apps/main.cc"):
            self.assert_noticed({path: "#include <librdkafka/rdkafka.h>\n"},
                                "librdkafka/rdkafka.h may be included in kafka/")

    def test_nobody_reaches_a_foreign_header_over_another(self):
        self.assert_noticed(
            {"kafka/consumer.h": '#include "kafka/handles.h"\n'},
            "server/loop.cc:1: must not know librdkafka/rdkafka.h, over "
            "kafka/consumer.h and kafka/handles.h")

    def test_models_know_nothing_of_protobuf(self):
        self.assert_noticed({"models/model.cc": '#include "messages/records.pb.h"\n'},
                            "models must not use messages", "models/model.cc:1: must not know")
        self.assert_noticed({"models/model.cc": "#include <google/protobuf/message.h>\n"},
                            "models/model.cc:1: must not know google/protobuf/message.h")

    def test_other_libraries_stand_where_they_belong(self):
        for header in ("Eigen/Dense", "CLI/CLI.hpp", "spdlog/spdlog.h", "lbfgs.h"):
            self.assert_noticed({"processors/server.cc": f"#include <{header}>\n"},
                                f"{header} may be included in")

    def test_only_models_reach_eigen(self):
        product = {"models/product.h": "#include <Eigen/Core>\n"}
        self.assert_noticed(product | {"processors/server.cc": '#include "models/product.h"\n'},
                            "processors/server.cc:1: must not know Eigen/Core, over "
                            "models/product.h")

    def test_pure_folders_have_no_clock_chance_thread_or_hash_order(self):
        for header in ("chrono", "random", "thread", "mutex", "unordered_map", "ctime",
                       "absl/container/flat_hash_map.h", "absl/time/clock.h"):
            self.assert_noticed({"processors/server.h": f"#include <{header}>\n"},
                                f"processors/server.h:3: {header} has no place in processors")
        self.assert_noticed({"models/model.cc": "int x = rand ();\n"},
                            "models/model.cc:3: rand() has no place in models")

    def test_tasks_are_handed_the_time(self):
        self.assert_noticed({"tasks/task.cc": "auto t = std::chrono::steady_clock::now();\n"},
                            "tasks/task.cc:2: std::chrono::steady_clock::now() has no place")
        self.assert_noticed({"tasks/task.cc": '#include "base/clock.h"\n'},
                            "base/clock.h has no place in tasks")

    def test_tasks_know_no_loop_and_no_client(self):
        self.assert_noticed({"tasks/task.cc": '#include "kafka/consumer.h"\n'},
                            "tasks must not use kafka")
        self.assert_noticed({"tasks/task.cc": '#include "server/loop.h"\n'},
                            "tasks must not use server")

    def test_nothing_throws_outside_the_apps(self):
        self.assert_noticed({"models/model.cc": "void F() { throw 1; }\n"},
                            "models/model.cc:3: 'throw'")
        self.assert_noticed({"server/loop.cc": "void F() { try { } catch (int) { } }\n"},
                            "'try'", "'catch'")

    def test_no_using_namespace_not_even_in_tests(self):
        self.assert_noticed({"tests/server/loop_test.cc": "using namespace std;\n"},
                            "tests/server/loop_test.cc:3: using namespace")

    def test_every_header_has_its_guard(self):
        with tempfile.TemporaryDirectory() as root:
            os.makedirs(os.path.join(root, "tests"))
            with open(os.path.join(root, "tests", "a.h"), "w", encoding="utf-8") as file:
                file.write("// #pragma once\n")
            self.assertEqual(include_rules.violations(root),
                             ["tests/a.h:1: #pragma once is missing"])

    def test_every_file_is_in_its_folders_one_library(self):
        self.assert_noticed({"models/new.cc": "\n"}, "models/new.cc is in no library")
        self.assert_noticed({"models/model.cc": None}, "models/model.cc is not there")
        self.assert_noticed({"models/CMakeLists.txt": "\nmillrace_library(more SOURCES model.cc)"},
                            "one library named models is expected")

    def test_the_links_agree_with_the_includes(self):
        self.assert_noticed({"models/CMakeLists.txt": None},
                            "one library named models is expected")
        self.assert_noticed({"stores/map.h": '#include "topics/codec.h"\n'},
                            "stores/CMakeLists.txt does not link PUBLIC millrace::topics")
        self.assert_noticed({"tasks/task.cc": '#include "base/check.h"\n',
                             "tasks/CMakeLists.txt": "\n# no more\n",
                             "processors/CMakeLists.txt": None},
                            "tasks/CMakeLists.txt does not link millrace::base")


if __name__ == "__main__":
    unittest.main()
