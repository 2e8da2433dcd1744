"""What millrace.ParameterManager and millrace.send refuse before a broker is asked; the rest is in
tests/end_to_end/test_python.py."""

import datetime
import decimal
import unittest
from unittest import mock

import numpy

import millrace

NOWHERE = {"brokers": "127.0.0.1:1", "timeout": 0.1}


class Names(unittest.TestCase):
    def test_of_jobs_are_those_that_all_programs_take(self):
        for name in "", "a\0b", "..", "-a", "with space", "ä", "a" * 201:
            with self.assertRaisesRegex(ValueError, r"Settings.job '.*': use letters, digits, '_', '.' and '-'"):
                millrace.ParameterManager(name, **NOWHERE)
        with self.assertRaisesRegex(ConnectionError, "127.0.0.1:1"):
            millrace.ParameterManager("a-b.c_1", **NOWHERE)

    def test_of_topics_are_those_that_kafka_takes(self):
        for name in "", "a\0b", ".", "..", "with space", "ä", "a" * 250:
            with self.assertRaisesRegex(ValueError, r"topic '.*': use letters, digits, '_', '.' and '-'"):
                millrace.send([{"a": 1}], name, **NOWHERE)
        for name in ".a", "-", "a" * 249:
            with self.assertRaisesRegex(ConnectionError, "127.0.0.1:1"):
                millrace.send([{"a": 1}], name, **NOWHERE)

    def test_and_values_of_settings_have_no_nul(self):
        for settings in {"client.rack": "a\0b"}, {"client.rack\0b": "a"}:
            with self.assertRaisesRegex(ValueError, r"Kafka setting 'client.rack.*NUL"):
                millrace.send([{"a": 1}], "rows", settings=settings, **NOWHERE)
            with self.assertRaisesRegex(ValueError, r"Kafka setting 'client.rack.*NUL"):
                millrace.ParameterManager("job", settings=settings, **NOWHERE)
        with self.assertRaisesRegex(ValueError, "Kafka setting 'bootstrap.servers'.*NUL"):
            millrace.send([{"a": 1}], "rows", "127.0.0.1:1\0,elsewhere:1", timeout=0.1)


class Values(unittest.TestCase):
    """With a stand-in of the native part, which needs a broker."""

    def setUp(self):
        opens = mock.patch("millrace._native.Trainer.open")
        self.native = opens.start().return_value
        self.addCleanup(opens.stop)
        self.manager = millrace.ParameterManager("job")
        self.native.register.return_value = 0, None, *numpy.zeros((2, 2), numpy.float32)
        self.native.register_table.return_value = 1, None
        self.native.get_rows.return_value = 0, *numpy.zeros((2, 1, 2), numpy.float32)
        self.w = self.manager.register("w", 2)
        self.table = self.manager.register_table("t", 2)
        self.manager.get_rows(self.table, [7])

    def test_are_numbers_that_a_float32_can_hold(self):
        for values in ([1, 2], [True, False], [1.5, 2], numpy.array([1, 2], numpy.uint64),
                       numpy.array([1, 2], numpy.float16)):  # fmt: skip
            self.manager.put(self.w, values)
            self.assertEqual(self.w.data.tolist(), [float(value) for value in values])
            self.manager.update(self.w, values)
            self.assertEqual(self.w.grad.tolist(), [float(value) for value in values])
            self.manager.update_rows(self.table, [values])
            self.assertEqual(self.table.grad.tolist(), [[float(value) for value in values]])

    def test_of_other_types_are_refused_by_name(self):
        for values, dtype in (
            ([1j, 2], "complex128"), (numpy.array([1, 2], "datetime64[s]"), r"datetime64\[s\]"),
            (numpy.array([1, 2], "timedelta64[s]"), r"timedelta64\[s\]"), (["1", "2"], "<U1"),
            ([decimal.Decimal(1), 2], "object"), ([datetime.date(2020, 1, 1), None], "object"), ([None, 1], "object"),
        ):  # fmt: skip
            for call in self.manager.put, self.manager.update:
                with self.assertRaisesRegex(ValueError, f"the parameter w: .* {dtype}"):
                    call(self.w, values)
            with self.assertRaisesRegex(ValueError, f"the table t: .* {dtype}"):
                self.manager.update_rows(self.table, [values])
        self.assertEqual((self.w.data.any(), self.w.grad.any(), self.table.grad.any()), (False, False, False))

    def test_of_the_wrong_shape_are_refused(self):
        for values in 1.0, [1, 2, 3], [[1, 2]]:
            with self.assertRaisesRegex(ValueError, r"the parameter w has the shape \(2,\), not"):
                self.manager.update(self.w, values)
        for values in 1.0, [1, 2], [[1, 2], [3, 4]]:
            with self.assertRaisesRegex(ValueError, "1 rows of t were read, of 2 numbers"):
                self.manager.update_rows(self.table, values)


class Shapes(unittest.TestCase):
    def setUp(self):
        opens = mock.patch("millrace._native.Trainer.open")
        self.native = opens.start().return_value
        self.addCleanup(opens.stop)
        self.native.register.return_value = 0, None, *numpy.zeros((2, 2), numpy.float32)
        self.manager = millrace.ParameterManager("job")

    def test_are_whole_numbers(self):
        for shape, extents in ((), []), (3, [3]), (numpy.int64(3), [3]), ((2, numpy.uint8(3)), [2, 3]):
            self.manager.register("w", shape)
            self.assertEqual(self.native.register.call_args.args[1], extents)
        for shape in 2.0, [2.5], ["2"], None, [None]:
            with self.assertRaisesRegex(ValueError, "the parameter w: give its shape as whole numbers"):
                self.manager.register("w", shape)

    def test_that_no_number_of_64_bits_has_are_left_to_the_library_to_refuse(self):
        for extent, given in (2**63, 2**63 - 1), (2**200, 2**63 - 1), (-(2**200), -(2**63)), (-3, -3):
            self.manager.register("w", [2, extent])
            self.assertEqual(self.native.register.call_args.args[1], [2, given])


class Rows(unittest.TestCase):
    def test_of_a_table_are_those_of_the_memory_that_was_read_last(self):
        with mock.patch("millrace._native.Trainer.open") as opens:
            manager = millrace.ParameterManager("job")
        native = opens.return_value
        native.register_table.return_value = 0, None
        table = manager.register_table("t", 2)
        first, second = numpy.zeros((2, 2, 1, 2), numpy.float32)
        native.get_rows.return_value = 1, *first
        rows = manager.get_rows(table, [7])
        native.get_rows.return_value = 2, *first  # the same memory by other arrays
        self.assertIs(manager.get_rows(table, [8]), rows)
        native.get_rows.return_value = 3, *second  # as another thread may have read other rows between
        rows = manager.get_rows(table, [9])
        table.grad[...] = 5
        self.assertTrue(numpy.shares_memory(rows, second[0]) and table.rows is rows)
        self.assertEqual(second[1].tolist(), [[5, 5]])


if __name__ == "__main__":
    unittest.main()
