"""The report in a headless Chromium: no errors, its parts are drawn, and the keyboard moves the timeline."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from harmonics_emu.evidence.recorded_run import load_recorded_run
from harmonics_emu.report.run_report import run_report
from harmonics_emu.runs import run
from harmonics_emu.shell import run_checked

PROBE = """<script>
const told = [], figure = document.querySelector(".timeline"), lane = figure.querySelector("svg");
const width = () => Number(lane.getAttribute("viewBox").split(" ")[2]);
const press = (key) => figure.dispatchEvent(new KeyboardEvent("keydown", {key, bubbles: true, cancelable: true}));
const first = width();
press("+");
told.push("zoomed " + (Math.abs(width() * 2 - first) < 1e-6));
const before = lane.getAttribute("viewBox");
press("ArrowRight");
told.push("moved " + (lane.getAttribute("viewBox") !== before));
press("0");
told.push("whole " + (width() === Number(figure.dataset.end)));
figure.querySelector("button[data-move=in]").click();
told.push("button " + (width() * 2 === Number(figure.dataset.end)));
told.push("ticks " + figure.querySelectorAll(".axis span").length);
told.push("drawn " + [...document.querySelectorAll("svg")].every((svg) => svg.getBoundingClientRect().height > 10));
told.push("focus " + document.querySelectorAll("a[href], button, summary, [tabindex='0']").length);
told.push("fits " + (document.documentElement.scrollWidth <= innerWidth));
told.push("dark " + (getComputedStyle(document.body).backgroundColor === "rgb(22, 24, 28)"));
document.body.dataset.told = told.join(", ");
</script>"""


def in_browser(address: str, profile: Path, *options: str) -> tuple[str, str]:
    """The document after its scripts have run, and what the browser logged."""
    return run_checked(
        [
            "chromium",
            "--headless=new",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-dev-shm-usage",
            "--enable-logging=stderr",
            f"--user-data-dir={profile}",
            *options,
            "--dump-dom",
            address,
        ],
        timeout_s=60,
    )


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("width", [1280, 520])
def test_the_report_works_in_a_browser(dark: bool, width: int, tmp_path: Path) -> None:
    run("two-tenants", policy="fair", out=tmp_path / "run")
    page = tmp_path / "probed.html"
    page.write_text(run_report(load_recorded_run(tmp_path / "run")).replace("</body>", PROBE + "</body>"))
    shades = ["--blink-settings=preferredColorScheme=0"] if dark else []
    document, log = in_browser(page.as_uri(), tmp_path / "profile", f"--window-size={width},900", *shades)
    told = re.search(r'data-told="([^"]*)"', document)
    assert told is not None, log
    assert told[1].startswith("zoomed true, moved true, whole true, button true, ticks 6, drawn true, focus ")
    assert told[1].endswith(f"fits true, dark {str(dark).lower()}")
    assert "CONSOLE" not in log, log
