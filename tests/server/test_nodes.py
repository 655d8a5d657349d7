"""Two nodes on one PostgreSQL behind nginx: to its users they are one installation.

The database is started here, also where the run is on SQLite.
"""

import re
from collections import defaultdict
from typing import Any, NamedTuple

import pytest

from tests.concurrency import run_in_threads
from tests.http_calls import Answer, ask
from tests.nodes import LABELS, Node, Nodes, PagesOfNodes, run_nodes
from tests.page_client import Person
from tests.postgres_server import Postgres
from tests.waiting import wait_for

pytestmark = [pytest.mark.process, pytest.mark.slow]

THREADS = 16
START_LIMIT = 60  # requests a minute of the plan `start`
OLENAS, OLENAS_MAIL = "+380501110001", "olena@acme.example"


FIELDS = "Remaining", "Reset"


class Rate(NamedTuple):
    """What an answer says of the limit: the requests left, and when the minute ends."""

    label: str
    status: int
    left: int
    reset: int


class Installation:
    """The nodes, a key of each tenant, and for each node a tenant of the plan `start`."""

    def __init__(self, nodes: Nodes, keys: dict[str, str], small: list[str]):
        self.nodes, self.keys, self.small = nodes, keys, small

    def ask(self, method: str, path: str, body: Any = None, label: str = "acme") -> Answer:
        """Call the API through nginx."""
        return ask(self.nodes.port, method, f"/api/v1{path}", body, self.keys[label], label)

    def count_request(self, label: str) -> Rate:
        answer = self.ask("GET", "/users/me", label=label)
        left, reset = (int(answer.headers[f"X-RateLimit-{name}"]) for name in FIELDS)
        return Rate(label, answer.status, left, reset)


class Wanderer:
    """Somebody whose requests go to one node or the other, as the test says."""

    def __init__(self, nodes: Nodes, label: str = "acme"):
        self.nodes, self.pages = nodes, PagesOfNodes(nodes[0].port)
        self.person = Person(self.pages, label)  # type: ignore[arg-type]

    def at(self, number: int) -> Person:
        """The same person, at that node from now on."""
        self.pages.port = self.nodes[number].port
        return self.person


@pytest.fixture(scope="module")
def installation(tmp_path_factory):
    keys = {}

    def prepare(nodes: Nodes) -> None:
        owner = ("--owner-name", "Olena", "--owner-phone", OLENAS, "--owner-email", OLENAS_MAIL)
        keys["acme"] = nodes.create_tenant("acme", *owner)

    folder = tmp_path_factory.mktemp("nodes")
    plans = f"business=0,start={START_LIMIT}"
    with (
        Postgres() as server,
        run_nodes(folder, server.url(), prepare=prepare, CRM_PLANS=plans) as nodes,
    ):
        small = nodes.find_labels(LABELS[1:])
        for label in small:
            keys[label] = nodes.create_tenant(label, "--plan", "start")
        yield Installation(nodes, keys, small)


@pytest.fixture
def nodes(installation):
    return installation.nodes


def test_a_plan_is_exact_behind_the_proxy(installation):
    """Each tenant's node counts all its requests: in no minute is a number of those left twice."""

    def ask(number: int) -> list[Rate]:
        return [installation.count_request(installation.small[number % 2]) for _ in range(20)]

    rates = [rate for some in run_in_threads(THREADS, ask) for rate in some]
    for label in installation.small:
        windows = defaultdict(list)
        for rate in rates:
            if rate.label == label:
                windows[round((rate.reset - rates[0].reset) / 60)].append(rate)
        for window in windows.values():
            left = sorted((rate.left for rate in window if rate.status == 200), reverse=True)
            assert left == [*range(START_LIMIT - 1, -1, -1)][: len(left)]
            is_refused = any(rate.status == 429 for rate in window)
            assert len(left) == START_LIMIT if is_refused else len(left) <= START_LIMIT


def test_hosts_of_a_killed_node_go_on_at_the_other_with_limits_counted_anew(installation, nodes):
    other, label = installation.small
    wait_for(lambda: installation.count_request(label).status == 429, 30)
    nodes[1].kill()
    rate = installation.count_request(label)
    assert (rate.status, rate.left) == (200, START_LIMIT - 1)
    assert nodes.node_of(label) == nodes.node_of(other) == 0
    nodes[1].start()
    wait_for(lambda: nodes.node_of(label) == 1)


def code_of(node: Node, phone: str, count: int) -> str:
    """The code of a node's next SMS after `count` of them."""
    wait_for(lambda: node.sms_count > count)
    return node.last_code(phone)


def test_a_code_asked_at_one_node_lets_in_at_the_other(nodes):
    stranger = Wanderer(nodes)
    count = nodes[0].sms_count
    stranger.at(0).get("/login")
    assert stranger.at(0).sends("/login", {"phone": OLENAS}) == "/login/code"
    stranger.at(1).sees("/login/code")
    code = code_of(nodes[0], OLENAS, count)
    assert stranger.at(1).sends("/login/code", {"code": code}) == "/"
    for number in (0, 1, 0):  # the session is known to both
        assert "Olena" in stranger.at(number).sees("/tasks")


def test_a_sign_up_goes_on_at_whichever_node(nodes):
    newcomer = Wanderer(nodes, "")
    count = nodes[0].sms_count
    newcomer.at(1).sees("/signup")
    assert newcomer.at(0).sends("/signup", {"phone": "+380671234567"}) == "/signup/code"
    code = code_of(nodes[0], "+380671234567", count)
    assert newcomer.at(1).sends("/signup/code", {"code": code}) == "/signup/company"
    there = newcomer.at(0).sends(
        "/signup/company", {"company": "Згода", "name": "Оля", "label": "zghoda"}
    )
    owner = Wanderer(nodes, "zghoda")
    path = re.sub(r"https?://[^/]+", "", there)
    assert owner.at(1).get(path).location == "/"
    assert "Згода" in owner.at(0).sees("/tasks")
