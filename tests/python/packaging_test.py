"""The command line of the package."""
import contextlib
import gzip
import io
import json
import os
import pathlib
import struct
import subprocess
import sys
import tempfile
import time
import unittest
import unittest.mock

import ranks  # noqa: F401  (finds the package)

from dynamix import __main__ as command
from dynamix import tensorboard

SOURCE = pathlib.Path(__file__).resolve().parents[2]
LEDGER = SOURCE / "tests/unit/ledger/golden/faulty"
NO_WRITER = unittest.mock.patch.dict(sys.modules, {"torch.utils.tensorboard": None})
ROW = '{"kind":"window","key":{"window":%d},"workers":[{"report":{"host":"ada","batch":%d}}]}\n'


def masked_crc(values):
    """Of CRC-32C, bit by bit."""
    crc = 0xFFFFFFFF
    for byte in values:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ 0x82F63B78 * (crc & 1)
    crc ^= 0xFFFFFFFF
    return ((crc >> 15) | (crc << 17) & 0xFFFFFFFF) + 0xA282EAD8 & 0xFFFFFFFF


def records_of(contents):
    """Of a TFRecord file, whose checksums have to be right."""
    published = 0xE3069283  # RFC 3720: of b"123456789"
    assert masked_crc(b"123456789") == ((published >> 15 | published << 17 & 0xFFFFFFFF) + 0xA282EAD8) & 0xFFFFFFFF
    while contents:
        length, of_length = struct.unpack_from("<QI", contents)
        record = contents[12:12 + length]
        of_record, = struct.unpack_from("<I", contents, 12 + length)
        assert (of_length, of_record) == (masked_crc(contents[:8]), masked_crc(record)), "a checksum is wrong"
        yield record
        contents = contents[16 + length:]


def fields_of(message):
    """The values of a protobuf message by their field's number."""
    fields, at = {}, 0

    def number():
        nonlocal at
        value = shift = 0
        while True:
            byte = message[at]
            value, shift, at = value | (byte & 0x7F) << shift, shift + 7, at + 1
            if byte < 0x80:
                return value

    while at < len(message):
        key = number()
        if key & 7 == 0:
            value = number()
        elif key & 7 == 2:
            length = number()
            value, at = message[at:at + length], at + length
        else:
            form, size = {1: ("<d", 8), 5: ("<f", 4)}[key & 7]
            value, at = struct.unpack_from(form, message, at)[0], at + size
        fields.setdefault(key >> 3, []).append(value)
    assert at == len(message), "a message is cut off"
    return fields


class Command(unittest.TestCase):
    def run_command(self, *arguments):
        out, error = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(error):
            status = command.main(list(arguments))
        return status, out.getvalue(), error.getvalue()

    def test_shows_how_it_is_used(self):
        self.assertIn("tensorboard RUN", self.run_command("--help")[1])
        self.assertEqual(self.run_command()[0], 2)

    def test_says_that_a_run_is_none(self):
        status, _, error = self.run_command("tensorboard", "/nowhere")
        self.assertEqual(status, 1)
        self.assertIn("/nowhere is not a run directory: there is no such directory", error)

    def test_says_where_the_run_directory_stands(self):
        for name in ("report", "explain"):
            status, _, error = self.run_command(name)
            self.assertEqual(status, 2)
            self.assertIn(f"dynamix {name} RUN", error)

    def test_writes_event_files_that_hold_the_curves(self):
        """By Torch's writer, where its package is there, and by the package's own."""
        for given in (True, False):
            without = contextlib.nullcontext() if given else NO_WRITER
            with self.subTest(given=given), tempfile.TemporaryDirectory() as folder, without:
                status, out, error = self.run_command("tensorboard", str(LEDGER), folder)
                self.assertEqual((status, error), (0, ""))
                self.assertIn(f"tensorboard --logdir {folder}", out)
                name, = os.listdir(folder)
                self.assertTrue(name.startswith("events.out.tfevents."), name)
                events = [fields_of(record) for record in records_of(pathlib.Path(folder, name).read_bytes())]
                self.assertEqual(events[0][3], [b"brain.Event:2"])
                read = []
                for event in events[1:]:
                    scalar = fields_of(fields_of(event[5][0])[1][0])
                    read.append((scalar[1][0].decode(), scalar[2][0], event.get(2, [0])[0], event[1][0]))
                expected = [(tag, struct.unpack("<f", struct.pack("<f", value))[0], step, when)
                            for tag, value, step, when in tensorboard.scalars(str(LEDGER / "windows.jsonl"))]
                self.assertEqual(read, expected)

    def test_finds_the_curves_in_a_ledger(self):
        found = [scalar[:3] for scalar in tensorboard.scalars(str(LEDGER / "windows.jsonl"))]
        tags = {tag for tag, _, _ in found}
        self.assertLessEqual({"batch/ada", "loss/ben", "run/global_batch", "evaluation/test_accuracy"}, tags)
        self.assertIn(("batch/ada", 64.0, 2), found)
        self.assertIn(("evaluation/test_accuracy", 0.503, 14), found)

    def test_finds_no_time_where_no_step_was_timed(self):
        def tags(seconds):
            training = {"steps": 2, "loss": 0.5, "iteration_seconds": seconds, "compute_seconds": 0.0}
            return {tag for tag, _, _ in tensorboard._of_window({"workers": [{"report": {"host": "ada", "batch": 8, "training": training}}]})}
        self.assertEqual(tags(0.1), {"batch/ada", "loss/ada", "step_seconds/ada", "compute_seconds/ada"})
        self.assertEqual(tags(0.0), {"batch/ada", "loss/ada"})

    def test_gives_values_the_time_at_which_the_run_had_them(self):
        """And not that of the conversion; also behind another arbitrator, whose clock began later."""
        with tempfile.TemporaryDirectory() as folder, NO_WRITER:
            run = pathlib.Path(folder)
            start = '{"kind":"start","at_seconds":%s,"started_at":"%s"}\n'
            row = ROW.replace('"key"', '"at_seconds":%s,"key"')
            (run / "windows.jsonl").write_text(row % (1, 1, 10) + start % (0.5, "2001-09-09T01:46:40Z") +
                                               row % (60.75, 2, 20) + start % (0, "2001-09-09T02:00:00Z") +
                                               row % (5, 3, 30) + start % (0, "yesterday") + row % (6, 4, 40))
            times = [when for _, _, _, when in tensorboard.scalars(str(run / "windows.jsonl"))]
            self.assertEqual(times, [None, 1e9 + 60.25, 1e9 + 805, None], "None: it cannot be known")
            self.run_command("tensorboard", folder)
            events = next((run / "tensorboard").iterdir()).read_bytes()
            written = [fields_of(record)[1][0] for record in records_of(events)][1:]
            self.assertEqual(written[1:3], times[1:3])
            self.assertTrue(all(abs(when - time.time()) < 3600 for when in (written[0], written[3])))

    def test_passes_over_rows_that_nobody_has_written_so(self):
        rows = [ROW % (1, 7), '{"kind":"window","workers":["ada"]}\n', '{"kind":"window","workers":7}\n', "[" * 100_000 + "\n",
                '{"kind":"evaluation","report":[]}\n', '{"kind":"evaluation","report":{"step":1e400,"test_loss":1}}\n',
                '{"kind":"evaluation","report":{"step":1e30,"test_loss":1}}\n', '{"kind":"start","at_seconds":1%s}\n' % ("0" * 400),
                '{"kind":"window","workers":[{"report":{"host":"\\ud800","batch":9}}]}\n']
        with tempfile.TemporaryDirectory() as folder:
            ledger = pathlib.Path(folder, "windows.jsonl")
            ledger.write_text("".join(rows))
            found = [(tag, value) for tag, value, _, _ in tensorboard.scalars(str(ledger))]
            self.assertEqual(found, [("batch/ada", 7), ("batch/?", 9)])
            with NO_WRITER:
                self.run_command("tensorboard", folder)

    def test_draws_losses_of_any_sign_and_none_that_nobody_knows(self):
        with tempfile.TemporaryDirectory() as folder:
            ledger = pathlib.Path(folder, "windows.jsonl")
            ledger.write_text("".join('{"kind":"window","workers":[{"report":{"host":"ada","training":{"loss":%s}}}]}\n'
                                      '{"kind":"evaluation","report":{"train_loss":0,"test_loss":%s,"test_accuracy":0}}\n' % (loss, loss)
                                      for loss in (-2, 0)))
            found = [(tag, value) for tag, value, _, _ in tensorboard.scalars(str(ledger))]
            self.assertEqual(found, [("loss/ada", -2), ("evaluation/test_loss", -2), ("evaluation/test_accuracy", 0),
                                     ("evaluation/test_accuracy", 0)])

    def test_reads_the_older_parts_of_a_ledger(self):
        with tempfile.TemporaryDirectory() as folder:
            run = pathlib.Path(folder)
            first, second, newest = (ROW % (number, 10 * number) for number in (1, 2, 3))
            (run / "windows-00000000000000000000.jsonl.gz").write_bytes(gzip.compress(first.encode()))
            (run / "windows-00000000000000000000.jsonl").write_text(first)  # compressed, and not yet removed
            (run / "windows-00000000000000000090.jsonl").write_text(second)  # not yet compressed
            (run / "windows.jsonl").write_text(newest)
            os.link(run / "windows.jsonl", run / "windows-00000000000000000180.jsonl")  # about to be rotated
            batches = [value for _, value, _, _ in tensorboard.scalars(str(run / "windows.jsonl"))]
            self.assertEqual(batches, [10, 20, 30])

    def test_leaves_out_what_is_damaged_of_a_part(self):
        with tempfile.TemporaryDirectory() as folder:
            run = pathlib.Path(folder)
            rows = "".join(ROW % (number, pow(3, number, 65537)) for number in range(1, 3001))
            whole = gzip.compress(rows.encode())
            middle = len(whole) // 2
            (run / "windows.jsonl").write_bytes(b'{"kind":"\xff\n' + (ROW % (20000, 10)).encode())
            for number, damaged in enumerate((whole[:middle], whole[:middle] + bytes(200) + whole[middle + 200:],
                                              whole[:-8] + bytes(8), b"no gzip")):
                part = run / "windows-00000000000000000000.jsonl.gz"
                part.write_bytes(damaged)
                with self.assertLogs("dynamix", "WARNING") as told:
                    values = list(tensorboard.scalars(str(run / "windows.jsonl")))
                self.assertIn(f"{part} is damaged", told.output[0])
                self.assertEqual(values[-1][1], 10)
                self.assertEqual(len(values) > 100, damaged != b"no gzip")
                with NO_WRITER, self.assertLogs("dynamix", "WARNING"):
                    status, _, error = self.run_command("tensorboard", folder, os.path.join(folder, f"events-{number}"))
                self.assertEqual((status, error), (0, ""))

    def test_lists_the_parts_again_where_one_is_gone(self):
        with tempfile.TemporaryDirectory() as folder:
            run = pathlib.Path(folder)
            (run / "windows.jsonl").write_text(ROW % (2, 20))
            plain = run / "windows-00000000000000000000.jsonl"
            plain.write_text(ROW % (1, 10))
            open_part = tensorboard._open

            def compressed_before(part):
                if plain.exists():
                    pathlib.Path(f"{plain}.gz").write_bytes(gzip.compress(plain.read_bytes()))
                    plain.unlink()
                return open_part(part)

            with unittest.mock.patch.object(tensorboard, "_open", compressed_before):
                self.assertEqual([value for _, value, _, _ in tensorboard.scalars(str(run / "windows.jsonl"))], [10, 20])
            with unittest.mock.patch.object(tensorboard, "_open", side_effect=FileNotFoundError):
                self.assertRaisesRegex(FileNotFoundError, "is gone", list, tensorboard.scalars(str(run / "windows.jsonl")))

    def test_writes_values_that_float32_does_not_hold(self):
        largest = (2 - 2**-23) * 2.0**127
        with tempfile.TemporaryDirectory() as folder, NO_WRITER:
            run = pathlib.Path(folder)
            (run / "windows.jsonl").write_text((ROW % (1, 7)).replace("7", "1e39"))
            status, _, error = self.run_command("tensorboard", folder)
            self.assertEqual((status, error), (0, ""))
            events = next((run / "tensorboard").iterdir()).read_bytes()
            scalar = fields_of(fields_of(fields_of(list(records_of(events))[1])[5][0])[1][0])
            self.assertEqual(scalar[2], [largest])

    def test_needs_no_torch_and_a_script_without_one_is_told(self):
        """-S: nothing that is installed."""
        environment = {**os.environ, "PYTHONPATH": str(SOURCE / "python")}

        def ran(*arguments):
            return subprocess.run([sys.executable, "-S", *arguments], env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=60)

        self.assertIn("tensorboard RUN", ran("-m", "dynamix", "--help").stdout)
        with tempfile.TemporaryDirectory() as folder:  # nor does it load one that is there
            pathlib.Path(folder, "torch.py").write_text("raise SystemExit('it was loaded')\n", encoding="ascii")
            environment["PYTHONPATH"] += os.pathsep + folder
            self.assertIn("tensorboard RUN", ran("-m", "dynamix", "--help").stdout)
            self.assertIn("it was loaded", ran("-c", "import dynamix").stderr)
            environment["PYTHONPATH"] = str(SOURCE / "python")
        shown = ran("-c", "import dynamix")
        self.assertEqual(shown.returncode, 1)
        self.assertRegex(shown.stderr.splitlines()[-1], r"ModuleNotFoundError: \S+ has no torch, .*`pip install torch` into the same environment")

    def test_hands_the_rest_to_the_program(self):
        with tempfile.TemporaryDirectory() as folder:
            node = pathlib.Path(folder) / "dynamix-node"
            node.write_text("#!/bin/sh\necho \"$@\"\n")
            node.chmod(0o755)
            environment = {**os.environ, "DYNAMIX_NODE": str(node), "PYTHONPATH": str(SOURCE / "python")}
            for arguments, expected in ((["report", "there", "--json"], "report --run there --json"),
                                        (["explain", "--run", "there"], "explain --run there"),
                                        (["explain", str(LEDGER)], f"explain --run {LEDGER}"),
                                        (["explain", "there", "--window", "3"], "explain --run there --window 3"),
                                        (["exec", "--workers", "2"], "exec --workers 2")):
                shown = subprocess.run([sys.executable, "-m", "dynamix", *arguments], env=environment, check=True,
                                       stdout=subprocess.PIPE, timeout=60).stdout.decode().strip()
                self.assertEqual(shown, expected)


if __name__ == "__main__":
    unittest.main()
