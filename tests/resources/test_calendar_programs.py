"""The calendar of a user as other projects' programs read it: ics, khal, ical.js and node-ical."""

import json
import os
import re
import subprocess
from datetime import UTC, datetime, timedelta
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest

from tests import external_programs
from tests.conftest import Api
from tests.page_client import Person

pytestmark = [pytest.mark.process, pytest.mark.slow]

NPM_PACKAGES = ("ical.js@2.2.1", "node-ical@0.26.1")
# Times of tasks and of their reminders: on both sides of changes of the clocks, and far ones.
TASKS = {
    "Дзвінок": ("2026-03-28T23:30:00Z", None),
    "Літній час": ("2026-03-29T07:30:00Z", "2026-03-28T16:00:00Z"),
    "Зустріч": ("2026-10-26T08:00:00Z", "2026-10-24T08:00:00Z"),
    "Потім": ("2027-01-01T12:00:00Z", "2027-01-01T13:30:00Z"),
    "Вчасно": ("2027-06-01T12:00:00Z", "2027-06-01T12:00:00Z"),
    "Давнє": ("2027-06-02T12:00:00Z", "1900-01-01T00:00:00Z"),
    "Далеке": ("9998-12-31T23:59:59Z", "9999-12-31T23:59:59Z"),
    "Ніколи": ("9999-12-31T23:59:59Z", "9999-12-31T23:59:59Z"),
}
# What a program must read: the title, the time of the event in UTC, its end and its alarm.
Event = tuple[str, str, str, str]
EXPECTED: list[Event] = sorted(
    (title, due_at, f"{due + timedelta(minutes=30):%Y-%m-%dT%H:%M:%SZ}",
     remind_at or f"{due - timedelta(minutes=15):%Y-%m-%dT%H:%M:%SZ}")
    for title, (due_at, remind_at) in TASKS.items()
    if title != "Ніколи" and (due := datetime.fromisoformat(due_at))
)  # fmt: skip
READ = """
import ICAL from "ical.js";
import ical from "node-ical";
import fs from "fs";

const text = fs.readFileSync(process.argv[2], "utf8");
const iso = (date) => date.toISOString().replace(".000Z", "Z");
const after = (date, seconds) => iso(new Date(date.getTime() + 1000 * seconds));
const events = { "ical.js": [], "node-ical": [] };
for (const component of new ICAL.Component(ICAL.parse(text)).getAllSubcomponents("vevent")) {
  const event = new ICAL.Event(component);
  const [start, end] = [event.startDate.toJSDate(), event.endDate.toJSDate()];
  const trigger = component.getFirstSubcomponent("valarm").getFirstPropertyValue("trigger");
  const alarm = after(start, trigger.toSeconds());
  events["ical.js"].push([event.summary, iso(start), iso(end), alarm]);
}
for (const event of Object.values(ical.sync.parseICS(text))) {
  if (event.type !== "VEVENT") continue;
  const seconds = ICAL.Duration.fromString(event.alarms[0].trigger).toSeconds();
  const alarm = after(event.start, seconds);
  events["node-ical"].push([event.summary, iso(event.start), iso(event.end), alarm]);
}
console.log(JSON.stringify(events));
"""


def run(*command: object, folder: Path) -> str:
    """Run a program with its settings and files in a folder; gives what it prints."""
    homes = ("HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_CACHE_HOME")
    environ = os.environ | dict.fromkeys(homes, str(folder))
    done = subprocess.run(
        [*map(str, command)],
        cwd=folder,
        env=environ,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture
def feed(api: Api, olena: Person, tmp_path: Path) -> Path:
    """The file that a program gets at the private address of Olena's calendar."""
    for title, (due_at, remind_at) in TASKS.items():
        api.create("/tasks", title=title, due_at=due_at, remind_at=remind_at)
    page = olena.post("/settings/profile/calendar").text
    path = tmp_path / "tasks.ics"
    path.write_bytes(olena.get(re.search(r"(/calendar/[\w-]+\.ics)", page)[1]).data)
    return path


def utc(moment: datetime) -> str:
    return f"{moment.astimezone(UTC):%Y-%m-%dT%H:%M:%SZ}"


# From Python 3.13 on, `re` warns of how ics calls it.
@pytest.mark.filterwarnings("ignore:'maxsplit' is passed:DeprecationWarning")
def test_ics_reads_each_event_and_its_alarm(feed: Path) -> None:
    import ics  # not above: without it the other programs are tried all the same

    events = []
    for event in ics.Calendar(feed.read_text("utf-8")).events:
        (alarm,) = event.alarms
        times = (event.begin, event.end, event.begin + alarm.trigger)
        events.append((event.name, *(utc(time.datetime) for time in times)))
    assert sorted(events) == EXPECTED


@pytest.mark.deep  # they come from the network
def test_packages_of_npm_read_each_event_and_its_alarm(feed: Path) -> None:
    npm, folder = external_programs.found("npm"), feed.parent
    options = ("--no-package-lock", "--no-audit", "--no-fund", "--ignore-scripts")
    run(npm, "install", *options, "--loglevel=error", *NPM_PACKAGES, folder=folder)
    script = folder / "read.mjs"
    script.write_text(READ, "utf-8")
    program = external_programs.found("nodejs", "node")
    for package, events in json.loads(run(program, script, feed, folder=folder)).items():
        assert sorted(map(tuple, events)) == EXPECTED, package


@pytest.mark.parametrize(
    "zone", ["Europe/Kyiv", pytest.param("Pacific/Kiritimati", marks=pytest.mark.deep)]
)
def test_khal_shows_each_event_in_its_zone_and_its_alarm(feed: Path, zone: str) -> None:
    khal, folder = external_programs.found("khal"), feed.parent
    day, time = "%Y-%m-%d", "%Y-%m-%d %H:%M"
    formats = {"dateformat": day, "longdateformat": day, "timeformat": "%H:%M"}
    formats |= {"datetimeformat": time, "longdatetimeformat": time}
    formats |= {"local_timezone": zone, "default_timezone": zone}
    lines = ["[calendars]", "[[tasks]]", f"path = {folder}/tasks", "[locale]"]
    lines += [f"{name} = {value}" for name, value in formats.items()]
    config = folder / "khal.conf"
    config.write_text("\n".join([*lines, "[sqlite]", f"path = {folder}/khal.db", ""]), "utf-8")
    (folder / "tasks").mkdir()
    run(khal, "-c", config, "import", "--batch", feed, folder=folder)
    shown = "{title}|{start-long-full}|{end-long-full}|{alarm-symbol}"
    listed = run(khal, "-c", config, "search", "--format", shown, "", folder=folder)
    expected = []
    for title, start, end, _ in EXPECTED:
        local = [datetime.fromisoformat(text).astimezone(ZoneInfo(zone)) for text in (start, end)]
        expected.append(f"{title}|{local[0]:{time}}|{local[1]:{time}}| \N{ALARM CLOCK}")
    assert sorted(listed.splitlines()) == expected
