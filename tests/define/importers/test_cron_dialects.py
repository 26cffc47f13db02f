"""Imported cron expressions start at the same times as in the tool they come from.

The oracles below decide minute by minute by the rules of each tool. They share no code with the importers.
"""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta
from itertools import takewhile
from typing import NamedTuple
from zoneinfo import ZoneInfo

import pytest

from onthedot.clock import to_datetime, to_micros
from onthedot.define.importers.cron_dialects import from_crontab, from_kubernetes
from onthedot.define.importers.crontab import read_crontab
from onthedot.define.importers.kubernetes import read_cron_jobs
from onthedot.model.job import Job
from onthedot.schedules import slots
from tests.schedules import oracle

MINUTE = timedelta(minutes=1)
BOUNDS = ((0, 59), (0, 23), (1, 31), (1, 12), (0, 6))
CHANGES = [
    ("Europe/Berlin", "2026-03-29T01:00Z"), ("Europe/Berlin", "2026-10-25T01:00Z"),
    ("America/New_York", "2026-03-08T07:00Z"), ("America/New_York", "2026-11-01T06:00Z"),
]  # fmt: skip


class Field(NamedTuple):
    """A field of a Kubernetes schedule: its values, and whether it counts as a star."""

    values: frozenset[int]
    star: bool


def kubernetes_field(text: str, low: int, high: int) -> Field:
    values: set[int] = set()
    star = False
    for term in text.split(","):
        base, _, step = term.partition("/")
        first, dash, last = base.partition("-")
        if first in "*?":
            begin, end, star = low, high, star or int(step or 1) == 1
        else:
            begin = int(first)
            end = int(last) if dash else high if step else begin
        values |= set(range(begin, end + 1, int(step or 1)))
    return Field(frozenset(values), star)


def kubernetes_starts(expression: str, tz: str, start: datetime, end: datetime) -> list[datetime]:
    """Return every minute whose wall time matches. A time that the clocks show twice matches twice."""
    pairs = zip(expression.split(), BOUNDS, strict=True)
    minute, hour, day, month, weekday = (kubernetes_field(text, *bounds) for text, bounds in pairs)
    found = []
    for step in range((end - start) // MINUTE):
        at = start + step * MINUTE
        wall = at.astimezone(ZoneInfo(tz))
        by_day, by_weekday = wall.day in day.values, wall.isoweekday() % 7 in weekday.values
        is_day = by_day and by_weekday if day.star or weekday.star else by_day or by_weekday
        if wall.minute in minute.values and wall.hour in hour.values and wall.month in month.values and is_day:
            found.append(at)
    return found


def imported_starts(job: Job, start: datetime, end: datetime) -> list[datetime]:
    last = to_micros(end)
    each = [takewhile(last.__gt__, slots(one, to_micros(start) - 1, origin=0)) for one in job.schedules]
    return sorted({to_datetime(slot) for found in each for slot in found})


def cron_job(expression: str, tz: str) -> Job:
    manifest = {
        "schedule": expression, "timeZone": tz,
        "jobTemplate": {"spec": {"template": {"spec": {"containers": [{"image": "a"}]}}}},
    }  # fmt: skip
    found = read_cron_jobs(f"kind: CronJob\nmetadata: {{name: a}}\nspec: {manifest}")
    assert found.lost == []
    [job] = found.jobs
    return job


def random_field(dice: random.Random, low: int, high: int, stars: tuple[str, ...]) -> str:
    def term() -> str:
        first, last = sorted((dice.randint(low, high), dice.randint(low, high)))
        step = dice.randint(1, high - low)
        forms = (f"{first}", f"{first}-{last}", f"{first}-{last}/{step}", f"{first}/{step}", f"*/{step}", *stars)
        return dice.choice(forms)

    return ",".join(term() for _ in range(dice.choice((1, 1, 1, 2, 3))))


@pytest.mark.parametrize("seed", range(40))
def test_a_cron_job_starts_on_the_same_days_as_in_kubernetes(seed: int):
    dice = random.Random(seed)
    days, weekdays = random_field(dice, 1, 31, ("*", "?", "*/1")), random_field(dice, 0, 6, ("*", "?", "*/1"))
    expression = f"0 12 {days} {dice.choice(('*', '*/2', '2-6'))} {weekdays}"
    start = datetime(2026, 1, 1, tzinfo=UTC)
    noons = [start + timedelta(days=day, hours=12) for day in range(365)]
    expected = [noon for noon in noons if kubernetes_starts(expression, "UTC", noon, noon + MINUTE)]
    assert imported_starts(cron_job(expression, "UTC"), start, start + timedelta(days=365)) == expected, expression


@pytest.mark.parametrize("seed", range(24))
@pytest.mark.parametrize(("tz", "change"), CHANGES)
def test_a_cron_job_starts_as_in_kubernetes_when_clocks_change(seed: int, tz: str, change: str):
    dice = random.Random(seed)
    at = datetime.fromisoformat(change)
    hours = dice.choice(("2", "1,2", "1-3", "*/2", "*", "0-6/2", "2/2"))
    expression = f"{random_field(dice, 0, 59, ('*',))} {hours} * * *"
    start, end = at - timedelta(hours=4), at + timedelta(hours=4)
    expected = kubernetes_starts(expression, tz, start, end)
    assert imported_starts(cron_job(expression, tz), start, end) == expected, expression


@pytest.mark.parametrize("seed", range(24))
@pytest.mark.parametrize(("tz", "change"), CHANGES)
def test_a_crontab_starts_as_in_debians_cron_when_clocks_change(seed: int, tz: str, change: str):
    dice = random.Random(seed)
    at = datetime.fromisoformat(change)
    days = dice.choice(("* * *", "*/2 * 0", "29 * 0", "1-31/2 * 0-6/2", "25,8 3,10 *"))
    expression = f"{random_field(dice, 0, 59, ('*',))} {dice.choice(('2', '1-3', '*/2', '*', '0-6/2'))} {days}"
    start, end = at - timedelta(hours=8), at + timedelta(hours=8)
    [job] = read_crontab(f"CRON_TZ={tz}\n{expression} /usr/bin/true").jobs
    expected = oracle.slots_between(expression, tz, "run_after", "first", start, end)
    assert imported_starts(job, start, end) == expected, expression


@pytest.mark.parametrize("seed", range(30))
def test_random_values_lie_within_their_bounds_and_vary(seed: int):
    dice = random.Random(seed)
    low, high = sorted((dice.randint(0, 59), dice.randint(0, 59)))
    text, bounds = dice.choice(
        [(f"{low}~{high}", (low, high)), (f"{low}~", (low, 59)), (f"~{high}", (0, high)), ("~", (0, 59))]
    )
    start = datetime(2026, 1, 1, tzinfo=UTC)
    chosen = set()
    for number in range(40):
        [job] = read_crontab(f"{text} 4 * * * /usr/bin/job{number}", tz="UTC").jobs
        minutes = {slot.minute for slot in imported_starts(job, start, start + timedelta(days=3))}
        assert len(minutes) == 1, text
        chosen |= minutes
    assert bounds[0] <= min(chosen) <= max(chosen) <= bounds[1], text
    assert len(chosen) > min(8, (bounds[1] - bounds[0]) // 2), text


@pytest.mark.parametrize(
    ("theirs", "ours"),
    [
        ("0 0 */2 * 1", "0 0 1-31/2 * 1"),  # odd days or Mondays
        ("0 0 1 * */2", "0 0 1 * 0-6/2"),
        ("0 0 */2 * */3", "0 0 1-31/2 * 0-6/3"),
        ("0 0 */2,5 * MON", "0 0 1-31/2,5 * MON"),
        ("0 0 */1 * 1", "0 0 * * 1"),  # Mondays
        ("0 0 1,* * 1", "0 0 * * 1"),
        ("0 0 ? * 1-5", "0 0 * * 1-5"),
        ("0 0 ?/2 * 1", "0 0 1-31/2 * 1"),
        ("0 0 */2 * *", "0 0 */2 * *"),  # means the same: unchanged
        ("*/5 0-6/2 1 * 1", "*/5 0-6/2 1 * 1"),
        ("@daily", "@daily"),
    ],
)
def test_day_fields_of_kubernetes_are_translated(theirs: str, ours: str):
    made = from_kubernetes(theirs)
    assert made.expression == ours
    assert bool(made.notes) == (theirs.replace("?", "*") != ours)


@pytest.mark.parametrize(
    ("theirs", "ours"),
    [
        ("30~ 3 * * *", "H(30-59) 3 * * *"),
        ("~20 3 * * *", "H(0-20) 3 * * *"),
        ("~ ~ * * *", "H H * * *"),
        ("5,20~40 1~5 * * *", "5,H(20-40) H(1-5) * * *"),
        ("~/10 * * * *", "H/10 * * * *"),
        ("0~29/10 * * * *", "H(0-29)/10 * * * *"),
        ("0 0 1~28 * *", "0 0 H(1-28) * *"),
        ("0 0 10~ * *", "0 0 H(10-28) * *"),
        ("0 0 29~31 * *", "0 0 29 * *"),
        ("0 0 * jan~mar *", "0 0 * H(jan-mar) *"),
        ("0 0 * * mon~fri", "0 0 * * H(mon-fri)"),
        ("0 0 * * 0~7", "0 0 * * H(0-6)"),
        ("0 0 * * *", "0 0 * * *"),
    ],
)
def test_random_values_of_crontabs_become_h(theirs: str, ours: str):
    made = from_crontab(theirs)
    assert made.expression == ours
    assert all(f"'{one}'" in " ".join(made.notes) for field in theirs.split() for one in field.split(",") if "~" in one)
    assert read_crontab(f"{theirs} /usr/bin/true").lost == []
