# shellcheck shell=bash disable=SC2034,SC2154 # common.sh sets root, venv and python
# Writing constraints.txt: a scratch environment takes the newest versions that setup.cfg admits, and they are noted.

write_lock() {
    local interpreter scratch every_extra torch newer
    interpreter=$(PYTHON=${PYTHON:-python3.11} find_python) || true
    [[ -n $interpreter && $(version_of "$interpreter") == 3.11 ]] ||
        die "the lock needs Python 3.11, the oldest supported (newer ones can use what it finds): PYTHON=python3.11"
    torch=${HARMONICS_TORCH:-$(grep '^torch==' "$root/constraints.txt")}
    scratch=$(as_owner mktemp -d)
    # shellcheck disable=SC2064 # the folder that is meant is today's
    trap "rm -rf '$scratch'" EXIT
    venv=$scratch python=$scratch/bin/python
    every_extra=$(as_owner "$interpreter" - "$root/setup.cfg" <<'PYTHON'
import configparser, sys

config = configparser.ConfigParser()
config.read(sys.argv[1])
print(",".join(config["options.extras_require"]))
PYTHON
    )
    quietly "making a scratch environment" as_owner "$interpreter" -m venv "$venv"
    pip_quietly "finding the newest versions of everything" --upgrade setuptools "$torch" --editable "${root}[$every_extra]"
    mapfile -t newer < <(needed_by_newer_pythons)
    ((${#newer[@]} == 0)) || pip_quietly "finding what only newer Pythons need: ${newer[*]}" "${newer[@]}"
    {
        echo "# The versions that every set-up installs, on Python 3.11 to 3.13. Written by scripts/bootstrap --lock."
        # A local label (+cpu) names a build, not a version: it would shut out all others.
        as_owner "$python" -m pip freeze --all --exclude-editable --exclude pip | sed 's/+[^+]*$//' |
            LC_ALL=C sort --ignore-case
    } >"$scratch/constraints.txt"
    as_owner cp "$scratch/constraints.txt" "$root/constraints.txt"
    say "wrote $root/constraints.txt: $(grep -c == "$root/constraints.txt") packages"
}

# Requirements of the installed packages that hold on 3.12 or 3.13 only and that nothing has brought in here.
needed_by_newer_pythons() {
    as_owner "$python" - <<'PYTHON'
import importlib.metadata
from pip._vendor.packaging.requirements import Requirement
from pip._vendor.packaging.utils import canonicalize_name

packages = list(importlib.metadata.distributions())
installed = {canonicalize_name(package.name) for package in packages}
for package in packages:
    for requirement in map(Requirement, package.requires or ()):
        if requirement.marker is None or canonicalize_name(requirement.name) in installed:
            continue
        for version in ("3.12", "3.13"):
            if requirement.marker.evaluate({"python_version": version, "python_full_version": version + ".0", "extra": ""}):
                print(f"{requirement.name}{requirement.specifier}")
                break
PYTHON
}
