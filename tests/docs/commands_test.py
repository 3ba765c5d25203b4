"""The pages against the program: verbs and options that it has, links that lead somewhere, messages it can print."""
import importlib.machinery
import importlib.util
import os
import re
import subprocess
import unittest

import pages

PROGRAM = os.environ["DYNAMIX_NODE"]
# Put together when they are printed, so in no source as they are.
COMPOSED = {"link refused", "speaks protocol", "generation_regroups", "training_cut_off", "training_stuck",
            "is stuck at batch.highest", "libdynamix-trainer.so is of dynamix-node"}


def ask(*arguments):
    return subprocess.run([PROGRAM, *arguments], check=True, capture_output=True, text=True).stdout


class Commands(unittest.TestCase):
    def setUp(self):
        script = ask("completion", "bash")
        verbs = re.search(r'words="([^"]+)"', script).group(1).split()
        self.options = {verb: set() for verb in verbs}
        for verb, words in re.findall(r'^      ([\w-]+)\) words="([^"]*)" ;;$', script, re.M):
            self.options[verb] = set(words.split())
        self.under_keys = set(re.findall(r"^  (\w+) +\S", ask("keys", "--help").split("Subcommands:")[1], re.M))

    def options_of(self, words):
        if words[0] == "keys" and len(words) > 1 and not words[1].startswith("-"):
            self.assertIn(words[1], self.under_keys)
            return set(re.findall(r"--[\w-]+", ask("keys", words[1], "--help")))
        return self.options[words[0]]

    def test_have_verbs_and_options_that_there_are(self):
        seen = 0
        for page in pages.PAGES:
            for line in [*pages.commands(page), *pages.spans(page)]:
                for words in pages.calls(line):
                    if not words or words[0].isupper() or words[0] in ("...", "--version", "--help"):
                        continue
                    with self.subTest(page=pages.name_of(page), command=line):
                        self.assertIn(words[0], self.options)
                        named = {word.split("=")[0] for word in words if word.startswith("--")}
                        self.assertLessEqual(named - {"--help"}, self.options_of(words))
                        seen += 1
        self.assertGreater(seen, 100)

    def test_have_verbs_that_make_has(self):
        verbs = re.findall(r"^([a-z-]+):", (pages.SOURCE / "Makefile").read_text(encoding="utf-8"), re.M)
        seen = {verb for page in pages.PAGES for verb in re.findall(r"(?:^|`)make ([a-z-]+)", page.read_text(encoding="utf-8"), re.M)}
        self.assertIn("run", seen)
        self.assertLessEqual(seen, set(verbs))

    def test_are_told_apart_from_what_is_printed(self):
        told = [line for page in pages.PAGES for line in pages.commands(page)]
        for line in ("dynamix-node doctor", "prometheus --config.file=deployments/prometheus/prometheus.yml",
                     "sudo setcap cap_bpf,cap_perfmon,cap_net_admin=ep build/release/node/dynamix-node"):
            self.assertIn(line, told)
        self.assertNotIn("dynamix-node: error", " ".join(told))


SAID = """test_a (loader_test.Loader.test_a)
{line}
FAIL: test_deals_all (loader_test.Loader.test_deals_all) (workers=2)
{dashes}
Traceback (most recent call last):
AssertionError: 3 != 4 : of a | b
{line}
FAIL: test_deals_all (loader_test.Loader.test_deals_all) (workers=3)
{dashes}
AssertionError: 3 != 4

{dashes}
Ran 12 tests in 3.1s

FAILED (failures=2, skipped=3)
""".format(line="=" * 70, dashes="-" * 70)


class Versions(unittest.TestCase):
    """tools/test-torch and the table that it writes."""

    def setUp(self):
        loader = importlib.machinery.SourceFileLoader("test_torch", str(pages.SOURCE / "tools" / "test-torch"))
        self.tool = importlib.util.module_from_spec(importlib.util.spec_from_loader("test_torch", loader))
        loader.exec_module(self.tool)

    def test_are_told_with_what_failed(self):
        failure = "test_deals_all: AssertionError: 3 != 4 : of a | b"
        self.assertEqual(self.tool.outcome_of(SAID, 1), (12, 3, [failure]))
        self.assertEqual(self.tool.outcome_of("Ran 2 tests in 1s\n\nOK\n", 0), (2, 0, []))
        self.assertEqual(self.tool.outcome_of("no module\n", 1), (0, 0, ["exit status 1: no module"]))
        self.assertEqual(self.tool.outcome_of("Ran 2 tests in 1s\n\nOK (skipped=2)\nAborted\n", -6),
                         (2, 2, ["exit status -6: Aborted"]))

    def test_have_a_row_each_in_their_order(self):
        page = f"before\n{self.tool.BEGIN}{self.tool.HEAD}{self.tool.END}behind\n"
        for row in ("| 2.13.0+cpu | a |", "| 2.6.0 | b |", "| 2.13.0+cpu | c |", "| 2.9.1 | d |"):
            page = self.tool.with_row(page, row)
        self.assertEqual(page, f"before\n{self.tool.BEGIN}{self.tool.HEAD}| 2.6.0 | b |\n| 2.9.1 | d |\n| 2.13.0+cpu | c |\n"
                               f"{self.tool.END}behind\n")
        installed = self.tool.PAGE.read_text(encoding="utf-8")
        self.assertIn(self.tool.BEGIN + self.tool.HEAD, installed)


class Book(unittest.TestCase):
    def test_links_lead_somewhere(self):
        for page in pages.PAGES:
            for target, anchor in re.findall(r"\]\(([^):#\s]*)(#[^)\s]*)?\)", page.read_text(encoding="utf-8")):
                with self.subTest(page=pages.name_of(page), link=target + anchor):
                    linked = (page.parent / target).resolve() if target else page
                    self.assertTrue(linked.exists())
                    if anchor and linked.suffix == ".md":
                        headings = re.findall(r"^#+ (.*)$", linked.read_text(encoding="utf-8"), re.M)
                        self.assertIn(anchor[1:], [re.sub(r"[^\w\- ]", "", each.lower()).strip().replace(" ", "-")
                                                   for each in headings])

    def test_index_names_every_page(self):
        index = (pages.SOURCE / "docs" / "README.md").read_text(encoding="utf-8")
        for page in pages.PAGES:
            if page.name != "README.md":
                self.assertIn(f"({page.name}", index)

    def test_results_are_those_of_the_rows(self):
        made = subprocess.run([pages.SOURCE / "tools" / "results-page", "--check"], capture_output=True, text=True, check=False)
        self.assertEqual(made.returncode, 0, made.stderr)

    def test_glossary_is_the_page_s(self):
        """docs/glossary.md and the tooltips of the page say the same."""
        listed = dict(re.findall(r"^\| \*\*(.+?)\*\* \| (.+?) \|$", (pages.SOURCE / "docs" / "glossary.md").read_text(encoding="utf-8"), re.M))
        script = (pages.SOURCE / "dashboard" / "page" / "glossary.js").read_text(encoding="utf-8")
        self.assertEqual(dict(re.findall(r'^  "?([^":]+)"?: "(.+)",$', script, re.M)), listed)
        self.assertGreaterEqual(len(listed), 10)

    def test_troubleshooting_names_messages_that_there_are(self):
        """Of each message in the left columns, what stands between its variable parts is in some source."""
        listed = subprocess.run(["git", "ls-files", "*.cpp", "*.hpp", "*.def", "*.py", "tools/*"], cwd=pages.SOURCE,
                                capture_output=True, text=True, check=False).stdout.split()
        if not listed:
            self.skipTest("no clone")
        sources = "\n".join((pages.SOURCE / name).read_text(encoding="utf-8", errors="replace") for name in listed
                            if not name.startswith("tests/"))
        sources = re.sub(r'"\s*\n\s*f?"', "", sources).replace('\\"', '"')
        text = (pages.SOURCE / "docs" / "troubleshooting.md").read_text(encoding="utf-8")
        for cell in re.findall(r"^\| (.*?) \|", text, re.M):
            for message in re.findall(r"`([^`]+)`", cell):
                for part in re.split(r"\.\.\.|\b[A-Z]+\b|\bben\b|\"\w+\"|: ", message):
                    part = part.strip()
                    with self.subTest(message=message):
                        self.assertTrue(len(part) < 8 or part in COMPOSED or part in sources, part)


if __name__ == "__main__":
    unittest.main()
