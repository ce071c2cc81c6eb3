"""The page's server answers its own machine, with the token, and nobody else; its metrics are what Prometheus reads."""

from __future__ import annotations

import http.client
import json
import re
import socket
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from click.testing import CliRunner

from harmonics_emu.cli.main import main
from harmonics_emu.errors import UsageError
from harmonics_emu.live.metrics import exposition
from harmonics_emu.live.server import ADDRESS, MOST_CONNECTIONS, RunServer
from harmonics_emu.live.snapshot import JobView, LinkView, Snapshot
from harmonics_emu.results.schema import UnreadableResult

HOSTILE = 'a"b\\c\nd</script><img src=x onerror=alert(1)>'
SHOWN = Snapshot(
    scenario=HOSTILE,
    policy="fair",
    engine="emulate",
    seed=3,
    state="running",
    phase="running",
    time_s=12.5,
    jobs=(JobView(name=HOSTILE, state="running", done=2, total=10, level=4, counted=2, iteration_sum_s=0.5),),
    links=(LinkView(name="leaf0>spine0", rate_bps=10**8, use=0.25),),
)


@pytest.fixture
def looks() -> list[Snapshot]:
    return []


@pytest.fixture
def server(looks: list[Snapshot]) -> Iterator[RunServer]:
    def look() -> Snapshot:
        looks.append(SHOWN)
        return SHOWN

    with RunServer(look) as served:
        thread = threading.Thread(target=served.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
        thread.start()
        yield served
        served.shutdown()


def ask(server: RunServer, path: str, method: str = "GET", **headers: str) -> tuple[int, dict[str, str], bytes]:
    with closing(http.client.HTTPConnection(ADDRESS, server.server_address[1], timeout=5)) as connection:
        connection.request(method, path, headers=headers)
        answer = connection.getresponse()
        return answer.status, dict(answer.getheaders()), answer.read()


def raw(server: RunServer, content: bytes) -> bytes:
    with socket.create_connection((ADDRESS, server.server_address[1]), timeout=10) as client:
        client.sendall(content)
        client.shutdown(socket.SHUT_WR)
        return b"".join(iter(lambda: client.recv(65536), b""))


def test_the_page_and_all_that_it_needs_are_behind_the_token(server: RunServer) -> None:
    assert server.server_address[0] == "127.0.0.1"
    assert len(server.token) >= 32
    inside = f"/{server.token}/"
    status, headers, page = ask(server, inside)
    assert (status, headers["Content-Type"]) == (200, "text/html; charset=utf-8")
    wanted = re.findall(rb'(?:src|href)="([^"]+)"', page)
    assert set(wanted) == {b"live.js", b"style.css", b"data:,", b"metrics"}
    for name in ("live.js", "style.css", "state.json", "metrics"):
        status, headers, content = ask(server, inside + name)
        assert status == 200
        assert len(content) == int(headers["Content-Length"]) > 0
        assert re.search(rb"https?://(?!www\.w3\.org/2000/svg)", content) is None
        assert ask(server, f"/{name}")[0] == 404
    status, headers, _ = ask(server, f"/{server.token}")
    assert (status, headers["Location"]) == (308, inside)
    state = json.loads(ask(server, inside + "state.json?x=1")[2])
    assert (state["scenario"], state["jobs"][0]["name"]) == (HOSTILE, HOSTILE)
    assert ask(server, inside, "HEAD")[2] == b""


def test_every_answer_is_safe_to_show(server: RunServer) -> None:
    paths = [f"/{server.token}/{name}" for name in ("", "live.js", "state.json", "metrics", "nothing")]
    for path in (*paths, "/", f"/{server.token}", "/wrong/", "/../../etc/passwd"):
        _, headers, content = ask(server, path)
        policy = headers["Content-Security-Policy"]
        assert policy.startswith("default-src 'none'; ")
        assert "unsafe" not in policy
        assert "frame-ancestors 'none'" in policy
        assert headers["X-Content-Type-Options"] == "nosniff"
        assert headers["Referrer-Policy"] == "no-referrer"
        assert headers["Cross-Origin-Resource-Policy"] == "same-origin"
        assert headers["Cache-Control"] == "no-store"
        assert headers["Server"] == "harmonics-emu"
        assert "Access-Control-Allow-Origin" not in headers
        assert b"root:" not in content


@pytest.mark.parametrize(
    "path", ["", "x", "../{token}", "{half}/", "{token}x/state.json", "%2e%2e/{token}/", "{upper}/"]
)
def test_without_the_whole_token_there_is_nothing(server: RunServer, path: str) -> None:
    half, upper = server.token[:16], server.token.swapcase()
    status, _, content = ask(server, "/" + path.format(token=server.token, half=half, upper=upper))
    assert status == 404
    assert server.token.encode() not in content


@pytest.mark.parametrize("path", ["../state.json", "..%2fstate.json", "live.py", "metrics/x", "//state.json", "\xff"])
def test_inside_there_is_nothing_but_the_page(server: RunServer, path: str) -> None:
    answer = raw(server, f"GET /{server.token}/{path} HTTP/1.1\r\nHost: {host_of(server)}\r\n\r\n".encode("latin-1"))
    assert answer.startswith(b"HTTP/1.0 404 ")


def host_of(server: RunServer) -> str:
    return f"{ADDRESS}:{server.server_address[1]}"


def test_a_name_that_was_pointed_here_gets_no_answer(server: RunServer) -> None:
    for host in ("evil.example", f"evil.example:{server.server_address[1]}", "127.0.0.1", "", host_of(server) + ".x"):
        status, _, content = ask(server, f"/{server.token}/state.json", Host=host)
        assert (status, HOSTILE.encode() in content) == (403, False)
    assert ask(server, f"/{server.token}/", Host=f"localhost:{server.server_address[1]}")[0] == 200


@pytest.mark.parametrize(
    "request_line",
    [
        b"POST /{} HTTP/1.1",
        b"PUT /{} HTTP/1.1",
        b"OPTIONS * HTTP/1.1",
        b"CONNECT evil.example:443 HTTP/1.1",
        b"GET http://evil.example/ HTTP/1.1",
        b"GET /{} HTTP/9.9",
        b"GET /{} HTTP/1.1\r\nHost: a\r\nHost: b",
        b"GET <script>alert(1)</script> x",
        b"\x16\x03\x01\x02\x00\x01\x00",
        b"GET /" + b"a" * 70_000 + b" HTTP/1.1",
        b"GET /{} HTTP/1.1\r\n" + b"X: y\r\n" * 300,
        b"",
    ],
)
def test_other_requests_are_refused_without_repeating_them(server: RunServer, request_line: bytes) -> None:
    answer = raw(server, request_line.replace(b"{}", server.token.encode() + b"/") + b"\r\n\r\n")
    assert b" 200 " not in answer.split(b"\r\n")[0]
    for part in (b"script", b"evil", b"Traceback", server.token.encode(), HOSTILE.encode()):
        assert part not in answer.replace(b"script-src", b"")
    assert ask(server, f"/{server.token}/metrics")[0] == 200


def test_more_connections_than_there_is_room_for_cost_no_threads(server: RunServer) -> None:
    before = threading.active_count()
    idle = [socket.create_connection((ADDRESS, server.server_address[1])) for _ in range(3 * MOST_CONNECTIONS)]
    try:
        closed = 0
        for client in idle:
            client.settimeout(2.0)
        for client in idle[MOST_CONNECTIONS:]:
            closed += client.recv(1) == b""
        assert closed == 2 * MOST_CONNECTIONS
        assert threading.active_count() <= before + MOST_CONNECTIONS
    finally:
        for client in idle:
            client.close()


def test_many_readers_cost_the_run_one_look(server: RunServer, looks: list[Snapshot]) -> None:
    for _ in range(20):
        assert ask(server, f"/{server.token}/state.json")[0] == 200
    assert len(looks) <= 3


def test_a_run_that_can_not_be_read_is_told() -> None:
    def look() -> Snapshot:
        raise UnreadableResult("iterations.csv, line 3: too few columns")

    with RunServer(look) as served:
        threading.Thread(target=served.serve_forever, daemon=True).start()
        status, headers, content = ask(served, f"/{served.token}/state.json")
        served.shutdown()
    assert (status, headers["Content-Type"].split(";")[0]) == (503, "text/plain")
    assert b"line 3" in content


def test_a_port_that_is_taken_is_told(server: RunServer) -> None:
    with pytest.raises(UsageError, match="choose another --port"):
        RunServer(lambda: SHOWN, server.server_address[1])


SAMPLE = re.compile(r'harmonics_emu_[a-z_]+(\{[a-z]+="(\\.|[^"\\\n])*"(,[a-z]+="(\\.|[^"\\\n])*")*\})? [-+.e0-9]+\Z')


def test_metrics_are_text_that_prometheus_reads() -> None:
    text = exposition(SHOWN)
    lines = text.splitlines()
    assert text.endswith("\n")
    assert all(line.startswith("# ") or SAMPLE.match(line) for line in lines), text
    kinds = dict(line.split()[2:4] for line in lines if line.startswith("# TYPE"))
    named = [re.split(r"[{ ]", line)[0] for line in lines if not line.startswith("#")]
    assert set(named) == set(kinds)
    assert all(kind == "counter" for name, kind in kinds.items() if name.endswith("_total"))
    label = 'job="' + HOSTILE.replace("\\", r"\\").replace("\n", r"\n").replace('"', r"\"") + '"'
    assert f"harmonics_emu_job_iterations_done{{{label}}} 2" in lines
    assert f"harmonics_emu_job_iteration_seconds_total{{{label}}} 0.5" in lines
    assert 'harmonics_emu_link_utilization_ratio{link="leaf0>spine0"} 0.25' in lines
    assert 'harmonics_emu_run_state{state="running"} 1.0' in lines
    assert not any("verdict" in name for name in named), "a run that goes on has none yet"


def test_the_command_refuses_what_is_no_run(tmp_path: Path) -> None:
    told = CliRunner().invoke(main, ["serve", str(tmp_path)])
    assert (told.exit_code, "holds no run" in told.output) == (2, True)
    assert CliRunner().invoke(main, ["serve", str(tmp_path / "nowhere")]).exit_code == 2
