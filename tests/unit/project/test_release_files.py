"""A wheel or an sdist that must not be published is refused: contents, tags, paths, what its kernel asks for."""

from __future__ import annotations

import io
import json
import platform
import tarfile
import zipfile
from collections.abc import Mapping
from pathlib import Path

import pytest

from tools.environments import ROOT
from tools.release import checks
from tools.release.checks import KERNEL, Refused, audited, check

SOURCES = [
    "Cargo.toml",
    "LICENSE",
    "native/kernel/Cargo.toml",
    "native/kernel/src/lib.rs",
    "native/rustfmt.toml",
    "src/evensplit/__init__.py",
    "src/evensplit/observe/page.html",
]
NAME = f"evensplit-1.2.3-cp311-abi3-manylinux_2_17_{platform.machine()}.manylinux2014_{platform.machine()}.whl"


@pytest.fixture(autouse=True)
def stubbed(monkeypatch: pytest.MonkeyPatch) -> None:
    """No wheel is installed, and auditwheel is satisfied."""
    monkeypatch.setattr(checks, "sources", lambda root: SOURCES)
    monkeypatch.setattr(checks, "audited", lambda wheel: "manylinux_2_17")
    monkeypatch.setattr(checks, "newer_python", lambda own, environ: None)
    monkeypatch.setattr(checks, "try_out", lambda *_: "3.11")


def wheel(directory: Path, changes: Mapping[str, bytes | None] = {}, name: str = NAME) -> Path:
    """A good wheel, with files that are `changes`: other contents, more files, and None for those that it lacks."""
    content = {
        "evensplit/__init__.py": b"",
        "evensplit/observe/page.html": b"<p>",
        KERNEL: b"kernel",
        "evensplit-1.2.3.dist-info/METADATA": b"",
    }
    with zipfile.ZipFile(directory / name, "w") as archive:
        for each, bytes_ in {**content, **changes}.items():
            if bytes_ is not None:
                archive.writestr(each, bytes_)
    return directory / name


def sdist(directory: Path, lacking: str = "", more: str = "LICENSE") -> Path:
    path = directory / "evensplit-1.2.3.tar.gz"
    with tarfile.open(path, "w:gz") as archive:
        for name in {*SOURCES, "PKG-INFO", more} - {lacking}:
            archive.addfile(tarfile.TarInfo(f"evensplit-1.2.3/{name}"), io.BytesIO())
    return path


def looked(file: Path, *, portable: bool = True) -> str:
    return check(file, "1.2.3", file.parent, ["/home/of-this-machine"], portable=portable)


def test_a_good_wheel_is_run_and_one_for_another_machine_is_said_not_to_be(tmp_path: Path) -> None:
    assert looked(wheel(tmp_path)).endswith("installed and run, without cargo, on Python 3.11")
    other = wheel(tmp_path, name=NAME.replace(platform.machine(), "riscv64"))
    assert "NOT run" in looked(other)
    own = wheel(tmp_path, name="evensplit-1.2.3-cp311-abi3-linux_riscv64.whl")
    assert "auditwheel" not in looked(own, portable=False)


@pytest.mark.parametrize(
    "changes, said",
    [
        ({"evensplit/observe/page.html": None}, "missing: evensplit/observe/page.html"),
        ({KERNEL: None}, f"missing: {KERNEL}"),
        ({"tests/test_one.py": b""}, "not among the sources: tests/test_one.py"),
        ({KERNEL: b"... /home/of-this-machine/src ..."}, f"{KERNEL} names /home/of-this-machine"),
    ],
)
def test_contents_that_are_wrong_are_named(tmp_path: Path, changes: Mapping[str, bytes | None], said: str) -> None:
    with pytest.raises(Refused, match=said):
        looked(wheel(tmp_path, changes))


@pytest.mark.parametrize(
    "name, said",
    [
        (NAME.replace("1.2.3", "1.2.4"), "its version is 1.2.4, expected 1.2.3"),
        (NAME.replace("abi3", "cp311"), "expected {'cp311-abi3'}"),
        ("wheel.whl", "Invalid wheel filename"),
        ("evensplit.tar.gz", "Invalid sdist filename"),
    ],
)
def test_a_name_that_is_wrong_is_refused(tmp_path: Path, name: str, said: str) -> None:
    with pytest.raises(Refused, match=said):
        looked(wheel(tmp_path, name=name))


def test_what_is_no_archive_is_refused(tmp_path: Path) -> None:
    for name in (NAME, "evensplit-1.2.3.tar.gz"):
        (tmp_path / name).write_bytes(b"")
        with pytest.raises(Refused):
            looked(tmp_path / name)


def test_an_sdist_holds_all_sources_and_nothing_else(tmp_path: Path) -> None:
    for optional in ("", "native/rustfmt.toml"):
        assert looked(sdist(tmp_path, optional)) == "sources"
    for lacking in ("LICENSE", "src/evensplit/observe/page.html", "native/kernel/src/lib.rs"):
        with pytest.raises(Refused, match=f"missing: {lacking}"):
            looked(sdist(tmp_path, lacking))
    with pytest.raises(Refused, match=r"not among the sources: \.env"):
        looked(sdist(tmp_path, more=".env"))


@pytest.mark.parametrize(
    "tag, good",
    [
        ("manylinux_2_17_aarch64", True),
        ("manylinux_2_5_x86_64", True),
        ("manylinux_2_34_x86_64", False),
        ("musllinux_1_2_x86_64", False),
        ("linux_x86_64", False),
    ],
)
def test_a_kernel_that_asks_for_too_much_is_refused(monkeypatch: pytest.MonkeyPatch, tag: str, good: bool) -> None:
    said = {"overall_tag": tag, "versioned_symbols": {"libc.so.6": ["GLIBC_2.34"]}, "external_libs": {}}
    monkeypatch.setattr(checks, "run", lambda *_: json.dumps(said))
    if good:
        assert audited(Path(NAME)) == tag
    else:
        with pytest.raises(Refused, match=f"auditwheel says {tag}, .*GLIBC_2.34"):
            audited(Path(NAME))


def test_auditwheel_reads_the_kernel_of_this_checkout(tmp_path: Path) -> None:
    kernel = (ROOT / "src" / KERNEL).read_bytes()
    if kernel[:4] != b"\x7fELF":
        pytest.skip("this is not Linux")
    file = wheel(tmp_path, {KERNEL: kernel})
    try:
        said = audited(file)
    except Refused as refused:
        said = str(refused)
    assert platform.machine() in said
