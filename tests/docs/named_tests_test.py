"""docs/security.md says by which test each of its promises is held: all of them are in the tree."""
import pathlib
import re
import sys

SOURCE = pathlib.Path(__file__).resolve().parents[2]
# `Suite.Test`, or `Suite.Beginning*` for all tests of a suite whose names begin so.
NAME = re.compile(r"`([A-Z]\w+)\.(\w*)(\*?)`")
NO_TESTS = {"FILE.sig"}


def tests_of(source):
    """("Suite", "Test") of all tests: of C++, whose macros may break lines, and of Python, class by class."""
    found = set()
    for path in (source / "tests").rglob("*.[ch]pp"):
        found.update(re.findall(r"^(?:TYPED_)?TEST(?:_F|_P)?\(\s*(\w+),\s*(\w+)\)", path.read_text(encoding="utf-8"), re.M))
    for path in (source / "tests").rglob("*_test.py"):
        suite = ""
        for kind, name in re.findall(r"^(class|    def) (\w+)", path.read_text(encoding="utf-8"), re.M):
            suite = name if kind == "class" else suite
            found.add((suite, name))
    return found


def missing_in(text, found):
    return [f"{suite}.{test}{more}" for suite, test, more in NAME.findall(text) if f"{suite}.{test}" not in NO_TESTS and
            not any(suite == one and (name.startswith(test) if more else name == test) for one, name in found)]


def main():
    found, text = tests_of(SOURCE), (SOURCE / "docs/security.md").read_text(encoding="utf-8")
    assert missing_in("`Mesh.EndsNobody` `Mesh.EndsA*` `LyingPeer.*` `None.*`", found) == ["Mesh.EndsNobody", "None.*"], "the check"
    missing = missing_in(text, found)
    for name in missing:
        print(f"docs/security.md names {name}, and there is no such test")
    print(f"{len({f'{suite}.{test}' for suite, test, _ in NAME.findall(text)} - set(NO_TESTS))} tests are named")
    return 1 if missing else 0


if __name__ == "__main__":
    sys.exit(main())
