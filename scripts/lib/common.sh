# shellcheck shell=bash disable=SC2034 # what is set here is used by the scripts
# Shared by the scripts: where things are, whom new files belong to, and how a step is reported.

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd -P)
venv=${HARMONICS_VENV:-$root/.venv}
python=$venv/bin/python
PATH=$PATH:/usr/sbin:/sbin # Debian keeps ovs-vswitchd and tc there; a plain user's PATH lacks it
script=${0##*/}
started=$(date +%s)

say() { printf '%s: %s\n' "$script" "$*" >&2; }

die() {
    say "error: $*"
    exit 1
}

# quietly WHAT COMMAND...: one line for the step; the command's output is shown and kept only if it fails.
quietly() {
    local what=$1 log output
    shift
    say "$what"
    log=$(mktemp)
    exec {output}<>"$log"
    rm "$log" # so that an interrupted step leaves no file
    if "$@" >&"$output" 2>&1 </dev/null; then
        exec {output}>&-
        return 0
    fi
    cat "/proc/self/fd/$output" >"$log"
    exec {output}>&-
    [[ -z $owner_uid ]] || chown "$owner_uid:$owner_gid" "$log"
    tail -n 40 "$log" >&2
    say "error: failed while $what; the whole log is in $log"
    return 1
}

is_root() { [[ $EUID -eq 0 ]]; }

# The user who called sudo: only apt and the emulator run as root, all else as this user. Empty without sudo.
owner_uid=
owner_gid=
owner_command=()
if is_root && [[ ${SUDO_UID:-0} != 0 ]]; then
    owner_uid=$SUDO_UID
    owner_gid=${SUDO_GID:-$SUDO_UID}
    if owner_entry=$(getent passwd "$owner_uid"); then
        owner_groups=--init-groups
        owner_home=$(cut -d: -f6 <<<"$owner_entry")
    else
        owner_groups=--clear-groups
        owner_home=/nonexistent
    fi
    owner_command=(setpriv --reuid="$owner_uid" --regid="$owner_gid" "$owner_groups" env HOME="$owner_home")
fi

as_owner() { "${owner_command[@]}" "$@"; }

# What root made for a sudo user (results, caches, compiled modules) since the script began becomes that user's.
give_back() {
    [[ -n $owner_uid ]] || return 0
    local place
    for place in "$root" "$venv"; do
        [[ -d $place ]] || continue
        find "$place" -xdev -uid 0 -newerct "@$started" -exec chown -h "$owner_uid:$owner_gid" {} +
    done
}
