"""The benchmark of the real servers, and the guide speed.md with what it has measured."""

import json
import os
import re
from xml.etree import ElementTree

import pytest

from tests import external_programs
from tests.benchmarks import plot, report, servers
from tests.benchmarks.wrk import Request, run_wrk

FILES = sorted(report.FIGURES.glob("*.json"))
SVG = "{http://www.w3.org/2000/svg}"
GROWTH = {
    "origin": "a test",
    "rows": [1_000, 10_000, 100_000, 1_000_000],
    "figures": {
        "GET one": [93, 95, 97, 110],
        "list": [310, 312, 320, 330],
        "filter": [311, 315, 350, 331],
        "search": [800, 900, 1500, 6000],
        "create": [610, 620, 650, 900],
    },
}


def served() -> dict:
    return json.loads((report.FIGURES / "served.json").read_text("utf-8"))


# What was measured


def test_the_guide_has_the_figures_that_were_measured():
    text = report.GUIDE.read_text("utf-8")
    assert report.guide_with(report.guide_block(), text) == text


def test_the_plots_show_the_figures_that_were_measured():
    drawn = {path.name: path.read_text("utf-8") for path in report.PLOTS.glob("*.svg")}
    assert drawn == report.plots()


def test_other_figures_would_be_seen_in_guide_and_plots(tmp_path):
    figures = served()
    for server in figures["servers"].values():
        for runs in server["operations"]["create"].values():
            runs["requests_per_second"] += 1000
    (tmp_path / "served.json").write_text(json.dumps(figures), "utf-8")
    assert report.guide_block(tmp_path) != report.guide_block()
    assert report.plots(tmp_path)["served-dark.svg"] != report.plots()["served-dark.svg"]


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name)
def test_figures_tell_where_and_when_they_were_measured(file):
    origin = json.loads(file.read_text("utf-8"))["origin"]
    assert "\n" not in origin
    assert re.search(r"\b20\d\d-\d\d-\d\d\b", origin)
    assert "Python 3." in origin and "SQLite 3." in origin


def test_no_answer_failed_while_the_figures_were_measured():
    figures = served()
    assert report.count_errors(figures) == 0
    figures["servers"]["CRM"]["operations"]["create"]["64"]["errors"] = 3
    assert report.count_errors(figures) == 3
    assert "ERROR: 3 answers failed" in report.console_table(figures)
    reached = {aim.measure: aim.is_reached() for aim in report.aims(figures)}
    assert not reached["p99 at 64 connections, create"]


def test_an_aim_is_reached_at_its_limit_and_not_beyond():
    assert report.Aim("memory", 90, 90).is_reached()
    assert not report.Aim("memory", 90, 90.1).is_reached()
    assert report.Aim("requests per second", 1.2, 1.2, at_least=True).is_reached()
    assert not report.Aim("requests per second", 1.2, 1.19, at_least=True).is_reached()


def test_aims_compare_one_process_with_pocketbase():
    figures = served()
    figures["servers"]["CRM"]["operations"]["search"]["8"]["cpu_us"] = 450
    figures["servers"]["PocketBase"]["operations"]["search"]["8"]["cpu_us"] = 900
    values = {aim.measure: aim.value for aim in report.aims(figures)}
    assert values["CPU per request, search"] == 0.5
    assert len(values) == 17


@pytest.mark.parametrize("theme", plot.THEMES)
@pytest.mark.parametrize("draw", ["served", "growth"])
def test_a_plot_tells_its_figures_in_words_and_stays_within_its_frame(draw, theme):
    svg = plot.draw_served(served(), theme) if draw == "served" else plot.draw_growth(GROWTH, theme)
    root = ElementTree.fromstring(svg)
    _, _, width, height = map(float, root.get("viewBox").split())
    assert root.find(f"{SVG}title").text
    assert "GET one" in root.find(f"{SVG}desc").text
    for box in root.iter(f"{SVG}rect"):
        assert float(box.get("x")) + float(box.get("width")) <= width
        assert float(box.get("y")) + float(box.get("height")) <= height
    texts = list(root.iter(f"{SVG}text"))
    assert all(0 < float(text.get("y")) < height for text in texts)
    lefts = [text for text in texts if text.get("text-anchor", "start") == "start"]
    assert all(float(text.get("x")) + 7 * len(text.text) <= width for text in lefts)


def test_labels_of_lines_that_end_together_do_not_overlap():
    root = ElementTree.fromstring(plot.draw_growth(GROWTH, "light"))
    labels = [
        float(text.get("y"))
        for text in root.iter(f"{SVG}text")
        if text.text.startswith(tuple(GROWTH["figures"]))
    ]
    labels.sort()
    assert len(labels) == len(GROWTH["figures"])
    assert min(b - a for a, b in zip(labels, labels[1:], strict=False)) > 13


# How it is measured


@pytest.mark.parametrize("id", [1, 77, 49_999])
def test_a_request_with_an_id_is_the_one_between_its_two_parts(id):
    headers = {"Host": "127.0.0.1"}
    get = Request("GET", "/leads/{id}", headers, id_format="%015d")
    post = Request("POST", "/leads", headers, '{"phone": "+3805{id}", "name": "Олена"}', "%08d")
    for request in (get, post):
        before, after = request.parts()
        assert before + (request.id_format % id).encode() + after == request.text(id)
    head, _, body = post.text(id).partition(b"\r\n\r\n")
    assert json.loads(body)["phone"] == f"+3805{id:08}"
    assert f"Content-Length: {len(body)}".encode() in head.split(b"\r\n")


@pytest.mark.deep
@pytest.mark.process
@pytest.mark.parametrize(
    "prepare", [servers.prepare_crm, servers.prepare_bare, servers.prepare_floor]
)
def test_servers_answer_alike_and_leave_no_process_behind(prepare, tmp_path):
    rows = servers.sample(150)
    server = prepare(tmp_path, rows)[0]
    server.start()
    try:
        servers.check_answers(server, rows)
        with pytest.raises(RuntimeError, match="GET one is answered"):
            servers.check_answers(server, rows[::-1])
        ids = server.process.ids()
        assert len(ids) >= (1 if server.name == "floor" else 2)  # gunicorn's arbiter and its worker
        assert server.process.cpu_seconds() > 0
        assert 10 < server.process.memory_mb() < 500
    finally:
        server.stop()
    assert not [id for id in ids if os.path.exists(f"/proc/{id}")]


@pytest.mark.process
def test_wrk_counts_answers_and_failures(tmp_path):
    external_programs.found("wrk")
    (server,) = servers.prepare_bare(tmp_path, servers.sample(150))
    server.start()
    try:
        get = server.requests["GET one"]
        good = run_wrk(get, server.port, 4, 1, 150, 0, tmp_path)
        bad = run_wrk(get, server.port, 4, 1, 300, 0, tmp_path)  # every second id is of no lead
    finally:
        server.stop()
    assert good.errors == 0 and good.requests > 10
    assert bad.requests / 3 < bad.errors < bad.requests
