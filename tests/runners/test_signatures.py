"""Arguments of handlers are checked by the handler's annotations: before they are stored, and before the call."""

from __future__ import annotations

import doctest
import enum
import functools
import pickle
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any, Literal, NewType, Optional, TypedDict

import pytest
from hypothesis import given
from hypothesis import strategies as st

import onthedot as otd
from onthedot.model.errors import ArgumentsError
from onthedot.model.job import canonical
from onthedot.model.run import NewRun, RunState
from onthedot.runners import signatures
from onthedot.runners.registry import Handler
from onthedot.runners.signatures import compiled
from onthedot.testing import Harness, run_virtual

if TYPE_CHECKING:
    from decimal import Decimal


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Mode(enum.IntFlag):
    READ = 1
    WRITE = 2


class Side(enum.Flag):
    LEFT = 1
    RIGHT = 2


class Level(enum.Enum):
    LOW = "low"

    @classmethod
    def _missing_(cls, value: object) -> Level | None:
        return cls.LOW if str(value).lower() == "low" else None


class Alias:
    """As Python 3.12 makes it from `type Name = …`."""

    __value__: Any

    def __repr__(self) -> str:
        return "an alias"


Json, Endless = Alias(), Alias()
Json.__value__ = list[Json] | dict[str, Json] | int  # type: ignore[valid-type]
Endless.__value__ = Endless
Nested = list["Nested"] | int


class Order(TypedDict):
    id: int


@dataclass
class Point:
    x: int


Id = NewType("Id", int)
OLD_STYLE = Optional[int]  # noqa: UP045 - users write it

GOOD: list[tuple[Any, Any]] = [
    (int, 3), (float, 3), (float, 2.5), (str, ""), (bool, False), (None, None), (Id, 7),
    (OLD_STYLE, None), (int | str, "a"), (int | None, 3), (Annotated[int, {"ge": 1}], 3),
    (list[int], [1]), (list[int], (1,)), (Sequence[str], []), (tuple[int, ...], [1, 2]), (tuple[int, str], [1, "a"]),
    (dict[str, int], {"a": 1}), (Mapping[str, list[float]], {"a": [1]}), (dict[int, str], {"1": "a"}), (list, [object]),
    (Sequence[str], "abc"), (Sequence, "abc"), (Sequence[Any], "abc"), (Json, [[[1], "x"], {"a": [2]}]), (Json, 3),
    (Literal["a", 1], 1), (Colour, "red"), (Order, {"id": "?"}), (tuple, [1]), (dict, {}),
]  # fmt: skip
WRONG: list[tuple[Any, Any]] = [
    (int, "3"), (int, True), (int, 3.0), (int, None), (float, "1"), (float, False), (str, 3), (bool, 1), (bool, "true"),
    (None, 0), (Id, "7"), (OLD_STYLE, "3"), (int | str, 1.5), (Annotated[int, []], "3"), (list[int], ["1"]),
    (list[int], 1), (list[str], "text"), (tuple[int, str], [1]), (tuple[int, str], ["a", 1]), (dict[str, int], [1]),
    (dict[str, int], {"a": "1"}), (Literal["a", 1], True), (Literal["a"], "b"), (Colour, "green"), (Order, 3),
    (Sequence[int], "12"), (Sequence[str], [1]), (Sequence[str], {"a": 1}), (Json, "x"),
]  # fmt: skip
UNKNOWN: list[Any] = [
    Any, object, datetime, Point, set[int], Callable[[], int], bytes, int | datetime, complex,
    Mode, Side, Level, Mode | int, Endless, list[Endless] | datetime,  # type: ignore[valid-type]
]  # fmt: skip


@pytest.mark.parametrize(("hint", "value"), GOOD)
def test_a_value_that_fits_its_annotation_is_accepted(hint: Any, value: Any):
    check = compiled(hint)
    assert check is not None
    assert check[1](value)


@pytest.mark.parametrize(("hint", "value"), WRONG)
def test_a_value_that_does_not_fit_its_annotation_is_refused(hint: Any, value: Any):
    check = compiled(hint)
    assert check is not None
    assert not check[1](value)


@pytest.mark.parametrize("hint", UNKNOWN, ids=str)
def test_annotations_without_a_json_type_are_not_checked(hint: Any):
    assert compiled(hint) is None


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    )
)
def test_a_check_never_raises(value: Any):
    for hint, _ in GOOD + WRONG:
        check = compiled(hint)
        assert check is not None
        assert check[1](value) in (True, False)


def test_the_examples_are_true():
    assert doctest.testmod(signatures).failed == 0


# ── handlers ─────────────────────────────────────────────────────────────────────────────────────────────────────


def double(n: int, *, note: str = None, price: Decimal = 0, **more: int) -> int:  # type: ignore[assignment]  # noqa: RUF013
    return 2 * n


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"n": 3}, None),
        ({"n": 3, "note": None}, None),  # its default allows None
        ({"n": 3, "price": "1.50"}, None),  # Decimal is imported only for type checkers, so it cannot be checked
        ({"n": 3, "other": "x"}, None),
        ({"n": "x"}, 'n: expected int, got "x"'),
        ({"n": True, "note": 5}, "n: expected int, got true; note: expected str, got 5"),
        ({}, "missing a required argument: 'n'"),
        ({"n": list(range(100))}, "…"),
    ],
)
def test_a_handler_reports_the_arguments_that_do_not_fit(arguments: dict[str, Any], words: str | None):
    problem = Handler.of("double", double).check_arguments(arguments)
    assert problem is None if words is None else problem is not None and words in problem


def test_a_decorator_may_convert_values():
    @functools.wraps(double)
    def converts(n: Any) -> int:
        return double(int(n))

    assert Handler.of("double", converts).check_arguments({"n": "3"}) is None


def nested(tree: Nested) -> None: ...


def test_a_type_may_be_recursive():
    handler = Handler.of("nested", nested)
    assert handler.check_arguments({"tree": [[1], [[2]]]}) is None
    assert handler.check_arguments({"tree": 3}) is None


def with_db(function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        return function(*args, db="a connection", **kwargs)

    return wrapper


def only_n(function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def wrapper(n: Any) -> Any:
        return function(n, db="a connection")

    return wrapper


def store_row(n: int, db: str) -> tuple[int, str]:
    return n, db


@pytest.mark.parametrize("decorate", [with_db, only_n])
def test_a_decorator_may_add_arguments(decorate: Callable[..., Any]):
    handler = Handler.of("store_row", decorate(store_row))
    assert handler.check_arguments({"n": 3}) is None
    assert handler.signature.problem({"n": 3}, complete=False) is None


def test_an_argument_that_the_decorator_does_not_accept_is_refused():
    problem = Handler.of("store_row", only_n(store_row)).check_arguments({"n": 3, "db": "mine"})
    assert problem is not None
    assert problem.startswith("arguments do not fit store_row(n: 'int')")
    assert problem.endswith("got an unexpected keyword argument 'db'")


def test_a_decorated_handler_with_a_context_is_checked():
    @with_db
    def noted(ctx: otd.Context, n: int, db: str) -> None: ...

    handler = Handler.of("noted", noted)
    assert handler.takes_context
    assert handler.check_arguments({"n": 3}) is None


def test_a_decorated_handler_is_called():
    ended: list[Any] = []

    async def live() -> None:
        harness = Harness("2026-01-01T00:00Z")
        sched = otd.Scheduler("memory:")
        sched.job(name="store_row")(with_db(lambda n, db: ended.append((n, db))))
        await harness.start(sched)
        await sched.submit("store_row", {"n": 3})
        await harness.advance("1s")
        await harness.stop()

    run_virtual(live())
    assert ended == [(3, "a connection")]


def test_the_error_can_be_named_and_pickled():
    error = pickle.loads(pickle.dumps(otd.BadArguments("n: expected int")))  # noqa: S301 - it is our own
    assert type(error) is otd.BadArguments
    assert str(error) == "n: expected int"
    assert issubclass(otd.BadArguments, otd.ArgumentsError)
    assert otd.Retry(3, on=(otd.BadArguments,)) == otd.Retry(3, on=("onthedot.BadArguments",))


def program(called: list[Any]) -> otd.Scheduler:
    sched = otd.Scheduler("memory:")

    @sched.job(retry=otd.Retry(3, delay="1s"))
    async def count(n: int) -> None:
        called.append(n)

    @sched.job(retry=otd.Retry(3, delay="1s"))
    def waits(ctx: otd.Context, n: int) -> None:
        called.append(n)

    return sched


@pytest.mark.parametrize("name", ["count", "waits"])
async def test_wrong_arguments_are_refused_at_the_submit(name: str):
    async with program([]) as sched:
        with pytest.raises(ArgumentsError, match='n: expected int, got "x"'):
            await sched.submit(name, {"n": "x"})
        with pytest.raises(ArgumentsError, match='n: expected int, got "x"'):
            await sched.trigger(name, {"n": "x"})
        assert await sched.list_runs() == []


async def test_a_job_with_wrong_default_arguments_is_refused():
    sched = otd.Scheduler("memory:")
    sched.job(schedule="every 1h", args={"n": "x"})(double)
    with pytest.raises(ArgumentsError, match='n: expected int, got "x"'):
        await sched.start()


def test_call_checks_its_arguments():
    with pytest.raises(ArgumentsError, match='n: expected int, got "x"'):
        otd.Scheduler("memory:").job(double).call("x")  # type: ignore[arg-type]


@pytest.mark.parametrize("args", [{"n": "x"}, {}, {"n": 1, "m": 2}])
def test_a_stored_run_with_wrong_arguments_dies_without_a_call_or_retry(args: dict[str, Any]):
    called: list[Any] = []

    async def live() -> None:
        harness = Harness("2026-01-01T00:00Z")
        await harness.start(program(called))
        record = await harness.store.queries.get_job("count")
        assert record is not None
        [run_id] = await harness.store.submit(
            [NewRun(record.id, "submit:elsewhere", harness.clock.now(), canonical(args))]
        )
        await harness.advance("1m")
        run = await harness.store.queries.get_run(run_id)
        assert run is not None
        assert (run.state, run.attempts, run.reason) == (RunState.DEAD, 1, "not worth a retry")
        assert run.error is not None
        assert run.error.startswith("BadArguments: arguments do not fit count(n: 'int')")
        await harness.stop()

    run_virtual(live())
    assert called == []
