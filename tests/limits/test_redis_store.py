"""Counts in a Redis that several machines share, and locally without it."""

import http.client
import http.server
import logging
import os
import threading
import time
from dataclasses import replace
from pathlib import Path

import pytest
import trustme

from crm import create_app
from crm.access.limits import SmsLimits, TryLimits
from crm.api.admission import Limiter
from crm.config import RedisAddress, readers
from crm.errors import TooMany
from crm.installation.opening import open_tenants
from crm.limits import open_store, redis_server
from crm.limits.file_store import FileStore
from crm.limits.redis_server import RedisServer
from crm.limits.redis_store import RedisStore
from crm.limits.windows import BUCKET_ROWS, PASSWORDS, SMS_HOUR, Limit, Store
from tests.concurrency import run_in_threads, start_python, wait_for_processes
from tests.installations import config_for, copy_installation, environ_for
from tests.redis_server import run_redis, wait_for_window
from tests.server_process import find_free_port, run_server
from tests.waiting import wait_for

pytestmark = pytest.mark.process
each = pytest.mark.parametrize
NOW = 1_000.0  # seconds of uptime: what a machine says does not matter
SECRET = b"a secret of thirty-two bytes....."[:32]


@pytest.fixture
def own(tmp_path):
    """A server of one test, which may kill it."""
    with run_redis(tmp_path) as server:
        yield server


@pytest.fixture(autouse=True)
def quick_retries(monkeypatch):
    monkeypatch.setattr(redis_server, "RETRY_SECONDS", 0.2)


def make_counters(address: RedisAddress, folder: Path, secret: bytes = b"") -> Store:
    folder.mkdir(exist_ok=True)
    secret = secret or str(folder).encode()[-60:]
    return open_store(address, folder, lambda: secret)


def tried(tries: TryLimits, **names: str) -> int:
    """In how many seconds it may be tried again; 0 if it was counted."""
    try:
        tries.count_try(NOW, **names)
    except TooMany as refused:
        return refused.retry_after
    return 0


def lines(caplog) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.name == "crm"]


# Several machines


def test_two_installations_with_one_key_share_all_limits(redis, furnished, tmp_path):
    """And the headers of both tell what is left for both."""
    config = {"limits": redis.address, "plans": {"business": 40}}
    apps = []
    for name in ("first", "second"):
        copy_installation(furnished[0], tmp_path / name)
        (tmp_path / name / "secret.key").write_bytes(SECRET)
        apps.append(create_app(config_for(tmp_path / name, **config), sends=False))
    headers = {"Authorization": f"Bearer {furnished[1]['olena']}", "Host": "acme.localhost"}
    wait_for_window()
    seen = [
        apps[number % 2].test_client().get("/api/v1/users/me", headers=headers)
        for number in range(44)
    ]
    assert [answer.status_code for answer in seen] == [200] * 40 + [429] * 4
    left = [int(answer.headers["X-RateLimit-Remaining"]) for answer in seen]
    assert left == [*range(39, -1, -1), 0, 0, 0, 0]
    assert len({answer.headers["X-RateLimit-Reset"] for answer in seen}) == 1
    reset = int(seen[0].headers["X-RateLimit-Reset"])
    assert reset % 60 == 0 and 0 < reset - time.time() <= 60
    assert 0 < int(seen[-1].headers["Retry-After"]) <= 60
    first, second = apps[0].sms_limits, apps[1].sms_limits
    assert [
        (first, second)[number % 2].count_sms("+380671234567", f"10.{number}.0.1", 0, tenant="acme")
        for number in range(6)
    ] == [True] * 5 + [False]
    for app in apps:
        assert "counters" not in {path.name for path in app.tenants.config.data.iterdir()}
        app.tenants.forget_idle()
        app.tenants.counters.close()


def test_installations_with_other_keys_share_nothing(redis, tmp_path):
    first = Limiter(make_counters(redis.address, tmp_path / "a"))
    second = Limiter(make_counters(redis.address, tmp_path / "b"))
    first.count_request("acme", 60, NOW)
    assert second.get_count("acme", NOW) == 0


# Windows


def test_a_window_is_a_minute_of_redis_clock(own, tmp_path):
    """However long the machines have been running."""
    limiter = Limiter(make_counters(own.address, tmp_path / "a"))
    wait_for_window(5)
    seen = [limiter.count_request("acme", 60, moment).seconds_left for moment in (0, 59.9, 1e6)]
    left = 60 - time.time() % 60
    assert seen == sorted(seen, reverse=True)
    assert all(left <= seconds < left + 3 for seconds in seen)
    assert limiter.get_count("acme", NOW) == 3


def test_counts_end_with_their_window(own, tmp_path):
    counters = make_counters(own.address, tmp_path / "a")
    tries = TryLimits(counters, replace(PASSWORDS, step_seconds=2), account=1)
    assert tried(tries, account="a") == 0
    wait = tried(tries, account="a")
    assert 0 <= wait <= 2
    time.sleep(wait)
    assert tried(tries, account="a") == 0
    wait_for(lambda: own.run("DBSIZE") == 0)  # every row expires


def test_counts_of_a_later_window_go_on_when_the_clock_is_set_back(own, tmp_path):
    counters = make_counters(own.address, tmp_path / "a")
    limiter = Limiter(counters)
    limiter.count_request("acme", 60, NOW)
    (key,) = own.run("KEYS", "*")
    own.run("SET", key, f"{int(time.time()) // 60 + 500_000} 60", "PX", "99999999")
    assert not limiter.count_request("acme", 60, NOW).allowed
    assert own.run("PTTL", key) <= 60_000
    assert limiter.count_request("acme", 61, NOW).allowed


def test_nobody_is_named_and_everything_expires(own, tmp_path):
    config = config_for(tmp_path, limits=own.address)
    tenants = open_tenants(config)
    limiter, sms = Limiter(tenants.counters), SmsLimits(tenants.counters)
    limiter.count_request("acme", 60, NOW, group="forms")
    limiter.count_failed_key("2001:db8::1", NOW)
    limiter.count_form_request("acme", "192.0.2.1", NOW)
    limiter.count_page("acme", None, "192.0.2.1", NOW)
    TryLimits(tenants.counters, PASSWORDS, account=9).count_try(NOW, account="+380671234567")
    for number in range(90):
        sms.count_sms(f"+38067{number:07}", f"192.0.2.{number}", 0.0, tenant="acme")
    sms.count_sms("+380671234567", "192.0.2.1", 0.0, tenant="acme", known=False)
    keys = own.run("KEYS", "*")
    assert len(keys) > 100
    assert all(key.startswith(b"crm:") for key in keys)
    dump = b" ".join(
        b" ".join([key, *own.run("ZRANGE", key, "0", "-1")])
        if own.run("TYPE", key) == b"zset"
        else key + b" " + own.run("GET", key)
        for key in keys
    )
    # Not parts of these that hexadecimal digits may have by chance.
    for name in (b"acme", b"192.0", b"2001:db8", b"+38067", b"380671234567"):
        assert name not in dump
    assert all(0 < own.run("PTTL", key) <= 49 * 1_800_000 for key in keys)


# SMS


def test_rows_of_what_strangers_ask_for_are_bounded(own, tmp_path):
    """The one that was counted longest ago is forgotten; that is as late as it can be."""
    counters, window = make_counters(own.address, tmp_path / "a"), replace(SMS_HOUR, buckets=1)
    for number in range(BUCKET_ROWS + 20):
        counters.take([Limit(window, str(number), 5)], NOW)
        counters.take([Limit(window, "0", 1000)], NOW)
    assert own.run("DBSIZE") == BUCKET_ROWS + 1  # and the set of their keys
    names = [Limit(window, str(number), 0) for number in (0, 1, 30, BUCKET_ROWS + 19)]
    assert counters.read(names, NOW) == [BUCKET_ROWS + 21, 0, 1, 1]


def test_sms_of_a_later_time_become_present_when_the_clock_is_set_back(own, tmp_path):
    limits = SmsLimits(open_tenants(config_for(tmp_path, limits=own.address)).counters)
    for number in range(5):
        limits.count_sms("+380671234567", f"10.{number}.0.1", 0.0, tenant=None)
    for key in own.run("KEYS", "*"):
        if own.run("TYPE", key) == b"string":
            newest, counts = own.run("GET", key).split(b" ", 1)
            own.run("SET", key, b"%d %s" % (int(newest) + 10_000, counts), "PX", "999999999")
    assert not limits.count_sms("+380671234567", "10.9.0.1", 0.0, tenant=None)
    left = [own.run("PTTL", key) for key in own.run("KEYS", "*")]
    # Of the phone in an hour and in a day, of sign-ups, and of all: they were looked at.
    assert sum(milliseconds <= 49 * 1_800_000 for milliseconds in left) >= 4


# Away


def test_requests_go_on_when_redis_is_killed_and_come_back(own, tmp_path, caplog):
    limiter = Limiter(make_counters(own.address, tmp_path / "a"))
    wait_for_window()
    assert [limiter.count_request("acme", 60, NOW).remaining for _ in range(3)] == [59, 58, 57]
    counted = []

    def count(_: int) -> None:
        for _ in range(300):
            started = time.monotonic()
            counted.append(limiter.count_request("acme", 10**6, NOW))
            assert time.monotonic() - started < 2
            time.sleep(0.002)

    with caplog.at_level(logging.INFO):
        threads = [threading.Thread(target=count, args=(0,)) for _ in range(4)]
        for thread in threads:
            thread.start()
        wait_for(lambda: len(counted) > 100)
        own.kill()
        for thread in threads:
            thread.join()
        assert len(counted) == 1200 and all(rate.allowed for rate in counted)
        (line,) = lines(caplog)
        assert line.startswith(
            "limits are counted by each machine for itself: Redis at"
            f" 127.0.0.1:{own.port} cannot be used: "
        )
        own.start()
        time.sleep(0.3)
        assert limiter.count_request("acme", 60, NOW).remaining == 59  # its counts are lost
        assert limiter.count_request("acme", 60, NOW).remaining == 58
        assert lines(caplog)[1:] == [f"limits are counted in Redis at 127.0.0.1:{own.port} again"]


def test_a_server_that_hangs_costs_bounded_time(own, tmp_path, caplog, monkeypatch):
    monkeypatch.setattr(redis_server, "RETRY_SECONDS", 2.0)
    limiter = Limiter(make_counters(own.address, tmp_path / "a"))
    limiter.count_request("acme", 60, NOW)
    own.hang()

    def timed(_: int) -> float:
        started = time.monotonic()
        limiter.count_request("acme", 10**6, NOW)
        return time.monotonic() - started

    first = run_in_threads(8, timed)
    assert max(first) < 3 * redis_server.TIMEOUT_SECONDS
    assert sum(timed(0) for _ in range(200)) < 0.2  # nobody tries
    time.sleep(2.0)
    again = run_in_threads(8, timed)
    assert sum(seconds > 0.2 for seconds in again) == 1  # one tries
    assert max(again) < 3 * redis_server.TIMEOUT_SECONDS
    assert len(lines(caplog)) == 1
    own.resume()
    time.sleep(2.0)
    assert limiter.count_request("acme", 60, NOW).allowed
    assert len(lines(caplog)) == 2


def test_the_log_has_one_line_a_minute_of_all_processes(tmp_path, caplog, monkeypatch):
    uptime = [6_000.0]
    monkeypatch.setattr(redis_server, "RETRY_SECONDS", 0.0)
    nowhere = RedisAddress("127.0.0.1", 1)

    def process() -> Limiter:
        local = FileStore(tmp_path, lambda: b"the same key")
        server = RedisServer(nowhere, local, lambda: uptime[0])
        return Limiter(RedisStore(server, local, lambda: b"the same key"))

    processes = [process() for _ in range(3)]
    for _ in range(180):
        for limiter in processes:
            limiter.count_request("acme", 10**6, NOW)
        uptime[0] += 1
    assert len(lines(caplog)) == 3
    assert processes[0].get_count("acme", NOW) == 540  # one machine's processes count together


def test_processes_that_return_write_one_line(own, tmp_path, caplog):
    """Also if the last one of its being away was written long ago."""
    uptime = [6_000.0]
    own.kill()

    def process() -> Limiter:
        local = FileStore(tmp_path, lambda: b"the same key")
        server = RedisServer(own.address, local, lambda: uptime[0])
        return Limiter(RedisStore(server, local, lambda: b"the same key"))

    processes = [process() for _ in range(3)]
    for limiter in processes:
        limiter.count_request("acme", 60, NOW)
    uptime[0] += 7_200
    own.start()
    for limiter in processes * 2:
        limiter.count_request("acme", 60, NOW)
    assert len(lines(caplog)) == 2 and lines(caplog)[1].endswith(" again")


def test_an_idle_connection_that_redis_closed_is_opened_again(own, tmp_path, caplog):
    limiter = Limiter(make_counters(own.address, tmp_path / "a"))
    limiter.count_request("acme", 60, NOW)
    own.run("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
    limiter.count_request("acme", 60, NOW)
    own.run("SCRIPT", "FLUSH")
    limiter.count_request("acme", 60, NOW)
    assert limiter.get_count("acme", NOW) == 3 and not lines(caplog)


def test_sms_and_tries_are_counted_locally_without_redis(tmp_path, caplog):
    tenants = open_tenants(config_for(tmp_path, limits=RedisAddress("127.0.0.1", 1)))
    limits = SmsLimits(tenants.counters)
    moment = time.time()
    sent = [limits.count_sms("+380671234567", "a", moment, tenant=None) for _ in range(4)]
    assert sent == [True] * 3 + [False]
    tries = TryLimits(tenants.counters, PASSWORDS, account=2)
    assert [tried(tries, account="a") > 0 for _ in range(3)] == [False, False, True]
    tries.reset(account="a")
    assert tried(tries, account="a") == 0
    assert [used for _, used, _ in limits.list_budgets(moment, [])] == [3, 0, 3]
    assert len(lines(caplog)) == 1


REFUSALS = {
    "replica": (["--replicaof", "127.0.0.1 1"], {}, "it is a replica that can only be read"),
    "password": (["--requirepass", "other"], {"password": "s3cret"}, "invalid username-password"),
    "no password": (["--requirepass", "other"], {}, "Authentication required"),
    "db": (["--databases", "2"], {"db": 5}, "DB index is out of range"),
    "memory": (["--maxmemory", "1"], {}, "used memory > 'maxmemory'."),
    "cluster": (
        ["--cluster-enabled", "yes", "--cluster-port", "{port}"],
        {},
        "Hash slot not served",
    ),
    "commands": (["--user", "default", "on", "nopass", "~*", "-@all"], {}, "permissions"),
}


@each("name", REFUSALS)
def test_what_redis_refuses_is_one_line_without_the_password(tmp_path, caplog, name):
    options, more, reason = REFUSALS[name]
    options = [option.format(port=find_free_port()) for option in options]
    with run_redis(tmp_path, *options) as server:
        address = RedisAddress("127.0.0.1", server.port, **more)
        limiter = Limiter(make_counters(address, tmp_path / "a"))
        taken = [limiter.count_request("acme", 60, NOW).allowed for _ in range(61)]
    assert taken == [True] * 60 + [False]
    (line,) = lines(caplog)
    assert reason in line and "s3cret" not in line and "\n" not in line


def test_an_error_that_repeats_the_password_does_not_show_it():
    address = RedisAddress("127.0.0.1", 1, password="s3cret")
    assert redis_server.describe(ValueError("bad\n  's3cret'"), address) == "bad '…'"
    moved = redis_server.MovedError("5798 10.0.0.7:6379")
    assert (
        redis_server.describe(moved, address)
        == "it is a node of a Redis Cluster, which is not supported"
    )
    assert "s3cret" not in repr(address) + str(address)


def test_another_server_at_the_port_is_counted_around(tmp_path, caplog):
    class Quiet(http.server.BaseHTTPRequestHandler):
        def log_message(self, *_):
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Quiet) as web:
        thread = threading.Thread(target=web.serve_forever)
        thread.start()
        limiter = Limiter(make_counters(RedisAddress("127.0.0.1", web.server_port), tmp_path / "a"))
        assert [limiter.count_request("acme", 60, NOW).remaining for _ in range(2)] == [59, 58]
        web.shutdown()
        thread.join()
    assert len(lines(caplog)) == 1


FORK = """
import os, sys
from pathlib import Path
from crm.api.admission import Limiter
from crm.config import readers
from crm.limits import open_store
limiter = Limiter(open_store(readers.redis(sys.argv[1]), Path(sys.argv[2]), lambda: b"a key"))
limiter.count_request("acme", 10**6, 0)
children = []
for _ in range(2):
    child = os.fork()
    if not child:
        for _ in range(500):
            assert limiter.count_request("acme", 10**6, 0).allowed
        os._exit(0)
    children.append(child)
for _ in range(500):
    limiter.count_request("acme", 10**6, 0)
assert not any(os.waitpid(child, 0)[1] for child in children)
print(limiter.get_count("acme", 0), os.path.exists(sys.argv[2] + "/counters"))
"""


def test_a_forked_process_has_connections_of_its_own(own, tmp_path):
    wait_for_window()
    assert wait_for_processes(start_python(FORK, own.url, tmp_path)) == ["1501 False\n"]


def test_the_service_is_ready_and_answers_without_redis(furnished, tmp_path):
    copy_installation(furnished[0], tmp_path / "data")
    config = config_for(tmp_path / "data", limits=RedisAddress("127.0.0.1", 1))
    app = create_app(config, sends=False)
    client = app.test_client()
    assert client.get("/readyz").status_code == 200
    headers = {"Authorization": f"Bearer {furnished[1]['olena']}", "Host": "acme.localhost"}
    answer = client.get("/api/v1/users/me", headers=headers)
    assert answer.status_code == 200 and answer.headers["X-RateLimit-Remaining"] == "4999"
    assert client.get("/login", headers={"Host": "acme.localhost"}).status_code == 200
    app.tenants.forget_idle()


def test_two_servers_with_folders_of_their_own_give_a_tenant_its_plan(own, furnished, tmp_path):
    """Each of two processes, which fork after the application was made."""
    for name in ("first", "second"):
        copy_installation(furnished[0], tmp_path / name)
        (tmp_path / name / "secret.key").write_bytes(SECRET)
    settings = {"CRM_LIMITS": own.url, "CRM_PLANS": "business=150"}
    headers = {"Authorization": f"Bearer {furnished[1]['olena']}", "Host": "acme.localhost"}

    def ask(port: int) -> int:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
        connection.request("GET", "/api/v1/users/me", headers=headers)
        status = connection.getresponse().status
        connection.close()
        return status

    with (
        run_server(tmp_path / "first", workers=2, **settings) as first,
        run_server(tmp_path / "second", workers=2, **settings) as second,
    ):
        wait_for_window()
        ports = (first, second)
        seen = run_in_threads(8, lambda n: [ask(ports[(n + turn) % 2]) for turn in range(25)])
        assert sum(status == 200 for some in seen for status in some) == 150
        assert {status for some in seen for status in some} == {200, 429}
        own.kill()
        assert [ask(port) for port in ports] == [200, 200]
        own.start()
        time.sleep(redis_server.RETRY_SECONDS)
    assert (tmp_path / "first" / "counters").exists()


# The address


def test_a_socket_and_a_password_are_understood(tmp_path):
    socket = tmp_path / "redis.sock"
    options = ["--unixsocket", str(socket), "--requirepass", "p@ss:w/rd", "--databases", "4"]
    with run_redis(tmp_path, *options) as server:
        for url in (
            f"redis://:p%40ss%3Aw%2Frd@127.0.0.1:{server.port}/3",
            f"redis://default:p%40ss%3Aw%2Frd@localhost:{server.port}",
            f"unix://:p%40ss%3Aw%2Frd@{socket}?db=3",
        ):
            limiter = Limiter(make_counters(readers.redis(url), tmp_path / "a", b"the same key"))
            limiter.count_request("acme", 60, NOW)
    assert not (tmp_path / "a" / "counters").exists()


def test_tls_is_used_and_the_certificate_checked(tmp_path, caplog, monkeypatch):
    authority = trustme.CA()
    certificate = authority.issue_cert("127.0.0.1")
    certificate.private_key_and_cert_chain_pem.write_to_path(tmp_path / "server.pem")
    authority.cert_pem.write_to_path(tmp_path / "authority.pem")
    port = find_free_port()
    options = ["--tls-port", str(port), "--tls-auth-clients", "no"]
    options += ["--tls-cert-file", "server.pem", "--tls-key-file", "server.pem"]
    address = readers.redis(f"rediss://127.0.0.1:{port}/0")
    with run_redis(tmp_path, *options, "--tls-ca-cert-file", "authority.pem"):
        stranger = Limiter(make_counters(address, tmp_path / "a", b"the same key"))
        assert stranger.count_request("acme", 60, NOW).remaining == 59
        assert stranger.count_request("acme", 60, NOW).remaining == 58
        (line,) = lines(caplog)
        assert "certificate verify failed" in line
        monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "authority.pem"))
        limiter = Limiter(make_counters(address, tmp_path / "b", b"the same key"))
        assert limiter.count_request("acme", 60, NOW).remaining == 59
    assert not (tmp_path / "b" / "counters").exists()


ABSENT = """
import sys
sys.path.insert(0, ".")
from pathlib import Path
from crm import create_app
from tests.installations import config_for
app = create_app(config_for(Path(sys.argv[1])))
app.test_client().get("/login")
print([name for name in sys.modules if name.partition(".")[0] == "redis"])
"""


def test_redis_is_not_imported_without_the_setting(tmp_path):
    assert wait_for_processes(start_python(ABSENT, tmp_path)) == ["[]\n"]


MISSING = """
import sys
sys.path.insert(0, ".")
class Hidden:
    def find_spec(self, name, *_):
        if name == "redis":
            raise ModuleNotFoundError(name)
sys.path = [path for path in sys.path]
import importlib.util, importlib.machinery
found = importlib.machinery.PathFinder.find_spec
importlib.machinery.PathFinder.find_spec = classmethod(
    lambda cls, name, *more: None if name == "redis" else found(name, *more)
)
from crm.cli import main
sys.argv = ["crm", *sys.argv[1:]]
main()
"""


@each("command", ["doctor", "serve", "openapi"])
def test_a_missing_package_is_one_line_at_the_start(tmp_path, command, monkeypatch):
    monkeypatch.setenv("CRM_LIMITS", "redis://127.0.0.1")
    for name, text in environ_for(tmp_path).items():
        monkeypatch.setenv(name, text)
    process = start_python(MISSING, command, "--data", tmp_path)
    _, errors = process.communicate(timeout=30)
    assert process.returncode == 1
    assert errors == "Error: CRM_LIMITS needs the extra `redis`: pip install 'crm[redis]'\n"
    assert os.listdir(tmp_path) == []
