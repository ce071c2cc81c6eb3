# shellcheck shell=bash disable=SC2034,SC2154 # common.sh sets root, venv and python
# The virtual environment: finding an interpreter, and installing pinned packages.

make_venv() {
    if [[ -x $python ]] && as_owner "$python" -c 'import pip' 2>/dev/null; then
        [[ -z ${PYTHON:-} || $(version_of "$PYTHON") == "$(version_of "$python")" ]] ||
            die "$venv has Python $(version_of "$python") and PYTHON=$PYTHON is another: delete $venv, then call again"
        return 0
    fi
    if [[ -e $venv && ! -f $venv/pyvenv.cfg && -n $(ls -A "$venv") ]]; then
        die "$venv exists and is no virtual environment: move it away, then call again"
    fi
    local interpreter options=(--clear)
    interpreter=$(find_python) || {
        is_root && [[ -z ${PYTHON:-} ]] && apt_install python3 python3-venv
        interpreter=$(find_python)
    } || die "found no Python 3.11, 3.12 or 3.13 with venv and ensurepip${PYTHON:+ at PYTHON=$PYTHON}:" \
        "install one (Debian and Ubuntu: apt-get install python3-venv) or name another with PYTHON=/path/to/python3.12"
    as_owner mkdir -p "$venv" 2>/dev/null || true
    as_owner test -w "$venv" -a -w "$root" ||
        die "user $(as_owner id -un) can't write $root and $venv: call from a clone that belongs to this user"
    # Its own torch, if the emulator can use it, saves a download and may be a build for this machine's GPU.
    [[ -z $(admitted_torch "$interpreter") ]] || options+=(--system-site-packages)
    quietly "making $venv with Python $(version_of "$interpreter")" \
        as_owner "$interpreter" -m venv "${options[@]}" "$venv"
}

find_python() {
    local candidates=(python3 python3.13 python3.12 python3.11) candidate
    [[ -z ${PYTHON:-} ]] || candidates=("$PYTHON")
    for candidate in "${candidates[@]}"; do
        as_owner "$candidate" - <<'PYTHON' 2>/dev/null && return
import ensurepip, sys, venv
if not (3, 11) <= sys.version_info[:2] <= (3, 13):
    sys.exit(1)
print(sys.executable)
PYTHON
    done
    return 1
}

version_of() { as_owner "$1" -c 'import sys; print("%d.%d" % sys.version_info[:2])'; }

# admitted_torch INTERPRETER: the version of its torch, if it has one within setup.cfg's range.
admitted_torch() {
    as_owner "$1" -I - "$root/setup.cfg" <<'PYTHON'
import importlib.metadata, re, sys

def numbers(version):
    return tuple(map(int, re.match(r"\d+(\.\d+)*", version)[0].split(".")))

with open(sys.argv[1]) as config:
    oldest, limit = re.search(r"torch>=([\d.]+),<([\d.]+)", config.read()).groups()
try:
    installed = importlib.metadata.version("torch")
except importlib.metadata.PackageNotFoundError:
    sys.exit()
if numbers(oldest) <= numbers(installed) < numbers(limit):
    print(installed)
PYTHON
}

# pip_install EXTRAS: the project, editable, with these extras and the pinned versions.
pip_install() {
    local project=$root torch=() pins=$root/constraints.txt checks='import harmonics_emu' wanted
    [[ -z $1 ]] || project+="[${1// /,}]"
    if [[ " $1 " == *" emulate "* ]]; then
        checks+=', mininet.net, os_ken, scapy, torch'
        wanted=${HARMONICS_TORCH:-}
        [[ -n $wanted ]] || wanted=$(admitted_torch "$python")
        if [[ -n $wanted ]]; then
            [[ -n ${HARMONICS_TORCH:-} ]] || wanted=torch==$wanted
            torch=("$wanted")
            # Some releases of torch want one exact sympy, so both pins go.
            pins=$venv/harmonics-emu-pins.txt
            grep -vE '^(torch|sympy)==' "$root/constraints.txt" | as_owner tee "$pins" >/dev/null
        fi
    fi
    # setuptools comes first, at its pinned version, to build what comes as source; so no build fetches a newer one.
    pip_quietly "preparing $venv" -c "$pins" setuptools
    pip_quietly "installing the Python packages${1:+ for $1} (the first time takes minutes)" \
        -c "$pins" --no-build-isolation "${torch[@]}" --editable "$project"
    quietly "checking that the packages load" as_owner "$python" -c "$checks"
}

pip_quietly() {
    local what=$1
    shift
    quietly "$what" as_owner env PYTHONNOUSERSITE=1 PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_INPUT=1 \
        "$python" -m pip install "$@" ||
        die "pip could not install the Python packages; .venv is incomplete, and a further call goes on from here"
}
