"""What the pages of the documentation tell a reader to type."""
import pathlib
import re
import shlex

SOURCE = pathlib.Path(__file__).resolve().parents[2]
PAGES = [SOURCE / "README.md", *sorted((SOURCE / "docs").glob("*.md")),
         *sorted((SOURCE / "deployments").glob("*/README.md"))]
COMMAND = re.compile(r"(\$ )?(sudo |[A-Z]+=\S+ )?(apt-get|benchmarks/\S+|bible|cd|cmake|cp|ctest|dynamix|dynamix-node"
                     r"|for|install|kubectl|make|openssl|pip|prometheus|python3|sbatch|setcap|source|systemctl|tar"
                     r"|timeout|torchrun|useradd) ")


def name_of(page):
    return str(page.relative_to(SOURCE))


def blocks(page):
    """The fenced blocks of a page: (language, lines)."""
    language, lines = None, []
    for line in page.read_text(encoding="utf-8").splitlines():
        fence = re.match(r" *```(\w*)", line)
        if fence and language is None:
            language, lines = fence.group(1), []
        elif fence:
            yield language, lines
            language = None
        elif language is not None:
            lines.append(line)


def commands(page):
    """The shell's lines of a page, whole and without their comments. Blocks with a language are files; in others there
    is also what commands print."""
    for language, lines in blocks(page):
        if language:
            continue
        for line in "\n".join(lines).replace("\\\n", " ").splitlines():
            line = re.sub(r"\s+#.*", "", line).strip()
            if COMMAND.match(line + " "):
                yield line.removeprefix("$ ")


def spans(page):
    """Commands of the program in running text, between backquotes."""
    text = re.sub(r"(?ms)^ *```.*?^ *```", "", page.read_text(encoding="utf-8"))
    for span in re.findall(r"`(dynamix-node [^`]+)`", text):
        yield " ".join(span.split())


def calls(line):
    """The calls of the program in a shell's line: lists of its arguments, without what stands behind `--`."""
    for part in re.split(r"&&|[;|&]|[$<]\(|\bdo\b", line):
        call = re.match(r"\s*(?:timeout \S+ \d+ )?(?:\S*/)?dynamix-node\s(.*)", part)
        if call:
            words = shlex.split(re.sub(r"[\[\])]", " ", call.group(1)), comments=True)
            yield words[:words.index("--")] if "--" in words else words


def files(page):
    """Files that a page shows whole: Python blocks whose first line is their name in a comment."""
    for language, lines in blocks(page):
        if language == "python" and (name := re.fullmatch(r"# (\w+\.py)", lines[0])):
            yield name.group(1), "\n".join(lines) + "\n"
