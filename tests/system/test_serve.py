"""The page's figures follow a real run from its first iterations to its verdict."""

from __future__ import annotations

import json
import signal
import time
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.system.runs import SMALL, start, wait_for_iterations

pytestmark = [pytest.mark.ovs, pytest.mark.torch]


def wait_for(url: str, told: Callable[[Any], bool], timeout_s: float = 20) -> Any:
    """The run's state once it is as `told` wants it."""
    deadline = time.monotonic() + timeout_s
    while True:
        with urllib.request.urlopen(f"{url}state.json", timeout=5) as answer:
            state = json.load(answer)
        if told(state):
            return state
        assert time.monotonic() < deadline, state
        time.sleep(0.2)


@pytest.mark.sandboxed(deadline_s=120)
def test_a_run_is_served_while_it_goes_on_and_after(tmp_path: Path) -> None:
    scenario = tmp_path / "endless.yaml"
    text = SMALL.format(name="endless", iterations=100000).replace("workers: 2", "workers: 2, placement: spread")
    scenario.write_text(text)
    out = tmp_path / "run"
    process = start("run", str(scenario), "--policy", "priority", "--live", "--out", str(out))
    wait_for_iterations(out, process)
    serving = start("serve", str(out))
    assert serving.stdout is not None
    url = serving.stdout.readline().removeprefix("Page: ").strip()
    state = wait_for(url, lambda run: min(job["counted"] for job in run["jobs"]) >= 10)
    assert (state["state"], state["verdict"]) == ("running", None)
    assert [job["level"] for job in state["jobs"]] == [1, 2]
    assert any(link["name"] == "leaf0>spine0" and link["use"] > 0.05 for link in state["links"])
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=30)
    assert "running" in said, "plain lines where there is no terminal"
    state = wait_for(url, lambda run: run["verdict"] is not None)
    assert (state["state"], {job["state"] for job in state["jobs"]}) == ("failed", {"killed"})
    serving.send_signal(signal.SIGINT)
    serving.communicate(timeout=10)
    assert serving.returncode == 0
