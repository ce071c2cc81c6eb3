"""The life of one rank, in the process that the launcher forked for it."""

from __future__ import annotations

import os
import pwd
import signal
import sys
import traceback
from contextlib import suppress
from pathlib import Path
from typing import NoReturn

from workloads.devices import DeviceError, fabric_variables, machine_gpus, visible_to
from workloads.job_page import JobPage, State
from workloads.launch_messages import AllReduce, BackgroundFlow, Command, LaunchJob, RankPlace, Training, User
from workloads.namespaces import become, die_with_parent, enter_network_namespace
from workloads.output_files import log_path, rendezvous_path
from workloads.own_scripts.watching import watched
from workloads.timer import Timeout, Timer

NOT_FOUND = 127
NOT_EXECUTABLE = 126


def rank_environment(job: LaunchJob, place: RankPlace) -> dict[str, str]:
    """The whole environment of one rank: the job's, and what torch.distributed's env:// and gloo look for."""
    beside = [other.gpu for other in job.ranks if other.netns_path == place.netns_path]
    environment = {
        "PATH": os.defpath,
        "HOME": "/",
        **job.environment,
        **_identity(job.user),
        "RANK": str(place.rank),
        "WORLD_SIZE": str(len(job.ranks)),
        "LOCAL_RANK": str(place.local_rank),
        "LOCAL_WORLD_SIZE": str(len(beside)),
        "MASTER_ADDR": job.master_address,
        "MASTER_PORT": str(job.master_port),
        "OMP_NUM_THREADS": "1",
    }
    if job.nic_label is not None:
        environment |= fabric_variables(job.nic_label)
    if isinstance(job.program, Command):
        environment |= visible_to(beside, machine_gpus(environment), job.device)
    return environment


def _identity(user: User | None) -> dict[str, str]:
    """The user's name and home, which are not the caller's: that is root, by sudo. Nothing for a bare number."""
    if user is None:
        return {}
    try:
        known = pwd.getpwuid(user.uid)
    except KeyError:
        return {}
    return {"HOME": known.pw_dir, "USER": known.pw_name, "LOGNAME": known.pw_name}


def live(job: LaunchJob, place: RankPlace, launcher: int, errors: int) -> NoReturn:
    """Become the rank, run its program, and end the process with its status.

    launcher: process id of the parent. errors: a pipe's end that takes what goes wrong before there is a log.
    """
    status = 1
    try:
        os.setpgid(0, 0)
        _redirect(errors)
        environment = rank_environment(job, place)
        _settle(job, place, launcher)
        os.environ.clear()
        os.environ.update(environment)
        _run(job, place)
        status = 0
    except SystemExit as request:
        status = request.code if isinstance(request.code, int) else 1
    except (Timeout, DeviceError, OSError) as error:
        _say(f"{type(error).__name__}: {error}")
    except BaseException:
        traceback.print_exc()
    finally:
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
        os._exit(status)


def _redirect(errors: int) -> None:
    """Nothing to read, errors to the launcher's pipe, and nothing else kept of what the launcher had open."""
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.dup2(errors, 1)
    os.dup2(errors, 2)
    for name in os.listdir("/proc/self/fd"):
        if int(name) > 2:
            with suppress(OSError):
                os.close(int(name))
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGPIPE):
        signal.signal(number, signal.SIG_DFL)


def _settle(job: LaunchJob, place: RankPlace, launcher: int) -> None:
    """Host, user, parent, log, in this order: only root may enter a namespace, and the log belongs to the user."""
    if place.netns_path is not None:
        enter_network_namespace(place.netns_path)
    if job.user is not None:
        become(job.user.uid, job.user.gid, job.user.groups)
    die_with_parent(launcher)
    path = log_path(Path(job.output_dir), job.name, place.rank)
    path.parent.mkdir(parents=True, exist_ok=True)
    log = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND, 0o644)
    os.dup2(log, 1)
    os.dup2(log, 2)
    os.close(log)


def _run(job: LaunchJob, place: RankPlace) -> None:
    # The launcher has imported these and torch already; importing this module must not.
    from workloads.programs import allreduce, background, training
    from workloads.programs.runtime import Settings

    output_dir = Path(job.output_dir)
    page_path = None if job.page_path is None else Path(job.page_path)
    settings = Settings(
        job=job.name,
        index=job.index,
        seed=job.seed,
        page_path=page_path,
        output_dir=output_dir,
        rendezvous=rendezvous_path(output_dir, job.name),
        timeout_s=job.timeout_s,
        device=job.device,
        backend=job.backend,
        gpus=tuple(other.gpu for other in job.ranks),
    )
    match job.program:
        case Training():
            training.run(job.program, settings)
        case AllReduce():
            allreduce.run(job.program, settings)
        case BackgroundFlow():
            background.run(job.program, settings, place.rank)
        case Command():
            _execute(job, job.program, place)


def _execute(job: LaunchJob, command: Command, place: RankPlace) -> NoReturn:
    """Turn into the user's program, at the job's release if it has a page."""
    environment = dict(os.environ)
    if job.page_path is not None:
        path = Path(job.page_path)
        if command.watch is not None:
            environment = watched(environment, Path(command.watch), path, Path(job.output_dir), job.name, place.rank)
        page = JobPage.open(path)
        page.mark(place.rank, State.READY)
        page.wait_for_start(Timer(), job.timeout_s)
        page.mark(place.rank, State.RUNNING)
    try:
        os.chdir(command.directory)
        os.execvpe(command.argv[0], command.argv, environment)
    except OSError as error:
        _say(f"can't run {command.argv[0]} in {command.directory}: {error.strerror}")
        sys.exit(NOT_FOUND if isinstance(error, FileNotFoundError) else NOT_EXECUTABLE)


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)
