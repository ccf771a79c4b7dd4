"""ebbtide.integrations as programs use them: each snippet of docs/integrations.md under `ebb run`, without it, and
beside the same training on stock PyTorch. The endpoint also by itself, and what it says against Prometheus's format."""

import importlib.util
import json
import os
import re
import socket
import subprocess
import sys
import textwrap
import threading

import pytest
import runner
from job_runs import ROOT, Run, assert_within

PROGRAM = ROOT / "python/tests/programs/integration_programs.py"
NEEDS = {"transformers": ["transformers", "accelerate"], "lightning": ["lightning"]}
MIB = runner.MIB
# A third or less of what each has alive.
BUDGETS = {"transformers": 24 * MIB, "lightning": 24 * MIB, "by_hand": 24 * MIB, "prometheus": 24 * MIB}
CAUSES = ("late", "unplanned", "fault", "no_frame", "flash_full")

pytestmark = pytest.mark.usefixtures("ebbtide_built")


@pytest.fixture(autouse=True)
def one_thread(monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "1")


def need(name):
    for package in NEEDS.get(name, ()):
        if importlib.util.find_spec(package) is None:
            pytest.skip(f"needs {package}")


def plain(*words):
    """The result of the program, and what it said on stderr, without `ebb run`."""
    done = subprocess.run([sys.executable, PROGRAM, *words], capture_output=True, text=True, timeout=300,
                          env={**os.environ, "PYTHONPATH": str(ROOT / "python")})
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1]), done.stderr


def stock(name):
    return runner.once("integration", [name], lambda: plain(name, "--stock")[0])


def same(one, other):
    return one["losses"] == other["losses"] != [] and one["digest"] == other["digest"]


def managed(name, flash, folder):
    """The result, stderr and the summary, under `ebb run`; losses and parameters are those of stock."""
    need(name)
    run = Run(folder, flash, BUDGETS[name], [sys.executable, PROGRAM, name], more=["--strict"])
    assert run.end() == 0, run.err
    result, summary = json.loads(run.out.splitlines()[-1]), run.summary()
    assert_within(summary, BUDGETS[name])
    assert summary["evicted_bytes"] > 0 and summary["fetched_bytes"] > 0
    assert same(result, stock(name))
    return result, run.err, summary


def values_of(logged):
    """What Ebbtide added to one entry, by name."""
    return {name.removeprefix("ebbtide/"): float(value) for name, value in logged.items()
            if name.startswith("ebbtide/") and value not in (None, "")}


def check(entries, summary, budget):
    """Of entries that follow one another: plausible one by one, and together not more than the whole run."""
    assert entries
    for values in entries:
        assert values["budget_bytes"] == budget and 0 < values["resident_bytes"] <= budget
        assert 0 <= values["stalled_share"] < 1.001
        causes = sum(values[f"stalled_{cause}_share"] for cause in CAUSES)
        assert causes == pytest.approx(values["stalled_share"], abs=1e-3)
        for name in ("fetched_bytes", "evicted_bytes"):
            assert (values[name] > 0) == (values[f"{name}_per_second"] > 0)
    for name in ("fetched_bytes", "evicted_bytes"):
        assert 0 < sum(values[name] for values in entries) <= summary[name]
    assert max(values["stalled_share"] for values in entries) > 0


@pytest.mark.slow
def test_transformers(flash, folder):
    result, err, summary = managed("transformers", flash, folder)
    training = [entry for entry in result["reported"] if "loss" in entry]
    entries = [values_of(entry) for entry in training]
    check(entries, summary, BUDGETS["transformers"])
    assert [values["steps"] for values in entries] == [2, 2, 2]
    assert not any(values_of(entry) for entry in result["reported"] if "loss" not in entry), "those of evaluations"
    history = [entry for entry in result["history"] if "loss" in entry]
    assert [values_of(entry) for entry in history] == entries
    assert result["callbacks"][0] == "EbbtideCallback" and len(set(result["callbacks"])) == len(result["callbacks"])
    assert result["board"] in (None, True)
    assert re.search(r"^Ebbtide: stalled [\d.e-]+ s of [\d.]+ s \([\d.]+ %\)\n  memory  +[\d.]+ MiB of 24 MiB$", err,
                     re.MULTILINE)
    assert re.search(r"^  in modules +\S", err, re.MULTILINE)


def test_lightning(flash, folder):
    result, err, summary = managed("lightning", flash, folder)
    rows = [row for row in result["rows"] if values_of(row)]
    check([values_of(row) for row in rows], summary, BUDGETS["lightning"])
    assert [int(row["step"]) for row in rows] == [1, 3, 5]
    assert [int(row["step"]) for row in result["rows"] if row["loss"]] == [1, 3, 5], "where Lightning logs"
    assert [values_of(row)["steps"] for row in rows] == [2, 2, 2]
    assert re.search(r"^Ebbtide: stalled [\d.e-]+ s of ", err, re.MULTILINE)


def test_by_hand(flash, folder):
    result, _, summary = managed("by_hand", flash, folder)
    entries = [values_of(entry) for entry in result["logged"]]
    check(entries, summary, BUDGETS["by_hand"])
    assert [values["steps"] for values in entries] == [1] * len(entries)
    assert all(type(value) is float for entry in result["logged"] for name, value in entry.items() if "/" in name)
    written = {}
    for name, value, step in result["written"]:
        written.setdefault(step, {})[name] = value
    assert list(written) == list(range(len(entries)))
    check([values_of(values) for values in written.values()], summary, BUDGETS["by_hand"])


@pytest.mark.parametrize("name", [pytest.param("transformers", marks=pytest.mark.slow),
                                  pytest.param("lightning", marks=pytest.mark.slow), "by_hand"])
def test_without_ebb_run_they_do_nothing(name):
    need(name)
    result, err = plain(name)
    assert same(result, stock(name))
    assert "ebbtide/" not in json.dumps(result) and "Ebbtide:" not in err


SAMPLE = re.compile(r'(?P<name>[a-z_]+)(\{(?P<label>[a-z]+)="(?P<value>[a-z_]+)"\})? (?P<number>[0-9.e+-]+)')


def parsed(text):
    """The samples by name and label. Asserts the text format and the conventions for names."""
    assert text.endswith("\n")
    kinds, helped, samples = {}, set(), {}
    for line in text.splitlines():
        if line.startswith("# HELP "):
            helped.add(line.split()[2])
            assert len(line.split()) > 3
        elif line.startswith("# TYPE "):
            _, _, name, kind = line.split()
            assert name in helped and name not in kinds and kind in ("gauge", "counter")
            assert name.startswith("ebbtide_") and (kind == "counter") == name.endswith("_total")
            kinds[name] = kind
        else:
            found = SAMPLE.fullmatch(line)
            assert found and list(kinds)[-1] == found["name"], line
            samples[found["name"], found["value"]] = float(found["number"])
    assert {name for name, _ in samples} == kinds.keys()
    if importlib.util.find_spec("prometheus_client"):
        from prometheus_client.parser import text_string_to_metric_families

        theirs = {(sample.name, next(iter(sample.labels.values()), None)): sample.value
                  for family in text_string_to_metric_families(text) for sample in family.samples}
        assert theirs == samples
    return samples


def test_prometheus(flash, folder):
    result, _, _ = managed("prometheus", flash, folder)
    assert result["closed"]
    assert all(status == 200 and kind.startswith("text/plain; version=0.0.4") for status, kind, _ in result["scraped"])
    texts = [parsed(text) for _, _, text in result["scraped"]]
    last, stats = texts[-1], result["stats"]
    assert [samples["ebbtide_steps_total", None] for samples in texts] == list(range(1, len(texts) + 1))
    for name, _ in last:
        if name.endswith("_total"):
            label_values = [value for other, value in last if other == name]
            for value in label_values:
                series = [samples[name, value] for samples in texts]
                assert series == sorted(series), f"{name} counts backwards"
    assert last["ebbtide_managed", None] == 1
    assert last["ebbtide_budget_bytes", None] == stats["budget_bytes"] == BUDGETS["prometheus"]
    assert 0 < last["ebbtide_fetched_bytes_total", None] <= stats["fetched_bytes"]
    assert 0 < last["ebbtide_stalled_seconds_total", None] <= stats["stall_ns"] / 1e9
    for label in ("cause", "kind"):
        parts = [number for (name, _), number in last.items() if name == f"ebbtide_stalled_by_{label}_seconds_total"]
        assert sum(parts) == pytest.approx(last["ebbtide_stalled_seconds_total", None], abs=1e-3)


@pytest.fixture
def served():
    from ebbtide.integrations import prometheus

    with prometheus.serve(0) as server:
        yield server
    assert not any(thread.name == "ebbtide-prometheus" for thread in threading.enumerate())


def test_the_endpoint_where_nothing_is_managed(served):
    from integration_programs import scrape

    assert served.address == "127.0.0.1"
    status, _, text = scrape(served.port)
    assert status == 200 and parsed(text) == {("ebbtide_managed", None): 0}
    assert scrape(served.port, "/other")[0] == 404 and "/metrics" in scrape(served.port, "/")[2]
    assert scrape(served.port, method="HEAD")[2] == "" and scrape(served.port, method="POST")[0] == 501


def test_a_port_that_cannot_be_had_is_an_error(served):
    import ebbtide
    from ebbtide.integrations import prometheus

    with pytest.raises(ebbtide.Error, match=f"port {served.port} of 127.0.0.1: Address already in use; give another"):
        prometheus.serve(served.port)
    for port in (-1, 65536, "9464", True):
        with pytest.raises(ebbtide.Error, match="is no port"):
            prometheus.serve(port)
    with pytest.raises(ebbtide.Error, match="cannot listen on port 0 of 192.0.2.1"):
        prometheus.serve(0, "192.0.2.1")


def test_a_client_that_says_nothing_does_not_hold_it_up_for_long(served, monkeypatch):
    from ebbtide.integrations import prometheus
    from integration_programs import scrape

    monkeypatch.setattr(prometheus._Handler, "timeout", 0.2)
    with socket.create_connection(("127.0.0.1", served.port)):
        assert scrape(served.port)[0] == 200


FORK = """
import os, socket, sys, threading
from ebbtide.integrations import prometheus
server = prometheus.serve(0)
told, tell = os.pipe()
go, end = os.pipe()
if os.fork() == 0:
    os.close(end)
    os.write(tell, b"%d" % threading.active_count())
    os.read(go, 1)                       # alive while the parent closes
    server.close()                       # no more than nothing
    with prometheus.serve(0) as own:     # and it may serve itself
        socket.create_connection(("127.0.0.1", own.port)).close()
    os._exit(0)
assert os.read(told, 9) == b"1"
socket.create_connection(("127.0.0.1", server.port)).close()
server.close()
server.close()
try:
    socket.create_connection(("127.0.0.1", server.port), timeout=10)
    sys.exit("the child listens")
except ConnectionRefusedError:
    pass
prometheus.serve(server.port)            # left open: the process ends all the same
os.close(end)
_, status = os.wait()
assert status == 0, status
assert "torch" not in sys.modules
"""


def test_a_forked_child_does_not_serve():
    subprocess.run([sys.executable, "-W", "error", "-c", textwrap.dedent(FORK)], check=True, timeout=60,
                   env={**os.environ, "PYTHONPATH": str(ROOT / "python")})
