"""A decision in plain words: everything on record is said, within 80 columns."""

from __future__ import annotations

from dataclasses import replace

from harmonics_emu.records import Decision
from harmonics_emu.results.decisions import in_words, overall

KNOWN = {"compute_s": 0.0758, "communication_s": 0.107, "iterations_done": 23, "iterations": 60, "bytes": 7_280_000.0}
PLAN = {"level": 2, "rate_bps": 20_000_000, "starts_s": [4.137, 4.289, 4.441], "paths": [{"src": "a", "dst": "b"}]}
DECISION = Decision(
    time_s=4.0,
    policy="mine",
    solve_s=0.0013,
    critical_path_s=0.0013,
    plan={"policy": "mine", "jobs": {"tenant-a": PLAN}, "facts": {"score": 0.934567, "circles": [1, 2]}},
    in_force_s=4.021,
    why="epoch",
    known={
        "jobs": {
            "tenant-a": {**KNOWN, "next_start_s": 4.012},
            "a-tenant-with-quite-a-long-name-" * 3: {**KNOWN, "next_start_s": 3.9, "communication_s": None},
        },
        "links_down": ["leaf0>spine1"],
    },
    predicted={"tenant-a": 0.152},
    measured={"tenant-a": 0.16},
)


def flat(decision: Decision, before: Decision | None = None) -> str:
    text = in_words(decision, 3, before)
    assert max(map(len, text.splitlines())) <= 96, "only a name that is longer than a line may stand out"
    return " ".join(text.split())


def test_all_that_is_on_record_is_said() -> None:
    text = flat(DECISION)
    for said in (
        "Decision 3, of policy mine, 4.00 s after time zero, since an epoch was over.",
        "tenant-a: 75.8 ms of compute and 107 ms of communication an iteration, 7.28 MB on the wire;",
        "23 iterations done; sending; its next iteration can begin in 12 ms",
        "75.8 ms of compute an iteration (none measured yet)",
        "computing since 100 ms",
        "down: leaf0>spine1",
        "Decided, in 1.3 ms, in force 21 ms after",
        "level 2; its next collective no sooner than 4.137 s, and one each 152 ms from there (3 gates);",
        "at most 20Mbit from each host; its own paths for 1 host pairs",
        "nothing; it shares as everybody does",
        "The policy adds: score 0.9346.",
        "tenant-a: 0.1520 predicted, 0.1600 measured (+5.3%)",
    ):
        assert said in text


def test_start_times_that_hold_nobody_are_not_told() -> None:
    def told(*starts_s: float) -> str:
        jobs = {"tenant-a": {**PLAN, "starts_s": list(starts_s)}}
        return flat(replace(DECISION, plan={**DECISION.plan, "jobs": jobs}))

    assert "level 2; 2 of its next 4 collectives held, one until 4.300 s and the last until 4.900 s" in told(
        0.0, 4.3, 0.0, 4.9
    )
    assert "1 of its next 2 collectives held, until 4.300 s" in told(0.0, 4.3)
    assert "level 2; at most 20Mbit" in told(0.0, 4.0)


def test_what_changed_is_told() -> None:
    jobs = {"tenant-a": {**PLAN, "level": 5, "paths": []}}
    before = replace(DECISION, plan={**DECISION.plan, "jobs": jobs})
    assert "Changed by it: tenant-a from level 5 to 2, paths of tenant-a." in flat(DECISION, before)
    assert "No level, path or rate was changed" in flat(DECISION, DECISION)


def test_a_decision_of_an_older_run_has_less_to_say() -> None:
    text = flat(Decision(0.0, "fair", 0.001, 0.001, {"policy": "fair", "jobs": {}, "facts": {}}))
    assert "nothing is on record" in text
    assert "predicted" not in text


def test_what_fair_sharing_was_expected_to_give_is_told_where_it_is_known() -> None:
    assert "(+5.3%); 0.2100 predicted of fair sharing" in flat(replace(DECISION, predicted_fair={"tenant-a": 0.21}))


def test_plans_count_by_how_long_they_were_in_force() -> None:
    longer = replace(DECISION, in_force_s=5.021, predicted={"tenant-a": 0.2}, measured={"tenant-a": 0.2})
    last = replace(DECISION, in_force_s=8.021, predicted={}, measured={})
    text = overall([DECISION, longer, last])
    # A second at 0.152 and 0.160, three at 0.2.
    assert "tenant-a: 0.1880 predicted, 0.1900 measured (+1.1%)" in text
    assert "No plan" in overall([last])
