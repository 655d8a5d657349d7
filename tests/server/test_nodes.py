"""Two nodes on one PostgreSQL and one Redis behind nginx: to its users they are one installation.

The database is started here, also where the run is on SQLite.
"""

import http.client
import json
import re
import time
from collections import Counter, defaultdict
from collections.abc import Iterator
from typing import Any

import pytest

from tests.concurrency import run_in_threads
from tests.nodes import Node, Nodes, PagesOfNodes, run_nodes
from tests.page_client import Person, counts, file
from tests.postgres_server import Postgres
from tests.redis_server import RedisProcess, wait_for_window
from tests.waiting import wait_for
from tests.webhook_receiver import WebhookReceiver

pytestmark = [pytest.mark.process, pytest.mark.slow]

THREADS = 16
START_LIMIT = 60  # requests a minute of the plan `start`
OLENAS, OLENAS_MAIL = "+380501110001", "olena@acme.example"
PASSWORD = "горобці та їжаки"
LEAD = {"name": "Марія", "phone": "+380671234567"}


class Installation:
    """The nodes, and a key of each tenant."""

    def __init__(self, nodes: Nodes, keys: dict[str, str]):
        self.nodes, self.keys = nodes, keys

    def link(self, port: int | None = None) -> http.client.HTTPConnection:
        """Return a connection to nginx, or to the node at a port."""
        return http.client.HTTPConnection("127.0.0.1", port or self.nodes.port, timeout=30)

    def call(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        label: str = "acme",
        link: http.client.HTTPConnection | None = None,
    ) -> tuple[int, Any]:
        """Call the API through nginx, or over another connection; return status and JSON."""
        connection = link or self.link()
        headers = {"Host": f"{label}.localhost", "Authorization": f"Bearer {self.keys[label]}"}
        if body is not None:
            headers["Content-Type"] = "application/json"
        text = None if body is None else json.dumps(body)
        connection.request(method, f"/api/v1{path}", text, headers)
        answer = connection.getresponse()
        data = answer.read()
        if link is None:
            connection.close()
        return answer.status, json.loads(data) if data else None


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
def installation(
    tmp_path_factory: pytest.TempPathFactory, redis: RedisProcess
) -> Iterator[Installation]:
    keys = {}

    def prepare(nodes: Nodes) -> None:
        owner = ("--owner-name", "Olena", "--owner-phone", OLENAS, "--owner-email", OLENAS_MAIL)
        keys["acme"] = nodes.create_tenant("acme", *owner)
        keys["small"] = nodes.create_tenant("small", "--plan", "start", node=1)

    folder = tmp_path_factory.mktemp("nodes")
    plans = f"business=0,start={START_LIMIT}"
    with (
        Postgres() as server,
        run_nodes(folder, server.url(), redis.url, prepare=prepare, CRM_PLANS=plans) as nodes,
    ):
        yield Installation(nodes, keys)


@pytest.fixture
def nodes(installation: Installation) -> Nodes:
    return installation.nodes


def test_both_nodes_answer_behind_the_proxy(installation, nodes):
    for _ in range(6):
        assert installation.call("GET", "/leads")[0] == 200
    for node in nodes.nodes:
        wait_for(lambda node=node: '"/api/v1/leads' in node.log.read_text(), 5)


def test_a_plan_is_exact_over_both_nodes(installation):
    wait_for_window(15)

    def ask(_number: int) -> Counter[int]:
        link = installation.link()
        result = Counter(
            installation.call("GET", "/leads", label="small", link=link)[0] for _ in range(10)
        )
        link.close()
        return result

    result = sum(run_in_threads(THREADS, ask), Counter())
    assert result == {200: START_LIMIT, 429: 10 * THREADS - START_LIMIT}


def code_of(node: Node, phone: str, count: int) -> str:
    """The code of a node's next SMS after `count` of them."""
    wait_for(lambda: node.sms_count > count, 10)
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


def test_a_link_a_password_and_a_logout_count_at_both_nodes(nodes):
    stranger = Wanderer(nodes)
    stranger.at(0).get("/login")
    assert stranger.at(1).sends("/forgot", {"email": OLENAS_MAIL}) == "/forgot/sent"
    letter = wait_for(lambda: re.search(r"(/reset/\S+)", nodes[1].output.read_text()), 10)
    stranger.at(0).sees(letter[1])
    assert stranger.at(0).sends(letter[1], {"password": PASSWORD}) == "/"
    stranger.at(1).sees(letter[1], 404)  # it was good once
    other = Wanderer(nodes)
    sent = {"email": OLENAS_MAIL, "password": PASSWORD}
    other.at(0).get("/login")
    assert other.at(1).sends("/login/password", sent) == "/"
    other.at(0).sees("/tasks")
    other.at(0).sends("/logout")
    assert other.at(1).get("/tasks").status_code == 302


def log_in(nodes: Nodes) -> Wanderer:
    """Olena, logged in by a link that the command line made on the first node."""
    link = nodes.command("user", "login-link", "acme", OLENAS).split()[-1]
    olena = Wanderer(nodes)
    path = re.sub(r"https?://[^/]+", "", link)
    olena.at(1).get(path)
    assert olena.at(1).sends(path) == "/"
    return olena


def test_a_form_of_one_node_is_taken_by_the_other(installation, nodes):
    olena = log_in(nodes)
    olena.at(0).sees("/leads/new")
    path = olena.at(1).sends("/leads", {**LEAD, "assigned_to": "1"})
    assert LEAD["name"] in olena.at(0).sees(path)


def test_an_import_is_checked_at_one_node_and_confirmed_at_the_other(nodes):
    olena = log_in(nodes)
    rows = "external_id,name,phone\n" + "".join(
        f"N-{number},Особа {number},06712345{number:02}\n" for number in range(20)
    )
    path = olena.at(0).sends("/leads/import", file(rows, "leads.csv"))
    assert counts(olena.at(1).sees(path))["created"] == 20
    page = olena.at(1).sees(olena.at(1).sends(path))
    assert counts(page) == {"created": 20, "updated": 0, "unchanged": 0, "rejected": 0}
    assert olena.at(0).post(path).location == "/leads/imports"  # it was taken


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


def test_each_event_is_delivered_once_and_those_of_a_record_in_order(
    installation, hook: WebhookReceiver
):
    def deliver(received: Any) -> int:
        time.sleep(received.event["sequence"] % 4 / 200)  # so that they could overtake each other
        return 204

    hook.answer = deliver
    status, webhook = installation.call("POST", "/webhooks", {"url": hook.url})
    assert status == 201, webhook

    def work(number: int) -> None:
        link = installation.link()
        for count in range(8):
            body = {"title": f"Дзвінок {number}-{count}"}
            id = installation.call("POST", "/tasks", body, link=link)[1]["task_id"]
            for status in ("done", "open", "done"):
                call = ("PATCH", f"/tasks/{id}", {"status": status})
                assert installation.call(*call, link=link)[0] == 200
        link.close()

    run_in_threads(6, work)
    expected = 6 * 8 * 3  # created, completed, completed again
    hook.wait_for(expected, 60)
    time.sleep(1)
    received = [request.event for request in hook.received]
    assert len({event["id"] for event in received}) == len(received) == expected
    by_record: dict[str, list[int]] = defaultdict(list)
    for event in received:
        by_record[event["data"]["task"]["id"]].append(event["sequence"])
    assert len(by_record) == 6 * 8
    assert all(sequences == sorted(sequences) for sequences in by_record.values())
    installation.call("DELETE", f"/webhooks/{webhook['webhook_id']}")
