"""Whom the launcher blames when a job fails, and what a rank finds in its environment."""

from __future__ import annotations

import os
import pwd

from workloads.launch_messages import Command, LaunchJob, RankExited, RankPlace, User
from workloads.rank import rank_environment
from workloads.running_job import ERROR_LENGTH, describe, first_failure

LOST = RankExited("j", 0, 1, None, ("RuntimeError: [gloo/pair.cc:1] Connection closed by peer [10.1.0.2]:3",))
BROKEN = RankExited("j", 1, 3, None, ("loading", "ValueError: no dataset", ""))
KILLED = RankExited("j", 2, None, "SIGKILL", ("connection closed by peer",))


def test_a_rank_that_lost_its_peer_is_not_blamed_for_it() -> None:
    assert first_failure([LOST, BROKEN]) is BROKEN
    assert first_failure([LOST, KILLED]) is KILLED
    assert first_failure([BROKEN, KILLED]) is BROKEN
    assert first_failure([LOST, LOST]) is LOST


def test_the_error_is_one_line_with_the_last_words() -> None:
    assert describe(BROKEN) == "rank 1 ended with status 3: ValueError: no dataset"
    assert describe(RankExited("j", 2, None, "SIGSEGV", ())) == "rank 2 was killed by SIGSEGV"
    assert len(describe(RankExited("j", 2, 1, None, ("x" * 10_000,)))) == ERROR_LENGTH


def test_a_ranks_home_is_its_users() -> None:
    """Under sudo the caller's environment is root's; a number that no account has keeps what it is given."""
    mine, place = pwd.getpwuid(os.getuid()), RankPlace(0, 0)
    for uid, home in ((mine.pw_uid, mine.pw_dir), (3_999_999_999, "/home/caller")):
        job = LaunchJob(
            "j", 0, Command(("true",), "/"), (place,), "/run", 5,
            user=User(uid, uid), environment={"HOME": "/home/caller"},
        )  # fmt: skip
        assert rank_environment(job, place)["HOME"] == home


def test_a_ranks_environment_is_the_jobs_and_what_torch_looks_for() -> None:
    places = (RankPlace(0, 0, "/a"), RankPlace(1, 0, "/b"), RankPlace(2, 1, "/b"))
    job = LaunchJob(
        "j", 0, Command(("true",), "/"), places, "/run", 5, nic_label="eth0j4", master_address="10.5.0.1",
        environment={"HOME": "/home/x", "RANK": "of the caller"},
    )  # fmt: skip
    environment = rank_environment(job, places[2])
    assert environment["HOME"] == "/home/x"
    assert environment["GLOO_SOCKET_IFNAME"] == "eth0j4"
    assert (environment["MASTER_ADDR"], environment["MASTER_PORT"]) == ("10.5.0.1", "29500")
    names = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "OMP_NUM_THREADS")
    assert [environment[name] for name in names] == ["2", "3", "1", "2", "1"]
