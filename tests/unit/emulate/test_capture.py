"""What is captured where, and what is known of captures afterwards."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from harmonics_emu.emulate.capture import plan_taps
from harmonics_emu.emulate.fidelity import judge
from harmonics_emu.emulate.run import MOST_CAPTURES, refuse_what_may_not_run
from harmonics_emu.errors import UsageError
from harmonics_emu.evidence.examine import examine
from harmonics_emu.results.captures import ACCOUNT, CaptureAccount, read_accounts, write_accounts
from harmonics_emu.results.schema import UnreadableResult
from harmonics_emu.scenario import load_scenario
from tests.unit.emulate.test_fidelity import CLEAN
from tests.unit.evidence.captures import pcap, segment
from topologies.addressing import port_name
from topologies.fabric import CableSpec, Host, Switch, assemble

LONG = "a leaf/with a name " + "x" * 200
LOST = CaptureAccount(link="leaf0-spine0", bytes=24, packets=1, drops=3, incomplete="3 packets were lost")


def test_each_cable_is_tapped_once_at_a_switch_in_the_main_namespace() -> None:
    fabric = load_scenario("two-tenants").fabric()
    cable = next(iter(fabric.cables))
    taps = plan_taps(fabric, ["spine0>leaf0", "leaf0-spine0", cable])
    assert [(tap.cable, tap.interface, tap.file) for tap in taps] == [
        ("r0h0-leaf0", port_name("leaf0", "r0h0"), "r0h0-leaf0.pcap"),
        ("leaf0-spine0", port_name("leaf0", "spine0"), "leaf0-spine0.pcap"),
    ]
    assert len(plan_taps(fabric, fabric.cables)) == len(fabric.cables)
    with pytest.raises(KeyError):
        plan_taps(fabric, ["nowhere"])


def test_names_that_no_file_can_have_become_files_of_their_own() -> None:
    hosts = [Host("a", 0), Host("b", 0)]
    fabric = assemble("custom", hosts, [Switch(LONG, "leaf")], [CableSpec(name, LONG, 10**8) for name in "ab"])
    files = [tap.file for tap in plan_taps(fabric, fabric.cables)]
    assert len(set(files)) == 2
    assert all("/" not in file and len(file) < 100 and file.endswith(".pcap") for file in files)


def test_links_to_capture_are_named_or_all_of_them() -> None:
    scenario = load_scenario("two-tenants")
    assert scenario.with_captures(["leaf0-spine0", "leaf0-spine0"]).capture == ("leaf0-spine0",)
    assert set(scenario.with_captures(["leaf0-spine0", "all"]).capture) == set(scenario.fabric().cables)
    with pytest.raises(UsageError, match=r"no link 'leaf0-spine9' to capture; .*leaf0-spine0"):
        scenario.with_captures(["leaf0-spine9"])


def test_more_captures_than_a_machine_can_take_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    scenario = load_scenario("two-tenants").with_captures(["leaf0-spine0"])
    refuse_what_may_not_run(scenario, "fair", False)
    monkeypatch.setenv("PATH", "")
    with pytest.raises(UsageError, match="captures need tcpdump"):
        refuse_what_may_not_run(scenario, "fair", False)
    many = replace(scenario, file=scenario.file.model_copy(update={"capture": ("leaf0-spine0",) * (MOST_CAPTURES + 1)}))
    with pytest.raises(UsageError, match=f"at most {MOST_CAPTURES}"):
        refuse_what_may_not_run(many, "fair", False)


def test_what_only_concerns_captures_does_not_change_the_verdict() -> None:
    fidelity = judge(replace(CLEAN, notes=["the capture of leaf0-spine0 is incomplete: 3 packets were lost"]))
    assert fidelity.verdict == "faithful"
    assert fidelity.reasons == ("the capture of leaf0-spine0 is incomplete: 3 packets were lost",)


def test_the_reader_takes_a_runs_word_on_link_and_losses(tmp_path: Path) -> None:
    for name in ("x0123.pcap", "other.pcap"):
        (tmp_path / name).write_bytes(pcap([(10**9, bytes(segment("10.1.0.1", "10.1.0.2", 1, 2, 1, 0, size=10)))]))
    write_accounts(tmp_path, {"x0123.pcap": LOST}, None)
    assert read_accounts(tmp_path) == {"x0123.pcap": LOST}
    told, untold = examine([str(tmp_path / "x0123.pcap"), str(tmp_path / "other.pcap")]).traffic.files
    assert (told.link, told.complete, told.reported_drops, told.incomplete) == (
        "leaf0-spine0",
        False,
        3,
        "3 packets were lost",
    )
    assert (untold.link, untold.complete, untold.reported_drops) == ("other", True, None)


def test_an_account_that_is_none_is_named(tmp_path: Path) -> None:
    assert read_accounts(tmp_path) == {}
    (tmp_path / ACCOUNT).write_text("[]")
    with pytest.raises(UnreadableResult, match=r"captures\.json does not tell of captures"):
        read_accounts(tmp_path)
