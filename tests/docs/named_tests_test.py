"""Some pages say by which test each of their promises is held: all of them are in the tree."""
import pathlib
import re
import sys

SOURCE = pathlib.Path(__file__).resolve().parents[2]
# `Suite.Test`, or `Suite.Beginning*` for all tests of a suite whose names begin so.
NAME = re.compile(r"`([A-Z]\w+)\.((?!_)\w*)(\*?)`")
# `name_test`, as a file is named, with its path or without, or as CTest names it.
FILE = re.compile(r"`(?:[\w/]+/)?(\w+_test)(?:\.\w+)?`")
NO_TESTS = {"FILE.sig", "distributed_test"}  # the second is torch's own
PAGES = ["docs/security.md", "docs/promises.md", "docs/sizing.md", "docs/sdk.md", "docs/cluster-file.md", "ARCHITECTURE.md"]


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


def files_of(source):
    """"name_test" of all tests: of files, and of what CMake calls them."""
    found = {path.stem for path in (source / "tests").rglob("*_test.*")}
    for path in (source / "tests").rglob("CMakeLists.txt"):
        found.update(re.findall(r"\b(\w+_test)\b", path.read_text(encoding="utf-8")))
    return found


def missing_files_in(text, files):
    return [name for name in FILE.findall(text) if name not in NO_TESTS | files]


def missing_in(text, found):
    return [f"{suite}.{test}{more}" for suite, test, more in NAME.findall(text) if f"{suite}.{test}" not in NO_TESTS and
            not any(suite == one and (name.startswith(test) if more else name == test) for one, name in found)]


def main():
    found, files = tests_of(SOURCE), files_of(SOURCE)
    assert missing_in("`Mesh.EndsNobody` `Mesh.EndsA*` `LyingPeer.*` `None.*`", found) == ["Mesh.EndsNobody", "None.*"], "the check"
    assert missing_files_in("`tests/unit/exchange/mesh_test.cpp` `exchange_test` `no_such_test`", files) == ["no_such_test"], "the check"
    missing, named = [], set()
    for page in PAGES:
        text = (SOURCE / page).read_text(encoding="utf-8")
        missing += [(page, name) for name in missing_in(text, found) + missing_files_in(text, files)]
        named |= {f"{suite}.{test}" for suite, test, _ in NAME.findall(text)} | set(FILE.findall(text))
    for page, name in missing:
        print(f"{page} names {name}, and there is no such test")
    print(f"{len(named - NO_TESTS)} tests are named")
    return 1 if missing else 0


if __name__ == "__main__":
    sys.exit(main())
