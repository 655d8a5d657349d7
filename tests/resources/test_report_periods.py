"""The periods of reports: which days they have, and with which they are compared."""

from datetime import datetime

from crm.resources import tenant
from crm.resources.reports import periods
from crm.resources.reports.periods import Period
from crm.storage.session import transaction
from tests.cases import loop_over


def set_clock(clock, text):
    clock.moment = datetime.fromisoformat(text).timestamp()


@loop_over(
    "now, name, days, before",
    [
        ("2026-03-02T09:00:00Z", "month", "2026-03-01 2026-03-31", "2026-02-01 2026-02-02"),
        ("2026-03-30T09:00:00Z", "month", "2026-03-01 2026-03-31", "2026-02-01 2026-02-28"),
        ("2026-03-02T09:00:00Z", "last_month", "2026-02-01 2026-02-28", "2026-01-01 2026-01-31"),
        ("2026-01-15T09:00:00Z", "last_month", "2025-12-01 2025-12-31", "2025-11-01 2025-11-30"),
        ("2026-03-02T09:00:00Z", "quarter", "2026-01-01 2026-03-31", "2025-10-01 2025-11-30"),
        ("2028-02-29T09:00:00Z", "year", "2028-01-01 2028-12-31", "2027-01-01 2027-03-01"),
    ],
)
def test_a_named_period_is_compared_with_the_same_days_before(acme, clock, now, name, days, before):
    set_clock(clock, now)
    assert periods.named(name) == (Period(*days.split()), Period(*before.split()))


def test_today_is_the_day_of_the_tenant(acme, clock):
    set_clock(clock, "2026-03-31T23:30:00Z")
    for zone, day in {"Europe/Kyiv": "2026-04-01", "America/Bogota": "2026-03-31"}.items():
        with transaction():
            tenant.update(time_zone=zone)
        assert f"{periods.today()}" == day


@loop_over(
    "days, before",
    [
        ("2026-03-01 2026-03-31", "2026-01-29 2026-02-28"),
        (" 2026-03-01", " 2026-03-01"),
        # Those without as many days before them are not compared.
        ("1900-01-01 9999-12-31", "1900-01-01 9999-12-31"),
        ("1900-02-01 1900-03-04", "1900-02-01 1900-03-04"),
        ("9999-12-31 1900-01-01", "9999-12-31 1900-01-01"),
    ],
)
def test_before_own_dates_are_as_many_days(days, before):
    assert Period(*days.split(" ")).before() == Period(*before.split(" "))


def test_the_parts_of_a_period_have_each_of_its_days_once():
    for period in (
        Period("2026-01-31", "2026-03-01"),
        Period("2025-01-17", "2026-06-16"),
        Period("1900-01-02", "1901-12-31"),
        Period("9990-01-31", "9999-12-31"),
    ):
        parts = list(period.parts())
        assert parts[0][1].since == period.since
        assert parts[-1][1].until == period.until
        for (_, part), (_, following) in zip(parts, parts[1:], strict=False):
            assert part.until < following.since
            assert following.before().until == part.until
        names = [name for name, _ in parts]
        assert sorted(set(names)) == names
    assert len(list(Period("2026-01-01", "2026-03-03").parts())) == 62
    assert [name for name, _ in Period("2026-01-01", "2026-03-04").parts()] == [
        *("2026-01", "2026-02", "2026-03")
    ]
