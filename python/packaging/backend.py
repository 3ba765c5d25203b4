"""The build backend of `pip install .` (PEP 517 and 660): it packs python/dynamix and the client library that CMake has built,
and needs nothing but Python."""
import base64
import hashlib
import os
import pathlib
import re
import sysconfig
import tarfile
import zipfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "python" / "dynamix"
LIBRARY = "libdynamix.so.1"


def _project(key):
    """A text of pyproject.toml; Python has no reader for it before 3.11."""
    text = (ROOT / "pyproject.toml").read_text()
    return re.search(rf'^{re.escape(key)} = "(.*)"$', text, re.MULTILINE).group(1)


def _version():
    return re.search(r"project\(dynamix VERSION ([\d.]+)", (ROOT / "CMakeLists.txt").read_text()).group(1)


def _name():
    return f"dynamix-{_version()}"


def _library():
    named = os.environ.get("DYNAMIX_LIBRARY")
    built = sorted(ROOT.glob(f"build/*/client/{LIBRARY}"), key=lambda file: file.stat().st_mtime)
    if not named and not built:
        raise SystemExit("dynamix: there is no libdynamix.so to pack. Build it in the source tree with\n"
                         "  cmake --preset release -Wno-dev && cmake --build --preset release --target dynamix_sdk\n"
                         "or let $DYNAMIX_LIBRARY name it.")
    return pathlib.Path(named) if named else built[-1]


def _tag():
    return "py3-none-" + re.sub(r"[-.]", "_", sysconfig.get_platform())


def _information():
    """The files of the .dist-info directory but RECORD."""
    metadata = (f"Metadata-Version: 2.1\nName: dynamix\nVersion: {_version()}\nSummary: {_project('description')}\n"
                f"License: Apache-2.0\nRequires-Python: {_project('requires-python')}\n")
    return {"METADATA": metadata,
            "WHEEL": f"Wheel-Version: 1.0\nGenerator: dynamix\nRoot-Is-Purelib: false\nTag: {_tag()}\n",
            "entry_points.txt": f"[console_scripts]\ndynamix = {_project('dynamix')}\n"}


def _write_wheel(directory, files):
    """A wheel of `files`, contents by path."""
    information = f"{_name()}.dist-info"
    files = {**files, **{f"{information}/{name}": text.encode() for name, text in _information().items()},
             f"{information}/LICENSE": (ROOT / "LICENSE").read_bytes()}
    wheel = f"{_name()}-{_tag()}.whl"
    record = ""
    with zipfile.ZipFile(os.path.join(directory, wheel), "w", zipfile.ZIP_DEFLATED) as archive:
        for path, contents in sorted(files.items()):
            digest = base64.urlsafe_b64encode(hashlib.sha256(contents).digest()).rstrip(b"=").decode()
            record += f"{path},sha256={digest},{len(contents)}\n"
            archive.writestr(zipfile.ZipInfo(path, (2020, 1, 1, 0, 0, 0)), contents)
        archive.writestr(f"{information}/RECORD", record + f"{information}/RECORD,,\n")
    return wheel


def _sources():
    return {f"dynamix/{file.name}": file.read_bytes() for file in PACKAGE.iterdir() if file.suffix in (".py", ".typed")
            or file.name == "py.typed"}


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    return _write_wheel(wheel_directory, {**_sources(), f"dynamix/{LIBRARY}": _library().read_bytes()})


def build_editable(wheel_directory, config_settings=None, metadata_directory=None):
    """The package stays in the source tree, and finds the library in its build directories."""
    return _write_wheel(wheel_directory, {"dynamix.pth": f"{PACKAGE.parent}\n".encode()})


def build_sdist(sdist_directory, config_settings=None):
    archive = f"{_name()}.tar.gz"
    paths = ["pyproject.toml", "CMakeLists.txt", "LICENSE", "README.md", "python"]
    with tarfile.open(os.path.join(sdist_directory, archive), "w:gz") as tar:
        for path in paths:
            tar.add(ROOT / path, f"{_name()}/{path}", filter=lambda entry: None if "__pycache__" in entry.name else entry)
    return archive


def get_requires_for_build_wheel(config_settings=None):
    return []


get_requires_for_build_editable = get_requires_for_build_sdist = get_requires_for_build_wheel
