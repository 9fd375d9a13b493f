"""What is wrong with an sdist or a wheel is found out: its contents, its metadata, what its kernel asks for."""

from __future__ import annotations

import io
import struct
import tarfile
import zipfile
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.support.shared_objects import AARCH64, X86_64, shared_object
from tools.environments import ROOT, Environment
from tools.release import building, checking, elf
from tools.release.archives import BadArchive, look_into_sdist, look_into_wheel, sha256, wheel_name
from tools.release.checking import Checked, check, table

SYMBOLS = {"memcpy": "GLIBC_2.14", "free": "GLIBC_2.2.5", "malloc": "GLIBC_2.2.5", "getauxval": "GLIBC_2.16"}
NEWER = {**SYMBOLS, "stat64": "GLIBC_2.33", "__libc_start_main": "GLIBC_2.34"}
SOURCES = (
    "Cargo.toml",
    "LICENSE",
    "native/kernel/Cargo.toml",
    "native/kernel/src/lib.rs",
    "native/rustfmt.toml",
    "src/evensplit/__init__.py",
    "src/evensplit/observe/page.html",
)
METADATA = "Metadata-Version: 2.4\nName: evensplit\nVersion: 1.2.3\nRequires-Python: >=3.11\nLicense-File: LICENSE\n"
INFO = "evensplit-1.2.3.dist-info"
NAME = "evensplit-1.2.3-cp311-abi3-manylinux_2_17_x86_64.manylinux2014_x86_64.whl"


def wheel(directory: Path, changes: Mapping[str, bytes | None] = {}, name: str = NAME) -> Path:
    """A good wheel, with files that are `changes`: other contents, more files, and None for those that it lacks."""
    tags = "".join(f"Tag: cp311-abi3-{platform}\n" for platform in wheel_name(Path(name)).platforms)
    content: dict[str, bytes | None] = {
        "evensplit/__init__.py": b"",
        "evensplit/observe/page.html": b"<p>",
        "evensplit/_kernel.abi3.so": shared_object(X86_64, SYMBOLS),
        f"{INFO}/METADATA": METADATA.encode(),
        f"{INFO}/WHEEL": f"Wheel-Version: 1.0\n{tags}".encode(),
        f"{INFO}/entry_points.txt": b"",
        f"{INFO}/licenses/LICENSE": b"",
    }
    files = {name: bytes_ for name, bytes_ in (content | dict(changes)).items() if bytes_ is not None}
    record = "".join(f"{name},{sha256(bytes_)},{len(bytes_)}\n" for name, bytes_ in files.items())
    files.setdefault(f"{INFO}/RECORD", f"{record}{INFO}/RECORD,,\n".encode())
    with zipfile.ZipFile(directory / name, "w") as archive:
        for each, bytes_ in files.items():
            archive.writestr(each, bytes_)
    return directory / name


def sdist(directory: Path, lacking: str = "", more: str = "", metadata: str = METADATA) -> Path:
    path = directory / "evensplit-1.2.3.tar.gz"
    with tarfile.open(path, "w:gz") as archive:
        for name in {*SOURCES, "PKG-INFO"} - {lacking} | ({more} - {""}):
            content = metadata.encode() if name == "PKG-INFO" else b""
            member = tarfile.TarInfo(f"evensplit-1.2.3/{name}")
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return path


def test_what_a_library_asks_for_is_read() -> None:
    library = elf.read(shared_object(AARCH64, SYMBOLS, ("libc.so.6", "libm.so.6")))
    assert library.machine == "aarch64"
    assert library.needed == ("libc.so.6", "libm.so.6")
    assert library.glibc == (2, 16)
    assert library.symbols == {(2, 2): ("free", "malloc"), (2, 14): ("memcpy",), (2, 16): ("getauxval",)}
    assert elf.problems(library, "aarch64", (2, 17)) == []


def test_releases_are_compared_as_numbers() -> None:
    library = elf.read(shared_object(X86_64, {"old": "GLIBC_2.4", "new": "GLIBC_2.17"}))
    assert library.glibc == (2, 17)
    assert elf.problems(library, "x86_64", (2, 5)) != []


def test_a_library_that_asks_for_nothing_works_everywhere() -> None:
    library = elf.read(shared_object(X86_64, {}, ("libm.so.6",)))
    assert library.glibc is None
    assert elf.problems(library, "x86_64", (2, 17)) == []


def test_a_library_for_a_newer_glibc_is_refused_with_the_symbols() -> None:
    library = elf.read(shared_object(X86_64, NEWER, ("libc.so.6", "libssl.so.3")))
    assert elf.problems(library, "aarch64", (2, 17)) == [
        "the kernel is for x86_64, expected aarch64",
        "the kernel asks for glibc 2.33, at most 2.17 is expected: stat64",
        "the kernel asks for glibc 2.34, at most 2.17 is expected: __libc_start_main",
        "the kernel asks for libraries that not every Linux has: libssl.so.3",
    ]
    assert elf.problems(library, "x86_64", None) == []


@pytest.mark.parametrize("content", [b"", b"MZ", b"\x7fELF", shared_object(X86_64, SYMBOLS)[:-100]])
def test_what_is_no_library_is_refused(content: bytes) -> None:
    with pytest.raises(elf.NotElf):
        elf.read(content)


def test_the_kernel_of_this_checkout_can_be_read() -> None:
    kernel = ROOT / "src" / "evensplit" / "_kernel.abi3.so"
    if kernel.read_bytes()[:4] != b"\x7fELF":
        pytest.skip("this is not Linux")
    library = elf.read(kernel.read_bytes())
    assert library.machine == building.own_machine()
    assert library.glibc is not None
    assert library.glibc >= (2, 2)


def test_a_good_wheel(tmp_path: Path) -> None:
    looked = look_into_wheel(wheel(tmp_path), "1.2.3", SOURCES, ["/home/somebody"])
    assert looked.problems == ()
    assert (looked.machine, looked.glibc) == ("x86_64", "2.16")


@pytest.mark.parametrize(
    "changes, said",
    [
        ({"evensplit/observe/page.html": None}, "missing: evensplit/observe/page.html"),
        ({"evensplit/_kernel.abi3.so": None}, "missing: evensplit/_kernel.abi3.so"),
        ({"tests/test_one.py": b""}, "not among the sources: tests/test_one.py"),
        ({f"{INFO}/licenses/LICENSE": None}, f"missing: {INFO}/licenses/LICENSE"),
        ({f"{INFO}/METADATA": METADATA.replace("3\nReq", "4\nReq").encode()}, "Version: 1.2.4, expected 1.2.3"),
        ({f"{INFO}/WHEEL": b"Tag: cp311-abi3-linux_x86_64\n"}, "its tags are cp311-abi3-linux_x86_64, and its name"),
        ({f"{INFO}/RECORD": b"evensplit/__init__.py,sha256=wrong,1\n"}, "with another digest than in RECORD"),
        ({"evensplit/_kernel.abi3.so": shared_object(X86_64, NEWER)}, "at most 2.17 is expected: stat64"),
        ({"evensplit/_kernel.abi3.so": shared_object(AARCH64, SYMBOLS)}, "is for aarch64, expected x86_64"),
        ({"evensplit/_kernel.abi3.so": b"no library"}, "the kernel is no library"),
        (
            {"evensplit/_kernel.abi3.so": shared_object(X86_64, SYMBOLS) + b"/home/somebody/src"},
            "evensplit/_kernel.abi3.so names /home/somebody, which is of this machine",
        ),
    ],
)
def test_what_is_wrong_with_a_wheel_is_said(tmp_path: Path, changes: Mapping[str, bytes | None], said: str) -> None:
    looked = look_into_wheel(wheel(tmp_path, changes), "1.2.3", SOURCES, ["/home/somebody"])
    assert any(said in problem for problem in looked.problems), looked.problems


def test_a_wheel_for_one_python_or_of_another_version_is_refused(tmp_path: Path) -> None:
    other = wheel(tmp_path, name="evensplit-1.2.4-cp311-cp311-linux_x86_64.whl")
    problems = look_into_wheel(other, "1.2.3", SOURCES).problems
    assert "its name says 1.2.4, expected 1.2.3" in problems
    assert any("cp311-cp311, expected cp311-abi3" in problem for problem in problems)


@pytest.mark.parametrize(
    "platform, machine, glibc",
    [
        ("manylinux_2_17_aarch64.manylinux2014_aarch64", "aarch64", (2, 17)),
        ("manylinux2014_x86_64", "x86_64", (2, 17)),
        ("manylinux_2_28_x86_64", "x86_64", (2, 28)),
        ("linux_x86_64", "x86_64", None),
        ("macosx_11_0_arm64", "arm64", None),
    ],
)
def test_the_name_of_a_wheel_says_where_it_works(platform: str, machine: str, glibc: elf.Release | None) -> None:
    name = wheel_name(Path(f"evensplit-1.2.3-cp311-abi3-{platform}.whl"))
    assert (name.version, name.machine, name.glibc) == ("1.2.3", machine, glibc)


def test_what_is_no_wheel_is_refused() -> None:
    with pytest.raises(BadArchive, match="expected evensplit-VERSION"):
        wheel_name(Path("other-1.2.3-py3-none-any.whl"))


def test_an_sdist_holds_all_sources(tmp_path: Path) -> None:
    assert look_into_sdist(sdist(tmp_path), "1.2.3", SOURCES).problems == ()
    assert look_into_sdist(sdist(tmp_path, lacking="native/rustfmt.toml"), "1.2.3", SOURCES).problems == ()
    for lacking in ("LICENSE", "src/evensplit/observe/page.html", "native/kernel/src/lib.rs"):
        assert look_into_sdist(sdist(tmp_path, lacking), "1.2.3", SOURCES).problems == (f"missing: {lacking}",)
    assert look_into_sdist(sdist(tmp_path, more=".env"), "1.2.3", SOURCES).problems == ("not among the sources: .env",)
    other = look_into_sdist(sdist(tmp_path, metadata=METADATA.replace("1.2.3", "1.2")), "1.2.3", SOURCES)
    assert other.problems == ("its metadata says Version: 1.2, expected 1.2.3",)
    (tmp_path / "evensplit-1.2.3.tar.gz").write_bytes(b"")
    assert "cannot be read" in look_into_sdist(tmp_path / "evensplit-1.2.3.tar.gz", "1.2.3", SOURCES).problems[0]


@pytest.fixture
def ran(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The wheels that were run: nothing is installed, on a machine of the first kind."""
    names: list[str] = []

    def run(file: Path, version: str, python: str, place: Path) -> str:
        names.append(file.name)
        return "3.11"

    monkeypatch.setattr(checking, "sources", lambda root: list(SOURCES))
    monkeypatch.setattr(checking, "pythons", lambda: ["python"])
    monkeypatch.setattr(checking, "own_machine", lambda: "x86_64")
    monkeypatch.setattr(checking, "install_and_run", run)
    return names


def test_a_wheel_for_this_machine_is_run_and_another_is_said_not_to_be(tmp_path: Path, ran: list[str]) -> None:
    here = check(wheel(tmp_path), "1.2.3", tmp_path, portable=True)
    assert here.problems == ()
    assert here.done[-1] == "installed and run, without cargo, on Python 3.11"
    arm = {"evensplit/_kernel.abi3.so": shared_object(AARCH64, SYMBOLS)}
    there = check(wheel(tmp_path, arm, NAME.replace("x86_64", "aarch64")), "1.2.3", tmp_path, portable=True)
    assert there.problems == ()
    assert there.done[-1] == "NOT run: it is for aarch64, and this machine is x86_64"
    assert ran == [NAME]


def test_only_a_wheel_of_ones_own_may_need_the_glibc_that_is_here(tmp_path: Path, ran: list[str]) -> None:
    newer = {"evensplit/_kernel.abi3.so": shared_object(X86_64, NEWER)}
    own = wheel(tmp_path, newer, "evensplit-1.2.3-cp311-abi3-linux_x86_64.whl")
    assert check(own, "1.2.3", tmp_path, portable=False).problems == ()
    refused = check(own, "1.2.3", tmp_path, portable=True)
    assert "expected 2.17 or older, found none, its platform is linux_x86_64" in refused.problems[0]
    assert refused.done[-1] == "NOT run, because of that"
    assert len(ran) == 1


def test_the_table_has_what_was_checked_and_what_failed(tmp_path: Path) -> None:
    file = tmp_path / "evensplit-1.2.3.tar.gz"
    file.write_bytes(bytes(123_456))
    lines = table([Checked(file, "any", "-", ("sources", "metadata"), ("missing: LICENSE",))]).splitlines()
    assert lines[1].split() == ["evensplit-1.2.3.tar.gz", "123", "kB", "any", "-"]
    assert lines[2:] == ["    checked: sources; metadata", "    FAILED: missing: LICENSE"]


def test_all_that_is_missing_is_told_with_how_to_get_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    said = {"rustc": (0, f"{tmp_path}\n"), "python": (1, "No module named ziglang")}
    monkeypatch.setattr(building, "answer", lambda command: said["rustc" if command[0] == "rustc" else "python"])
    monkeypatch.setattr(Environment, "is_there", True)
    problems = building.missing(building.TARGETS)
    assert len(problems) == 3
    assert f"looked for in {tmp_path}" in problems[1]
    assert "`rustup target add aarch64-unknown-linux-gnu` gets it" in problems[1]
    assert "No module named ziglang" in problems[2]
    (tmp_path / "libstd-1.rlib").touch()
    said["python"] = (0, "0.15.1")
    assert building.missing(building.TARGETS) == []
    monkeypatch.setattr(Environment, "is_there", False)
    monkeypatch.setattr(Environment, "make", lambda environment: "uv pip sync")
    assert "from requirements/release.txt: `uv pip sync` failed" in building.missing(building.TARGETS)[0]


def test_bytes_of_the_test_library_are_in_order() -> None:
    """The sections begin where their table says."""
    content = shared_object(X86_64, SYMBOLS)
    (table_at,) = struct.unpack_from("<Q", content, 40)
    assert len(content) == table_at + 64 * 7
