"""benchmarks/peers: what rows are made of, and that each adapter reads like an example."""
import io
import json
import pathlib
import re
import sys
import tempfile
import tokenize
import unittest

SCRIPTS = pathlib.Path(__file__).resolve().parents[2] / "benchmarks/peer_scripts"
sys.path.insert(0, str(SCRIPTS))

import page
import rows
import their_tests
from systems import JOBS, SYSTEMS


def statements(text):
    """Without spaces, a compound one's first line by itself, and without imports and documentation."""
    found, parts = [], []
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.NEWLINE:
            found.append("".join(parts))
            parts = []
        elif token.type not in (tokenize.NL, tokenize.COMMENT, tokenize.INDENT, tokenize.DEDENT):
            parts.append(token.string)
    return [each for each in found if not each.startswith(("import", "from", '"""'))]


def write(folder, rank, process, lines):
    text = "".join(json.dumps(line) + "\n" for line in lines)
    pathlib.Path(folder, f"rank-{rank}-{process}.jsonl").write_text(text, encoding="ascii")


class Rows(unittest.TestCase):
    def read(self, **ranks):
        with tempfile.TemporaryDirectory() as folder:
            for name, lines in ranks.items():
                write(folder, *name[1:].split("_"), lines)
            return rows.read_ranks(pathlib.Path(folder))

    def test_count_samples_behind_the_warm_up_and_seconds_to_a_loss(self):
        steps = [{"at": 100 + number / 10, "samples": 10} for number in range(101)]
        read = self.read(r0_7=steps, r1_8=[*steps, {"at": 103.0, "loss": 0.75}, {"at": 104.0, "loss": 0.3}])
        row = rows.speed_row(read, 10)
        self.assertAlmostEqual(row["samples_per_second"], 200, delta=3)
        self.assertEqual((row["seconds_to_loss"]["0.8"], row["seconds_to_loss"]["0.4"]), (3.0, 4.0))
        changed = rows.speed_row(read, 10, change=5)
        self.assertAlmostEqual(changed["samples_per_second_after"], 200, delta=6)

    def test_tell_when_survivors_go_on_and_the_newcomer_begins(self):
        steps = [{"at": at, "samples": 2, "numbers": [0, 1]} for at in (1.0, 2.0, 2.6, 9.0)]
        came = [{"at": 7.0, "start": True}, {"at": 8.0, "samples": 1, "numbers": [2]}]
        row = rows.kill_row(self.read(r0_1=steps, r1_2=steps[:2], r1_3=came), 1, 2.1, 5.0, 3)
        self.assertAlmostEqual(row["survivors_next_step_seconds"], 0.5)
        self.assertAlmostEqual(row["newcomers_first_step_seconds"], 3.0)
        self.assertEqual((row["samples_behind"], row["samples_ahead"]), (4, 0))
        twice = [{"at": at, "samples": 8, "numbers": list(range(8))} for at in (1.0, 2.5)]
        row = rows.kill_row(self.read(r0_1=twice, r2_4=twice[:1], r1_2=[]), 1, 2.1, 5.0, 9)
        self.assertIsNone(row["survivors_next_step_seconds"], "one of the survivors has made no step")
        self.assertEqual(row["samples_behind"], 2, "one sample of nine was never used, the others three times")

    def test_take_the_two_counts_of_a_pass_that_goes_on_for_right(self):
        first = [{"at": 1.0, "samples": 9, "numbers": list(range(9))}, {"at": 2.5, "samples": 3, "numbers": [0, 1, 8]}]
        row = rows.kill_row(self.read(r0_1=first, r1_2=[]), 1, 2.1, 5.0, 9)
        self.assertEqual((row["samples_behind"], row["samples_ahead"]), (0, 0))
        again = [*first, {"at": 2.7, "samples": 2, "numbers": [0, 1]}]
        row = rows.kill_row(self.read(r0_1=again, r1_2=[]), 1, 2.1, 5.0, 10)
        self.assertEqual((row["samples_behind"], row["samples_ahead"]), (1, 2), "the tenth never, two once more than the others")

    def test_tell_a_step_by_its_samples(self):
        steps = [{"at": number / 100, "samples": 8} for number in range(121)]
        row = rows.step_row(self.read(r0_1=steps, r1_2=[{**step, "samples": 24} for step in steps]))
        self.assertAlmostEqual(row["step_ms"], 10)
        self.assertAlmostEqual(row["samples_per_second"], 3200)
        self.assertEqual(row["samples_per_step"], 32)

    def test_take_no_line_that_was_cut_off_for_a_step(self):
        with tempfile.TemporaryDirectory() as folder:
            pathlib.Path(folder, "rank-0-1.jsonl").write_text('{"at": 1, "samples": 4}\n{"at": 2, "sam', encoding="ascii")
            self.assertEqual(len(rows.read_ranks(pathlib.Path(folder))[0, 1]), 1)


class Adapters(unittest.TestCase):
    def test_have_sixty_lines_at_most_and_all_jobs_know_their_systems(self):
        for system in SYSTEMS.values():
            self.assertLessEqual(len((SCRIPTS / system["script"]).read_text(encoding="utf-8").splitlines()), 60, system["script"])
        for job in JOBS.values():
            self.assertLessEqual(set(job["systems"]), set(SYSTEMS))

    def test_adopt_their_systems_by_as_many_statements_as_the_table_says(self):
        said = {name: cells[-1] for name, cells in page._WORK.items()}
        for script, pattern in page.ADOPTS.items():
            found = [each for each in statements((SCRIPTS / script).read_text(encoding="utf-8")) if re.search(pattern, each)]
            told = [cell for cell in said.values() if f"`{script}`" in cell or script == "with_dynamix.py" and "peers_test" in cell]
            self.assertEqual([int(re.match(r"\d+", cell)[0]) for cell in told], [len(found)], (script, found))


class Page(unittest.TestCase):
    def test_says_that_a_machine_was_busy_and_why_something_did_not_run(self):
        good = {"job": "steady", "seed": 1, "samples_per_second": 100.0, "seconds_to_loss": {}, "load": 9.5}
        kept = {"rows": [{**good, "system": "plain"}, {**good, "system": "dynamix", "samples_per_second": 150.0},
                         {"job": "steady", "seed": 1, "system": "adaptdl", "failure": "does not install: no wheel", "load": 1}]}
        text = page.text_of(kept)
        self.assertIn("**The machine was not quiet**", text)
        self.assertIn("| AdaptDL | does not install: no wheel |", text)
        self.assertIn("| Dynamix | 150 | 1.50 |", text)
        self.assertIn("No rows yet", page.text_of({"rows": []}))

    def test_names_who_is_first_others_before_ours_and_rounds_that_are_missing(self):
        def row(system, rate, seconds):
            return {"job": "steady", "seed": 1, "system": system, "samples_per_second": rate, "seconds_to_loss": {"0.7": seconds, "0.5": None}}
        text = page.text_of({"seeds": 2, "rows": [row("plain", 100.0, 9.0), row("told", 150.0, 4.0), row("dynamix", 160.0, 5.0)]})
        loss, rate = (text.index(words) for words in ("- s to loss 0.7: **plain DDP, told the true speeds**, 4.0; the best of ours, Dynamix, 5.0.",
                                                      "- samples/s: **Dynamix**, 160; the best other, plain DDP, told the true speeds, 150."))
        self.assertLess(loss, rate)
        self.assertNotIn("- s to loss 0.5", text, "nobody has reached it")
        self.assertIn('- "steady": plain DDP (1 of 2), ', text)

    def test_names_tests_of_others_that_the_tests_here_name(self):
        for project, where, table in their_tests.PROJECTS:
            held = (SCRIPTS.parents[1] / where).read_text(encoding="utf-8")
            for theirs, _, ours, _ in table:
                if not ours.startswith(("no ", "nothing ", "DynamixError")):
                    for name in re.findall(r"\w*test_\w+", theirs):
                        self.assertIn(name, held, project)
            self.assertIn(f"](../{where})", page.text_of({"rows": []}))


if __name__ == "__main__":
    unittest.main()
