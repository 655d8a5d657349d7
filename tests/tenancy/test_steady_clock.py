"""A machine's clock that is wrong erases nothing, delays nothing and gives no limit anew."""

import pytest

from crm.access import codes, links, sessions
from crm.access.limits import SmsLimits, TryLimits
from crm.errors import TooMany
from crm.installation.tenants import Tenants
from crm.limits.counters import Counters
from crm.limits.windows import PASSWORDS
from crm.outbox import deliveries
from crm.outbox.call import Outcome
from crm.outbox.subscriptions import Webhook
from crm.resources import webhooks
from crm.resources.clients import record as clients
from crm.resources.leads import record as leads
from crm.steady_clock import SteadyClock
from crm.storage import sweeps, uploads
from crm.storage.session import now, row, rows

HOUR, DAY = 3600, 86_400
FORTY_DAYS = 40 * DAY
MARIA = {"name": "Марія", "phone": "+380671234567"}
PHONE = MARIA["phone"]


class Machine:
    """Its wall clock, and how long it has been running."""

    def __init__(self) -> None:
        self.wall, self.up = 1_772_442_000.0, 5000.0

    def run(self, seconds: float) -> None:
        self.wall += seconds
        self.up += seconds

    def step(self, seconds: float) -> None:
        self.wall += seconds

    def restart(self, off: float, up: float = 20) -> None:
        self.wall += off + up
        self.up = up


@pytest.fixture
def machine() -> Machine:
    return Machine()


@pytest.fixture
def of(machine, tmp_path):
    """A clock as another process of the installation has it."""

    def clock(is_new: bool = True) -> SteadyClock:
        path = tmp_path / "clock"
        return SteadyClock(lambda: machine.wall, lambda: machine.up, path, lambda: is_new)

    return clock


def watch(clock: SteadyClock, machine: Machine, seconds: float, every: float = 60) -> None:
    """The machine runs, and the clock is looked at in between."""
    for _ in range(int(seconds / every)):
        machine.run(every)
        clock.now(), clock.erasing_now()


def times(clock: SteadyClock, machine: Machine) -> tuple[float, float]:
    """How far both times are from the wall clock."""
    return clock.now() - machine.wall, clock.erasing_now() - machine.wall


# The times


def test_it_is_the_wall_clock_while_nothing_is_wrong(machine, of):
    clock = of()
    for seconds in (0, 1, 59, HOUR, 100 * DAY):
        machine.run(seconds)
        assert times(clock, machine) == (0, 0)
    machine.step(-50)  # a clock that is a little wrong and set right
    assert times(clock, machine) == (0, 0)


@pytest.mark.parametrize("ahead", [61, HOUR, FORTY_DAYS, 30 * 365 * DAY])
def test_a_clock_ahead_for_two_seconds_is_never_believed(machine, of, ahead):
    clock = of()
    clock.now()
    machine.step(ahead)
    for _ in range(3):
        assert times(clock, machine) == times(of(), machine) == (-ahead, -ahead)
        machine.run(1)
    machine.step(-ahead)
    assert times(clock, machine) == (0, 0)


def test_a_clock_that_stays_ahead_is_believed_after_a_minute_and_after_a_day(machine, of):
    clock = of()
    clock.now()
    machine.step(FORTY_DAYS)
    clock.now()
    machine.run(59)
    assert times(clock, machine) == (-FORTY_DAYS, -FORTY_DAYS)
    machine.run(1)
    assert times(clock, machine) == (0, -FORTY_DAYS)
    watch(clock, machine, DAY - 120)
    assert times(clock, machine) == (0, -FORTY_DAYS)
    watch(clock, machine, 120)
    assert times(clock, machine) == (0, 0)


def test_a_clock_set_back_delays_nothing_by_more_than_a_minute_a_day(machine, of):
    clock = of()
    clock.now()
    machine.step(-HOUR)
    assert times(clock, machine) == (HOUR, 0)
    due = clock.now() + DAY
    watch(clock, machine, DAY)
    assert due - 61 <= clock.now() <= due
    watch(clock, machine, 60 * DAY, every=HOUR)
    now, erasing = times(clock, machine)
    assert 0 <= now <= 61
    assert erasing == 0


def test_a_server_off_for_two_months_erases_from_its_second_day_on(machine, of):
    clock = of()
    clock.now()
    machine.restart(off=60 * DAY)
    again = of(is_new=False)
    assert again.erasing_now() < machine.wall - 59 * DAY
    watch(again, machine, DAY - 60)
    assert again.erasing_now() < machine.wall - 59 * DAY
    assert again.now() == machine.wall
    watch(again, machine, 120)
    assert again.erasing_now() == machine.wall


@pytest.mark.parametrize("up", [1, 20, 4999.5, 5001, 90_000])
def test_a_restart_of_the_machine_is_never_taken_for_more_time_than_passed(machine, of, up):
    clock = of()
    clock.now()
    machine.restart(off=2 * HOUR, up=up)
    before, erasing = times(of(), machine)
    assert before <= 0
    assert erasing <= 0


def test_without_its_file_nothing_is_erased_for_a_day_unless_there_is_nothing(
    machine, of, tmp_path
):
    assert of(is_new=True).erasing_now() == machine.wall
    for spoiled in (None, b"", b"{", b"[]", b'{"uptime": 1}'):
        (tmp_path / "clock").unlink()
        if spoiled is not None:
            (tmp_path / "clock").write_bytes(spoiled)
        clock = of(is_new=False)
        assert clock.now() == machine.wall
        assert clock.erasing_now() < DAY
        watch(clock, machine, DAY + 120)
        assert clock.erasing_now() == machine.wall


# What they decide


@pytest.fixture
def acme(crm, machine):
    """The tenant acme on that machine, whose clock has been right for a day."""
    (crm.tenants.config.data / "clock").unlink()
    start_anew(crm, machine)
    watch(crm.tenants.steady_clock, machine, DAY + 120)
    with crm.tenants.session("acme"):
        sweeps.run()
    return crm.tenants


def start_anew(crm, machine) -> None:
    """A new process of the server begins."""
    crm.tenants.forget_idle()
    crm.tenants = Tenants(crm.tenants.config, lambda: machine.wall, lambda: machine.up)


def count(table: str) -> int:
    return row(f"SELECT count(*) FROM {table}")[0]


def wrong_for_two_seconds(machine, act, ahead: float = FORTY_DAYS) -> None:
    machine.step(ahead)
    act()
    machine.run(2)
    act()
    machine.step(-ahead)


def test_first_requests_by_a_clock_ahead_delete_nothing(acme, machine, crm, api):
    lead = api.create("/leads", **MARIA)
    assert api.delete(f"/leads/{lead}").status_code == 204
    api.post("/tasks", {"title": "Call"}, headers={"Idempotency-Key": "k"})
    with acme.session("acme"):
        webhooks.create({"url": "https://erp.example.com/crm"})
        codes.create(codes.LOGIN, PHONE, "browser")
        sessions.open(1, "")
        links.create(links.RESET, 1)
        name = uploads.save(1, b"sku")
    api.create("/leads", **MARIA)
    tables = (
        *("event", "delivery", "idempotency_response", "lead"),
        *("sms_code", "session", "one_time_link"),
    )

    def counts() -> list[int]:
        with acme.session("acme"):
            return [count(table) for table in tables]

    before = counts()
    assert min(before) > 0

    def come() -> None:
        start_anew(crm, machine)
        for _ in range(3):
            api.read("/users")

    wrong_for_two_seconds(machine, come)
    assert counts() == before
    replay = api.post("/tasks", {"title": "Call"}, headers={"Idempotency-Key": "k"})
    assert replay.headers["Idempotency-Replayed"] == "true"
    with acme.session("acme"):
        assert uploads.read(1, name) == b"sku"
    acme.forget_idle()


def test_a_sweep_goes_on_after_one_by_a_clock_ahead(acme, machine):
    with acme.session("acme"):
        leads.create(MARIA)
        wrong_for_two_seconds(machine, sweeps.run)
        assert sweeps.is_due()
        sweeps.run()
        assert not sweeps.is_due()
        for _ in range(31 * 24 + 1):  # so that the clock is looked at
            machine.run(HOUR)
            sweeps.is_due()
        assert sweeps.is_due()
        sweeps.run()
        assert count("event") == 0


def endpoint() -> int:
    return webhooks.create({"url": "https://erp.example.com/crm"})[0]


def send(status: int = 500) -> list[int]:
    """Send all that is due; gives which."""
    claimed = deliveries.claim_due("tests", 50, 50)[0]
    for sent in claimed:
        deliveries.record_outcome(sent, now(), Outcome(duration_ms=1, status=status))
    return [sent.id for sent in claimed]


def test_a_clock_ahead_sends_no_retry_early_and_frees_no_lease(acme, machine):
    with acme.session("acme"):
        endpoint()
        leads.create(MARIA)
        assert send() == [1]
        leads.create(MARIA)
        claimed, _ = deliveries.claim_due("tests", 50, 50)
        assert [sent.id for sent in claimed] == [2]
        tries = []
        wrong_for_two_seconds(machine, lambda: tries.append(send()))
        assert tries == [[], []]


@pytest.mark.parametrize("back", [61, HOUR, 300 * DAY])
def test_a_clock_set_back_delays_a_retry_by_no_more_than_a_minute(acme, machine, back):
    with acme.session("acme"):
        endpoint()
        leads.create(MARIA)
        for delay in deliveries.RETRY_DELAYS_SECONDS[:7]:
            assert send() == [1]
            machine.step(-back)
            machine.run(delay * (1 + deliveries.MAX_JITTER) + 60)
        assert send() == [1]


def test_a_clock_ahead_pauses_no_endpoint(acme, machine):
    with acme.session("acme"):
        id = endpoint()
        leads.create(MARIA)
        send()
        machine.run(10)
        clients.create({"name": "Ромашка"})
        wrong_for_two_seconds(machine, lambda: machine.run(10) or send())
        assert send() == [] != rows("SELECT at FROM attempt")
        assert Webhook.find(id).active
        # One that began to fail in the wrong seconds is paused in its time.
        assert row("SELECT failing_since FROM webhook")[0] <= now()


def test_a_step_of_the_clock_begins_no_new_window_and_its_end_is_of_the_wall_clock(
    machine, api, acme
):
    left = []
    for step in (0, FORTY_DAYS, -FORTY_DAYS, -HOUR, HOUR + 30):
        machine.step(step)
        headers = api.get("/users").headers
        left.append(int(headers["X-RateLimit-Remaining"]))
        seconds = int(headers["X-RateLimit-Reset"]) - machine.wall
        assert 0 < seconds <= 60
        assert abs(seconds - int(headers["RateLimit"].rpartition("t=")[2])) <= 1
    assert left == [left[0] - asked for asked in range(5)]
    machine.run(60)
    assert int(api.get("/users").headers["X-RateLimit-Remaining"]) == left[0]


def test_a_step_of_the_clock_gives_no_more_sms_codes_or_tries(acme, machine, tmp_path):
    limits = SmsLimits(Counters(tmp_path, lambda: b"a key"))
    tries, refused = TryLimits(acme.counters, PASSWORDS, account=2), 0
    with acme.session("acme"):
        waits = []
        for step in (0, FORTY_DAYS, -FORTY_DAYS, -HOUR, HOUR):
            machine.step(step)
            limits.count_sms(PHONE, "192.0.2.1", acme.steady_clock.now(), tenant="acme")
            waits.append(codes.seconds_until_next(codes.LOGIN, PHONE))
            if not waits[-1]:
                code = codes.create(codes.LOGIN, PHONE, "browser").code
            try:
                tries.count_try(acme.steady_clock.uptime(), account="acme/1")
            except TooMany:
                refused += 1
        assert (waits, refused) == ([0, 60, 60, 60, 60], 3)
        assert not limits.count_sms(PHONE, "192.0.2.1", acme.steady_clock.now(), tenant="acme")
        machine.run(61)
        assert codes.seconds_until_next(codes.LOGIN, PHONE) == 0
        assert codes.check(codes.LOGIN, PHONE, "browser", code)
