"""The shape of the house: sizes, which way imports point, what the core may not do, one version."""

from __future__ import annotations

import ast
import importlib.metadata
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import grimp
import networkx as nx
import pytest

ROOT = Path(__file__).resolve().parents[3]
SRC = ROOT / "src"
CORE = sorted(path for room in ("core", "explain") for path in (SRC / "evensplit" / room).rglob("*.py"))
OURS = sorted(path for folder in ("src", "tools") for path in (ROOT / folder).rglob("*.py"))

MODULE_LINES_MAX = 400
FUNCTION_LINES_MAX = 70
ROOM_MODULES_MAX = 12
ROOM_FLOORS_MAX = 6
ROOMS = sorted(path.parent for path in (SRC / "evensplit").rglob("__init__.py"))
CRATES = sorted((ROOT / "native").glob("*/src"))

# What decides by its arguments alone. Anything else that the core wants to import has to be weighed first.
PURE_MODULES = {
    "__future__", "abc", "base64", "bisect", "collections", "dataclasses", "difflib", "enum", "fractions", "functools",
    "hashlib", "heapq", "html", "itertools", "json", "math", "numpy", "operator", "re", "shlex", "types", "typing",
    "zlib",
}  # fmt: skip
PURE_ROOMS = ("evensplit.core", "evensplit.explain", "evensplit.errors")
# Draws the numbers that it is given. Methods load it when they are called; nothing else in the core does (ADR 21).
DRAWS = "evensplit.charts"
# `hash` differs from process to process, `id` from run to run.
IMPURE_BUILTINS = {"__import__", "breakpoint", "compile", "eval", "exec", "hash", "id", "input", "open", "print"}
# These give the elements on in the order in which they get them ...
ORDER_KEEPERS = {"enumerate", "filter", "iter", "list", "map", "reversed", "tuple", "zip", "fromkeys", "join"}
# ... and these do not care.
ORDER_FREE = {"all", "any", "frozenset", "len", "max", "min", "set", "sorted", "sum"}
SET_METHODS = {"difference", "intersection", "symmetric_difference", "union"}
SET_TYPES = {"AbstractSet", "MutableSet", "Set", "frozenset", "set"}

Function = ast.FunctionDef | ast.AsyncFunctionDef
Comprehension = ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp


def toml(path: str) -> dict[str, Any]:
    return tomllib.loads((ROOT / path).read_text())


def name_of(path: Path) -> str:
    return str(path.relative_to(ROOT))


@pytest.mark.parametrize("path", OURS, ids=name_of)
def test_modules_and_functions_stay_small(path: Path) -> None:
    text = path.read_text()
    assert len(text.splitlines()) <= MODULE_LINES_MAX
    long = [
        f"{node.name} has {lines} lines"
        for node in ast.walk(ast.parse(text))
        if isinstance(node, Function) and (lines := (node.end_lineno or 0) - node.lineno + 1) > FUNCTION_LINES_MAX
    ]
    assert not long


@cache
def imported() -> Mapping[str, frozenset[str]]:
    """Module -> the modules of this package that it imports: in functions and for type checkers, too."""
    graph = grimp.build_graph("evensplit", cache_dir=None)
    return {module: frozenset(graph.find_modules_directly_imported_by(module)) for module in graph.modules}


def floors(modules: Iterable[str], imports_of: Mapping[str, frozenset[str]]) -> list[str]:
    """The longest chain of imports among `modules`, which have no circle."""
    longest: list[str] = nx.dag_longest_path(graph_of(modules, imports_of))
    return longest


def circles(modules: Iterable[str], imports_of: Mapping[str, frozenset[str]]) -> list[list[str]]:
    """The modules that import each other, directly or through others."""
    parts = nx.strongly_connected_components(graph_of(modules, imports_of))
    return sorted(sorted(part) for part in parts if len(part) > 1)


def graph_of(modules: Iterable[str], imports_of: Mapping[str, frozenset[str]]) -> Any:
    there = frozenset(modules)
    graph = nx.DiGraph()
    graph.add_nodes_from(sorted(there))
    graph.add_edges_from((one, other) for one in sorted(there) for other in sorted(imports_of[one] & there))
    return graph


@pytest.mark.parametrize("room", ROOMS, ids=name_of)
def test_no_room_has_more_than_a_dozen_modules_on_six_floors(room: Path) -> None:
    package = ".".join(room.relative_to(SRC).parts)
    modules = [f"{package}.{path.stem}" for path in sorted(room.glob("*.py")) if path.stem != "__init__"]
    assert len(modules) <= ROOM_MODULES_MAX
    assert circles(modules, imported()) == []
    chain = floors(modules, imported())
    assert len(chain) <= ROOM_FLOORS_MAX, " > ".join(chain)


def test_no_two_modules_import_each_other() -> None:
    # The package itself loads its public names when they are asked for.
    assert circles(imported().keys() - {"evensplit"}, imported()) == []


def test_circles_and_floors_are_seen() -> None:
    chain = {"a": frozenset("b"), "b": frozenset("c"), "c": frozenset[str]()}
    assert floors("abc", chain) == ["a", "b", "c"]
    assert circles("abc", chain) == []
    assert circles("abc", {**chain, "c": frozenset("a")}) == [["a", "b", "c"]]
    # What is imported through another room counts for the whole, not for the room.
    assert circles("ac", {**chain, "c": frozenset("a")}) == []


@pytest.mark.parametrize("crate", CRATES, ids=name_of)
def test_no_two_modules_of_a_crate_import_each_other(crate: Path) -> None:
    uses = {path.stem: frozenset(re.findall(r"\bcrate::(\w+)", path.read_text())) for path in crate.glob("*.rs")}
    assert any(uses.values())
    assert circles(uses, uses) == []


def impurities(source: str) -> list[str]:
    """What in `source` does not depend on its arguments alone, as far as the syntax shows it."""
    tree = ast.parse(source)
    found = [
        f"line {node.lineno}: imports {name}"
        for node, name in imports(tree)
        if not is_pure(name) and not (name == DRAWS and node.col_offset)
    ]
    found += [
        f"line {node.lineno}: calls {node.func.id}()"
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in IMPURE_BUILTINS
    ]
    scopes = [node for node in ast.walk(tree) if isinstance(node, Function)]
    found += [f"line {line}: takes a set in its own order" for scope in (tree, *scopes) for line in set_walks(scope)]
    return found


def imports(tree: ast.Module) -> Iterator[tuple[ast.stmt, str]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((node, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module == "evensplit" and not node.level:
            yield from ((node, f"evensplit.{alias.name}") for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield node, "." * node.level + (node.module or "")


def is_pure(module: str) -> bool:
    if module.partition(".")[0] == "evensplit":
        return any(f"{module}.".startswith(f"{room}.") for room in PURE_ROOMS)
    return module.partition(".")[0] in PURE_MODULES


def set_walks(scope: ast.Module | Function) -> list[int]:
    """The lines of `scope` (not of functions in it) where the order of a set's elements can reach a result."""
    nodes = list(own_nodes(scope))
    sets = {argument.arg for argument in arguments(scope) if is_set_type(argument.annotation)}
    for node in nodes:
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and is_set_type(node.annotation):
            sets.add(node.target.id)
        elif isinstance(node, ast.Assign) and is_set(node.value, sets):
            sets |= {target.id for target in node.targets if isinstance(target, ast.Name)}
    harmless = {
        id(argument)
        for node in nodes
        if isinstance(node, ast.Call) and called(node) in ORDER_FREE
        for argument in node.args
    }
    lines = []
    for node in nodes:
        if isinstance(node, ast.For):
            walked: list[ast.expr] = [node.iter]
        elif isinstance(node, ast.SetComp) or id(node) in harmless:
            continue
        elif isinstance(node, Comprehension):
            walked = [generator.iter for generator in node.generators]
        elif isinstance(node, ast.Call) and called(node) in ORDER_KEEPERS:
            walked = node.args
        elif isinstance(node, ast.Starred):
            walked = [node.value]
        else:
            continue
        lines += [node.lineno for one in walked if is_set(one, sets)]
    return lines


def own_nodes(scope: ast.AST) -> Iterator[ast.AST]:
    for child in ast.iter_child_nodes(scope):
        if not isinstance(child, Function):
            yield child
            yield from own_nodes(child)


def arguments(scope: ast.AST) -> list[ast.arg]:
    if not isinstance(scope, Function):
        return []
    return [*scope.args.posonlyargs, *scope.args.args, *scope.args.kwonlyargs]


def called(node: ast.Call) -> str:
    match node.func:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name
    return ""


def is_set_type(annotation: ast.expr | None) -> bool:
    base = annotation.value if isinstance(annotation, ast.Subscript) else annotation
    return isinstance(base, ast.Name) and base.id in SET_TYPES


def is_set(expression: ast.expr, names: set[str]) -> bool:
    match expression:
        case ast.Set() | ast.SetComp():
            return True
        case ast.Name(id=name):
            return name in names
        case ast.Call(func=ast.Name(id="set" | "frozenset")):
            return True
        case ast.Call(func=ast.Attribute(value=value, attr=attribute)) if attribute in SET_METHODS:
            return is_set(value, names)
        case ast.BinOp(left=left, op=ast.BitOr() | ast.BitAnd() | ast.BitXor() | ast.Sub(), right=right):
            return is_set(left, names) or is_set(right, names)
    return False


@pytest.mark.parametrize("path", CORE, ids=name_of)
def test_the_core_is_pure(path: Path) -> None:
    assert impurities(path.read_text()) == []


@pytest.mark.parametrize(
    "source",
    [
        "import time",
        "from datetime import datetime",
        "def f():\n    import os.path",
        "import evensplit",
        "from evensplit import _kernel",
        "from . import model",
        "from evensplit._kernel import decode",
        "import evensplit.kafka.admin.client",
        "from evensplit.charts import draw",
        "def f():\n    from matplotlib.figure import Figure",
        "from evensplit.corex import y",
        "open('x')",
        "print('x')",
        "def f(x):\n    return hash(x)",
        "for x in {1, 2}: pass",
        "for x in set(y): pass",
        "[x for x in frozenset(y)]",
        "{x: 1 for x in {1, 2}}",
        "list(set(y))",
        "','.join({str(x) for x in y})",
        "[*set(y)]",
        "def f(y: set[int]) -> list[int]:\n    return [x for x in y]",
        "def f(y):\n    z = set(y) - {1}\n    for x in z: pass",
        "sorted([x for x in set(y)][:1])",
    ],
)
def test_what_is_not_pure_is_seen(source: str) -> None:
    assert len(impurities(source)) == 1


@pytest.mark.parametrize(
    "source",
    [
        "from collections.abc import Iterator",
        "import numpy as np",
        "from evensplit.core.model import SplitId",
        "from evensplit.errors import TransitionError",
        "from evensplit import errors",
        "def f():\n    from evensplit.charts import draw",
        "for x in sorted(set(y)): pass",
        "sorted(x for x in set(y))",
        "{x + 1 for x in {1, 2}}",
        "len(set(y) - {1})",
        "2 in {1, 2}",
        "def f(y: set[int]) -> int:\n    return max(y)\ndef g(y: list[int]) -> list[int]:\n    return [x for x in y]",
    ],
)
def test_what_is_pure_is_let_be(source: str) -> None:
    assert impurities(source) == []


def lint_imports(directory: Path) -> subprocess.CompletedProcess[str]:
    """The import contract of this project, over the package in `directory`."""
    run = "from importlinter.cli import lint_imports_command; lint_imports_command()"
    command = [sys.executable, "-c", run, "--config", str(ROOT / "pyproject.toml"), "--no-cache", "--no-logo"]
    return subprocess.run(command, cwd=directory, capture_output=True, text=True, timeout=60, check=False)


def test_the_import_contract_holds() -> None:
    done = lint_imports(SRC)
    assert done.returncode == 0, done.stdout + done.stderr
    contracts = toml("pyproject.toml")["tool"]["importlinter"]["contracts"]
    assert [f"{contract['name']} KEPT" in done.stdout for contract in contracts] == [True] * len(contracts)


@pytest.mark.lengthy
@pytest.mark.parametrize(
    "room, planted, contract",
    [
        ("core/model.py", "import socket", "The core is pure BROKEN"),
        ("core/model.py", "import evensplit.kafka", "Imports point inward only BROKEN"),
        ("errors/base.py", "import evensplit.core.model", "Imports point inward only BROKEN"),
        ("charts.py", "import evensplit.core.model", "Imports point inward only BROKEN"),
        ("kafka/__init__.py", "import evensplit.spark", "Imports point inward only BROKEN"),
        ("core/assign/terms.py", "import evensplit.core.machine.effects", "Floors of the core BROKEN"),
        ("kafka/wire/api.py", "import evensplit.kafka.fetch.reader", "Floors of kafka BROKEN"),
        ("spark/options/parse.py", "import evensplit.spark.driver.agenda", "Floors of spark BROKEN"),
        ("cli/usage.py", "import evensplit.cli.assign.plan", "Floors of the command line BROKEN"),
        ("kafka/wire/api.py", "import kafka.errors", "Spark jobs do without kafka-python BROKEN"),
    ],
)
def test_the_import_contract_can_fail(tmp_path: Path, room: str, planted: str, contract: str) -> None:
    shutil.copytree(SRC / "evensplit", tmp_path / "evensplit", ignore=shutil.ignore_patterns("*.so", "__pycache__"))
    with (tmp_path / "evensplit" / room).open("a") as module:
        module.write(f"\n{planted}\n")
    done = lint_imports(tmp_path)
    assert done.returncode == 1, done.stdout + done.stderr
    assert contract in done.stdout


@pytest.mark.lengthy
def test_neither_driver_nor_task_loads_kafka_python() -> None:
    """Not through others either: it takes a tenth of a second of each of Spark's Python processes."""
    rooms = ("kafka.fetch.reader", "spark.task.partition", "spark.batch_reader", "spark.stream_reader", "spark.source")
    code = f"import sys, {', '.join(f'evensplit.{room}' for room in rooms)}; print('kafka' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.split() == ["False"]


def test_every_package_goes_into_the_wheel() -> None:
    packages = sorted(path.parent.name for path in SRC.glob("*/__init__.py"))
    assert packages == ["evensplit", "pyspark_evensplit"]
    assert sorted(toml("pyproject.toml")["tool"]["maturin"]["python-packages"]) == packages


def test_there_is_one_version() -> None:
    manifests = [toml(name_of(path)) for path in sorted((ROOT / "native").glob("*/Cargo.toml"))]
    assert [manifest["package"]["version"] for manifest in manifests] == [{"workspace": True}] * 2
    project = toml("pyproject.toml")
    assert project["project"]["dynamic"] == ["version"]
    built_from = toml(project["tool"]["maturin"]["manifest-path"])["package"]["name"]
    assert built_from == "evensplit-binding"
    version = toml("Cargo.toml")["workspace"]["package"]["version"]
    assert importlib.metadata.version("evensplit") == version
    locked = {crate["name"]: crate["version"] for crate in toml("Cargo.lock")["package"]}
    assert [locked[f"evensplit-{crate}"] for crate in ("binding", "kernel")] == [version] * 2
