"""Policies as a command line names them, with options."""

from __future__ import annotations

import pytest

from harmonics_emu.errors import UsageError
from harmonics_emu.scenario.policy_choice import labelled, parse_policy


def test_options_are_read_as_in_a_file() -> None:
    choice = parse_policy(" harmonics:levels=4:epoch=2s:strict=true:share=0.5 ")
    assert choice.name == "harmonics"
    assert choice.options == {"epoch": "2s", "levels": 4, "share": 0.5, "strict": True}
    assert parse_policy(choice.text) == choice == parse_policy("harmonics:share=0.5:strict=true:epoch=2s:levels=4")
    assert parse_policy("fair").text == "fair"


def test_results_call_a_policy_by_its_name_unless_there_are_two_of_it() -> None:
    assert list(labelled(["fair", "cassini:epoch=2s", "fair"])) == ["fair", "cassini"]
    several = labelled(["fair", "cassini:epoch=2s", "cassini", "crux:levels=2"])
    assert list(several) == ["fair", "cassini:epoch=2s", "cassini", "crux"]
    assert several["crux"].options == {"levels": 2}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "names no policy; write crux, crux:levels=4"),
        (":epoch=2s", "names no policy"),
        ("crux:levels", "'levels' in policy 'crux:levels' is no option"),
        ("crux:=4", "'=4' in policy"),
        ("crux:levels=", "'levels=' in policy"),
        ("crux:name=fair", "'name=fair' in policy"),
        ("crux:levels=2:levels=3", "states levels twice"),
        ("crux:levels=.nan", "option levels of policy 'crux:levels=.nan' is no finite number"),
    ],
)
def test_what_is_no_policy(text: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        parse_policy(text)
