"""What keeps a clone installable and its parts apart: pins, scripts, no machine's traces, the direction of imports."""

from __future__ import annotations

import ast
import configparser
import importlib.metadata
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

import harmonics_emu
from harmonics_emu.emulate.doctor import PROGRAMS

ROOT = Path(__file__).resolve().parents[2]
LAYERS = ("topologies", "workloads", "harmonics_emu", "controller")
"""A package may import those before it, never those after it."""

SCRIPTS = [*sorted(path for path in (ROOT / "scripts").iterdir() if path.is_file()), ROOT / ".ci/run"]
NOT_OURS = {"__pycache__", "build", "dist", "runs"}

config = configparser.ConfigParser()
config.read(ROOT / "setup.cfg")


def modules(*packages: str) -> Iterator[Path]:
    for package in packages:
        yield from sorted((ROOT / package).rglob("*.py"))


def imports(module: Path) -> set[str]:
    """Full names of the modules that a module imports, at any depth of its code."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(module.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            found.add(node.module)
            found.update(f"{node.module}.{alias.name}" for alias in node.names)
    return found


def strings(module: Path) -> Iterator[str]:
    """String constants that are no docstrings; those of one list (a command, say) also joined by spaces."""
    tree = ast.parse(module.read_text(encoding="utf-8"))
    docstrings = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docstrings:
            yield node.value
        elif isinstance(node, ast.List | ast.Tuple):
            yield " ".join(str(item.value) for item in node.elts if isinstance(item, ast.Constant))


def top_level(names: set[str]) -> set[str]:
    return {name.partition(".")[0] for name in names}


def relative(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def own_files() -> Iterator[Path]:
    """Text files of the project: no hidden folders but .ci, nothing generated."""
    for folder, folders, names in os.walk(ROOT):
        folders[:] = sorted(
            name
            for name in folders
            if name not in NOT_OURS and not name.endswith(".egg-info") and (not name.startswith(".") or name == ".ci")
        )
        for name in sorted(names):
            path = Path(folder) / name
            if b"\0" not in path.read_bytes()[:4096]:
                yield path


def direct_requirements() -> list[Requirement]:
    lists = [config["options"]["install_requires"], *config["options.extras_require"].values()]
    return [Requirement(line) for text in lists for line in text.splitlines() if line.strip()]


def pins() -> dict[str, Version]:
    """constraints.txt: canonical name to version."""
    found: dict[str, Version] = {}
    for line in (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines():
        if not line.startswith("#"):
            name, version = line.split("==")
            found[canonicalize_name(name)] = Version(version)
    return found


@pytest.mark.parametrize("requirement", direct_requirements(), ids=str)
def test_each_direct_dependency_is_pinned_within_its_range(requirement: Requirement) -> None:
    assert requirement.specifier.contains(pins()[canonicalize_name(requirement.name)])


@pytest.mark.parametrize("python", ["3.11", "3.12", "3.13"])
def test_what_pinned_packages_need_is_pinned_within_its_range(python: str) -> None:
    """Looks at those that are installed here, for each supported Python."""
    environment = {"python_version": python, "python_full_version": f"{python}.0", "extra": ""}
    known = pins()
    looked_at = 0
    for name, version in known.items():
        try:
            package = importlib.metadata.distribution(name)
        except importlib.metadata.PackageNotFoundError:
            continue  # an extra that is not installed
        if Version(package.version).public != version.public:
            continue  # a torch of the user's own
        looked_at += 1
        for requirement in map(Requirement, package.requires or ()):
            if requirement.marker is None or requirement.marker.evaluate(environment):
                assert requirement.specifier.contains(known[canonicalize_name(requirement.name)]), (
                    f"{name}: {requirement}"
                )
    assert looked_at >= len(config["options"]["install_requires"].split())


def test_pins_admit_every_build_of_a_version() -> None:
    assert [name for name, version in pins().items() if version.local] == []


def test_supported_pythons_are_those_that_the_scripts_look_for() -> None:
    classifiers = re.findall(r"Python :: (3\.\d+)", config["metadata"]["classifiers"])
    script = (ROOT / "scripts/lib/python.sh").read_text(encoding="utf-8")
    low, high = re.search(r"\((3), (\d+)\) <= sys\.version_info\[:2\] <= \(3, (\d+)\)", script).group(2, 3)  # type: ignore[union-attr]
    assert classifiers == [f"3.{minor}" for minor in range(int(low), int(high) + 1)]
    assert config["options"]["python_requires"] == f">=3.{low},<3.{int(high) + 1}"


def test_the_installed_version_is_the_trees() -> None:
    assert importlib.metadata.version("harmonics-emu") == harmonics_emu.__version__


@pytest.mark.parametrize("script", SCRIPTS, ids=relative)
def test_scripts_can_be_called_and_stop_at_the_first_failure(script: Path) -> None:
    assert os.access(script, os.X_OK)
    lines = script.read_text(encoding="utf-8").splitlines()
    assert lines[0] == "#!/usr/bin/env bash"
    assert "set -euo pipefail" in lines


@pytest.mark.parametrize(
    ("what", "pattern"),
    [
        ("a package registry's host", r"(pypi|pythonhosted|download\.pytorch|npmjs)\.org|deb\.debian|archive\.ubuntu"),
        ("a folder of one machine", r"(?<![\w.$}~-])/(work|root|home/(?!user/)\w+|opt/\w+|tmp/\w+)/"),
    ],
)
def test_no_file_names_one_machine(what: str, pattern: str) -> None:
    found = [
        f"{relative(path)}:{number}: {line.strip()[:100]}"
        for path in own_files()
        if path != Path(__file__).resolve()
        for number, line in enumerate(path.read_text(encoding="utf-8", errors="replace").splitlines(), 1)
        if re.search(pattern, line)
    ]
    assert not found, f"{what}: {found}"


@pytest.mark.parametrize("package", LAYERS)
def test_imports_go_one_way(package: str) -> None:
    forbidden = {*LAYERS[LAYERS.index(package) + 1 :], "tests"}
    wrong = {relative(module): top_level(imports(module)) & forbidden for module in modules(package)}
    assert not {module: names for module, names in wrong.items() if names}


def test_one_module_starts_processes() -> None:
    starts = re.compile(
        r"(subprocess\.(run|Popen|call|check_call|check_output)|os\.(system|popen|spawn\w+|posix_spawnp?))"
    )
    users = {
        relative(module)
        for module in modules(*LAYERS)
        for node in ast.walk(ast.parse(module.read_text(encoding="utf-8")))
        if (isinstance(node, ast.Call) and starts.fullmatch(ast.unparse(node.func)))
        or (isinstance(node, ast.ImportFrom) and node.module == "subprocess")
    }
    assert users == {"harmonics_emu/shell.py"}


@pytest.mark.parametrize(
    ("pattern", "home"),
    [
        # The doctor asks whether os-ken is installed, no more.
        (r"\bos_ken\b|\bryu\.", {"controller/adapter.py", "harmonics_emu/emulate/doctor.py"}),
        (
            r"\btc (-|qdisc|class|filter)|^(qdisc|class|filter) (add|replace|change|del) ",
            {"harmonics_emu/emulate/tc.py"},
        ),
    ],
    ids=["os-ken and Ryu", "tc"],
)
def test_a_tool_is_known_in_one_module(pattern: str, home: set[str]) -> None:
    users = {
        relative(module)
        for module in modules(*LAYERS)
        if any(re.search(pattern, text) for text in (*imports(module), *strings(module)))
    }
    assert users == home


def test_the_doctor_and_the_set_up_name_the_same_packages() -> None:
    table = (ROOT / "scripts/lib/apt.sh").read_text(encoding="utf-8")
    installed = dict(re.findall(r"([\w-]+):([\w-]+)", table.partition("programs=(")[2].partition(")")[0]))
    assert PROGRAMS.items() <= installed.items()


def test_each_imported_library_is_a_declared_dependency() -> None:
    declared = {canonicalize_name(requirement.name) for requirement in direct_requirements()}
    # pydantic pins it to one version and documents it as the home of its error types.
    declared.add(canonicalize_name("pydantic_core"))
    brought_by = importlib.metadata.packages_distributions()
    undeclared = {
        f"{relative(module)}: {name}"
        for module in modules(*LAYERS, "tests")
        for name in top_level(imports(module)) - sys.stdlib_module_names - {*LAYERS, "tests"}
        if not declared & {canonicalize_name(distribution) for distribution in (*brought_by.get(name, ()), name)}
    }
    assert undeclared == set()


def test_the_core_loads_without_its_extras() -> None:
    """Every module of harmonics_emu but the emulator's, in an interpreter that can't import any extra's library."""
    program = """
import importlib, pkgutil, sys
for name in ("mininet", "os_ken", "scapy", "torch", "resvg_py", "ortools", "pyarrow"):
    sys.modules[name] = None
import harmonics_emu
count = 0
for module in pkgutil.walk_packages(harmonics_emu.__path__, "harmonics_emu."):
    if not module.name.startswith("harmonics_emu.emulate") and not module.name.endswith("__main__"):
        importlib.import_module(module.name)
        count += 1
print(count)
"""
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) > 10


def test_the_demo_tells_its_usage_and_takes_no_arguments() -> None:
    def demo(argument: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run([ROOT / "scripts" / "demo", argument], capture_output=True, text=True, timeout=30)

    helped, refused = demo("--help"), demo("two-tenants")
    assert (helped.returncode, helped.stderr) == (0, "")
    assert helped.stdout.startswith("Usage: sudo scripts/demo\n")
    assert (refused.returncode, refused.stdout, refused.stderr) == (2, "", helped.stdout)
