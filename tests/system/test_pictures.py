"""Figures as PNG, which takes a font of the system's: a Chromium brings one."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest
from click.testing import CliRunner

from harmonics_emu.cli.main import main
from harmonics_emu.report import pictures
from harmonics_emu.report.pictures import WIDTH, png_of, why_no_png
from harmonics_emu.runs import run

PICTURE = '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 200 40"><style>{}</style>{}</svg>'
WRITTEN = PICTURE.format("text{font:11px sans-serif}", '<text x="10" y="20">leaf0&gt;spine0</text>')


def test_each_figure_is_a_png_too(tmp_path: Path) -> None:
    run("two-tenants", out=tmp_path / "run")
    told = CliRunner().invoke(main, ["report", str(tmp_path / "run"), "--figures", str(tmp_path / "figures")])
    assert "as SVG and PNG" in told.output
    found = {kind: sorted(path.stem for path in (tmp_path / "figures").glob(f"*.{kind}")) for kind in ("png", "svg")}
    assert found["png"] == found["svg"]
    for path in (tmp_path / "figures").glob("*.png"):
        content = path.read_bytes()
        assert struct.unpack(">I", content[16:20]) == (WIDTH,)
        assert len(content) > 5_000


def test_pictures_have_their_text() -> None:
    assert png_of(WRITTEN)[:8] == b"\x89PNG\r\n\x1a\n"
    assert len(png_of(WRITTEN)) > len(png_of(PICTURE.format("", ""))) + 1000


def test_a_machine_without_fonts_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pictures, "FAMILIES", ("No Such Font",))
    pictures._family.cache_clear()
    assert why_no_png() == "for PNG install a font, one of No Such Font"
    pictures._family.cache_clear()
