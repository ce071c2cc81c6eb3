# shellcheck shell=bash disable=SC2034,SC2154 # common.sh sets root, venv and python
# System packages, by apt: what the emulator runs besides Python.

# What must be on PATH for the emulator, and the Debian or Ubuntu package that brings it.
programs=(
    ovs-vswitchd:openvswitch-switch ovsdb-server:openvswitch-switch mnexec:mininet
    ip:iproute2 tc:iproute2 ethtool:ethtool iptables:iptables tcpdump:tcpdump ping:iputils-ping iperf3:iperf3
)
# What only the tests run: other programs' word on captures, and a browser for the reports.
test_programs=(tshark:tshark chromium:chromium)
lists_are_new=

# system_packages PROGRAM:PACKAGE...: install the packages whose program is missing.
system_packages() {
    local entry missing=()
    for entry in "$@"; do
        command -v "${entry%%:*}" >/dev/null || missing+=("${entry#*:}")
    done
    ((${#missing[@]})) || return 0
    mapfile -t missing < <(printf '%s\n' "${missing[@]}" | sort -u)
    if ! is_root; then
        say "not root, so these system packages, which the emulator or its tests need, stay missing: ${missing[*]}"
        return 0
    fi
    apt_install "${missing[@]}"
}

apt_install() {
    command -v apt-get >/dev/null ||
        die "this system has no apt-get: install what your distribution calls these, then call again: $*"
    if [[ -z $lists_are_new ]]; then
        # A list that fails to load (some third party's, perhaps) matters only if the installation then fails.
        quietly "loading apt's package lists" apt_get update || say "going on with the package lists at hand"
        lists_are_new=yes
    fi
    quietly "installing $*" apt_get install --yes --no-install-recommends "$@" ||
        die "apt could not install the system packages; install them by hand, then call again: $*"
}

apt_get() {
    # needrestart, where it is installed, would restart services that have nothing to do with this.
    DEBIAN_FRONTEND=noninteractive NEEDRESTART_SUSPEND=1 apt-get -o DPkg::Lock::Timeout=300 "$@"
}
