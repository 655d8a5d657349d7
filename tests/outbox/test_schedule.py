"""When the sender looks at a tenant again."""

from crm.outbox.schedule import Schedule


def test_the_earliest_time_of_a_tenant_counts():
    schedule = Schedule()
    for at in (30.0, 10.0, 20.0):
        schedule.add("acme", at)
    schedule.add("globex", 15.0)
    assert schedule.seconds_until_next(4.0) == 6.0
    assert schedule.take_due(9.0) is None
    assert [schedule.take_due(40.0) for _ in range(3)] == ["acme", "globex", None]
    assert schedule.seconds_until_next(40.0) is None


def test_a_tenant_that_is_woken_often_has_one_entry():
    schedule = Schedule()
    for _ in range(1000):
        schedule.add("acme", 90.0)  # the same far retry
    for number in range(1000):
        schedule.add("globex", 90.0 + number)  # a file that cannot be used: later at each wake-up
    assert len(schedule) == 2


def test_a_far_check_is_entered_once_however_many_earlier_ones_come_between():
    schedule = Schedule()
    for at in range(100):
        schedule.add("acme", 900.0)
        schedule.add("acme", float(at))
        assert schedule.take_due(float(at)) == "acme"
    assert len(schedule) == 1
    schedule.add("acme", 900.0)
    assert (schedule.take_due(899.0), schedule.take_due(900.0)) == (None, "acme")
