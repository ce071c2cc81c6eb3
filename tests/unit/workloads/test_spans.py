"""Span files: what is written is what is read, and a torn last row costs only itself."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from harmonics_emu import records
from workloads.spans import ITERATION, SpanReader, SpanWriter, read_spans


def test_rows_come_back_while_the_writer_is_still_open(tmp_path: Path) -> None:
    path = tmp_path / "spans" / "job.rank3.spans"
    writer = SpanWriter(path, rank=3)
    assert len(read_spans(path)) == 0
    writer.add(0, 0.0, 0.075, 0.0, 0.141)
    writer.add(1, 0.141, 0.076, 0.002, 0.3)
    rows = read_spans(path)
    expected = np.array([(3, 0, 0.0, 0.075, 0.0, 0.141), (3, 1, 0.141, 0.076, 0.002, 0.3)], ITERATION)
    assert rows.dtype == records.ITERATION
    np.testing.assert_array_equal(rows, expected)
    writer.close()


def test_a_torn_last_row_is_left_out(tmp_path: Path) -> None:
    path = tmp_path / "spans"
    writer = SpanWriter(path, rank=0)
    for iteration in range(3):
        writer.add(iteration, iteration, 0.5, 0.0, iteration + 1)
    writer.close()
    path.write_bytes(path.read_bytes()[:-1])
    assert read_spans(path)["iteration"].tolist() == [0, 1]


def test_a_rank_that_died_at_once_left_no_rows(tmp_path: Path) -> None:
    path = tmp_path / "spans"
    path.touch()
    assert len(read_spans(path)) == 0


def test_another_kind_of_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "spans"
    path.write_text("rank,iteration,start_s\n")
    with pytest.raises(ValueError, match="not a span file"):
        read_spans(path)


def test_a_reader_gets_each_row_once_and_waits_for_a_file_to_come(tmp_path: Path) -> None:
    path = tmp_path / "spans"
    reader = SpanReader(path)
    assert len(reader.new_rows()) == 0
    writer = SpanWriter(path, rank=1)
    assert len(reader.new_rows()) == 0
    for iteration in range(2):
        writer.add(iteration, 0.0, 0.1, 0.0, 0.2)
    assert reader.new_rows()["iteration"].tolist() == [0, 1]
    assert len(reader.new_rows()) == 0
    with path.open("ab") as torn:
        torn.write(b"half a row")
    assert len(reader.new_rows()) == 0
    reader.close()


def test_a_reader_follows_no_link_and_takes_no_other_file(tmp_path: Path) -> None:
    (tmp_path / "secret").write_bytes(b"x" * 100)
    (tmp_path / "link").symlink_to(tmp_path / "secret")
    for name in ("secret", "link"):
        assert len(SpanReader(tmp_path / name).new_rows()) == 0
