"""The live page in a headless Chromium: it follows a run, names stay text, and the browser finds nothing to say."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from harmonics_emu.live.server import RunServer
from harmonics_emu.live.watch import RunWatch
from harmonics_emu.runs import run
from harmonics_emu.scenario import parse_scenario
from tests.system.test_report_in_browser import in_browser
from tests.unit.live.runs import GoingOn

HOSTILE = '</script><img src=x onerror=alert(1)>&"'


@contextmanager
def served(directory: Path) -> Iterator[str]:
    watch = RunWatch(directory)
    with RunServer(watch.look) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server.url
        server.shutdown()


def shown(url: str, profile: Path, *options: str) -> str:
    """The page after two seconds, with nothing in the browser's log."""
    document, log = in_browser(url, profile, "--virtual-time-budget=2000", *options)
    assert "CONSOLE" not in log, log
    return document


@pytest.mark.parametrize("width", [1280, 420])
def test_the_page_shows_a_run_as_it_goes_on(width: int, tmp_path: Path) -> None:
    fabric = "{kind: rack-spine, racks: 2, hosts_per_rack: 2, spines: 1, host_rate: 400Mbit, uplink_rate: 200Mbit}"
    jobs = f"  - {{name: {HOSTILE!r}, model: vgg16, placement: [r0h0, r1h0], iterations: 30}}\n"
    scenario = parse_scenario(f"name: {HOSTILE!r}\nfabric: {fabric}\njobs:\n{jobs}".encode(), "hostile.yaml")
    going = GoingOn(tmp_path / "run", scenario)
    over = threading.Event()

    def go_on() -> None:
        number = 0
        while not over.wait(0.05):
            going.iteration(HOSTILE, number, number * 0.05, number * 0.05 + 0.05)
            going.tell(number * 0.05, use=0.625, done=number)
            number += 1

    going.notice(HOSTILE)
    worker = threading.Thread(target=go_on, daemon=True)
    worker.start()
    time.sleep(0.3)
    with served(going.directory) as url:
        document = shown(url, tmp_path / "profile", f"--window-size={width},900")
    over.set()
    worker.join()
    assert re.search(r"<img|onerror=(?!alert\(1\)&gt;)", document) is None
    assert document.count("onerror=alert(1)&gt;") >= 4
    assert '<span id="state" class="badge running">running</span>' in document
    assert re.search(r'data-updates="[3-9]"', document), "it updates twice a second"
    assert 'aria-valuenow="63"' in document
    assert re.search(r'<polyline points="0\.00,', document)
    done = re.search(r'<td class="number">(\d+)/30</td>', document)
    assert done is not None
    assert int(done[1]) > 3


def test_the_page_of_a_finished_run_has_its_verdict(tmp_path: Path) -> None:
    run("four-tenants", policy="priority", out=tmp_path / "run")
    with served(tmp_path / "run") as url:
        document = shown(url, tmp_path / "profile")
    assert '<span id="state" class="badge faithful">finished: faithful</span>' in document
    for part in ("four-tenants under priority", "vgg16", "gpt2", "leaf0&gt;spine0", "Simulated"):
        assert part in document
