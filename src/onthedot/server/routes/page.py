"""Serves an HTML page with the jobs and the newest runs, without scripts. A one-time token in its address opens a
session, which a cookie keeps.

The cookie opens only this page. The API needs the header `X-CSRF-Token` as well. The server sends its value once, after
the `#` of the address. Only scripts of this origin can read it there; servers at other ports of this host cannot.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from typing import Annotated

from fastapi import Query, Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

from onthedot.access import users
from onthedot.access.permissions import Permission, Principal
from onthedot.access.sessions import LASTS, token_named
from onthedot.clock import SECOND, Micros
from onthedot.model.errors import LoginRefused
from onthedot.model.job import JobRecord
from onthedot.model.run import RunRecord
from onthedot.observe.formats import doing, length, moment
from onthedot.operations.open_verbs import OpenStore
from onthedot.schedules import describe
from onthedot.server.audit import record_login, record_refusal, source_of
from onthedot.server.auth import StoreDep, cookie_of
from onthedot.server.router import HEAD, Routes
from onthedot.server.visibility import find_jobs, find_runs
from onthedot.stores.queries import JobFilter, RunFilter

routes = Routes(tags=["page"])

_SHOWN = 100
_POLICY = "default-src 'none'; style-src 'self'; frame-ancestors 'none'; form-action 'none'"
_STYLE = """\
:root { color-scheme: light dark; font: 15px/1.5 system-ui, sans-serif }
body { max-width: 72rem; margin: 2rem auto; padding: 0 1rem }
h1 { font-size: 1.4rem } h2 { font-size: 1.1rem; margin-top: 2rem }
table { border-collapse: collapse; width: 100% }
th, td { text-align: left; padding: .3rem .8rem .3rem 0; border-bottom: 1px solid #8883; vertical-align: top }
th { font-weight: 600 } .number { text-align: right; font-variant-numeric: tabular-nums }
.succeeded { color: #2a8a3e } .dead, .lost { color: #c0392b } .running { color: #1f6fd0 } .paused { color: #b8860b }
footer { margin-top: 2rem; opacity: .7 }
"""


@routes.get("/", response_class=HTMLResponse, include_in_schema=False)
async def page(request: Request, opened: StoreDep, token: Annotated[str, Query(max_length=200)] = "") -> Response:
    """The page of the caller, or instructions to sign in (401)."""
    if token and HEAD not in request.scope:  # a preview of a link must not use its token
        return await _signed_in(request, opened, token)
    who: Principal | None = request.state.who
    if who is None or not who.may(Permission.JOBS_READ) or not who.may(Permission.RUNS_READ):
        return html_page(_stranger(), status=401)
    now = opened.clock.now()
    jobs, _ = await find_jobs(opened, who, JobFilter(), limit=_SHOWN)
    runs, _ = await find_runs(opened, who, RunFilter(), limit=_SHOWN)
    return html_page(_whole(who, jobs, runs, now))


@routes.get("/style.css", include_in_schema=False)
async def style() -> Response:
    """The style sheet of the page."""
    return Response(_STYLE, media_type="text/css")


async def _signed_in(request: Request, opened: OpenStore, token: str) -> Response:
    """Exchange the token for a session, and redirect to the page without the token, because browsers store addresses
    and send them to other sites."""
    try:
        session = await users.exchange(opened.store, token, page=True, source=source_of(request))
    except LoginRefused as error:
        await record_refusal(request, token_named(token), "link", error)
        return html_page(_stranger("This link was used before, or is too old."), status=401)
    await record_login(request, session, "link")
    answer = RedirectResponse(f"/#csrf={session.csrf}", 303)
    answer.set_cookie(
        cookie_of(request), session.text, max_age=LASTS // SECOND, httponly=True, samesite="lax",
        secure=request.url.scheme == "https",
    )  # fmt: skip
    return answer


# ── HTML ────────────────────────────────────────────────────────────────────────────────────────────


def html_page(body: str, status: int = 200, *, title: str = "onthedot", refresh: bool = True) -> HTMLResponse:
    """A whole HTML page. With `refresh` a browser reloads it every five seconds."""
    again = '<meta http-equiv="refresh" content="5">' if refresh else ""
    head = (
        '<meta charset="utf-8"><meta name="viewport" content="width=device-width">'
        f"{again}<title>{escape(title)}</title>"
    )
    text = f'<!doctype html><html lang="en">{head}<link rel="stylesheet" href="/style.css"><body>{body}</body></html>'
    return HTMLResponse(text, status, {"Content-Security-Policy": _POLICY})


def _stranger(why: str = "") -> str:
    return (
        f"<h1>onthedot</h1><p>{escape(why)}</p><p>Sign in to see this page: open the link that "
        '<code>onthedot sessions link</code> makes, or use the <a href="/docs">API</a> with a key of '
        "<code>onthedot keys create NAME</code>.</p>"
    )


def _whole(who: Principal, jobs: Sequence[JobRecord], runs: Sequence[RunRecord], now: Micros) -> str:
    told_jobs = _table(("Job", "State", "Runs", "Task", "Changed"), (_job(record, now) for record in jobs))
    told_runs = _table(("Run", "Job", "State", "Due", "Late", "Took", "Why"), (_run(run, now) for run in runs))
    return (
        f"<h1>onthedot</h1><h2>Jobs</h2>{told_jobs}<h2>Runs</h2>{told_runs}"
        f"<footer>{escape(who.name)}, {escape(str(who.role))} · times are UTC · "
        '<a href="/docs">API</a></footer>'
    )


def _table(headings: Iterable[str], rows: Iterable[str]) -> str:
    head = "".join(f'<th class="{_kind(heading)}">{escape(heading)}</th>' for heading in headings)
    return f"<table><tr>{head}</tr>{''.join(rows) or '<tr><td>none yet</td></tr>'}</table>"


def _kind(heading: str) -> str:
    return "number" if heading in ("Late", "Took") else ""


def _row(*cells: tuple[str, str]) -> str:
    told = "".join(f'<td class="{kind}">{escape(text)}</td>' for text, kind in cells)
    return f"<tr>{told}</tr>"


def _job(record: JobRecord, now: Micros) -> str:
    job = record.job
    name = job.name if job.namespace == "default" else f"{job.namespace}/{job.name}"
    when = "; ".join(describe(schedule) for schedule in job.schedules) or "when asked"
    state = str(record.state)
    return _row((name, ""), (state, state), (when, ""), (doing(job.task), ""), (moment(record.updated_at, now), ""))


def _run(run: RunRecord, now: Micros) -> str:
    late = "" if run.started_at is None else length(run.started_at - run.due_at)
    took = "" if run.started_at is None or run.ended_at is None else length(run.ended_at - run.started_at)
    why = ": ".join(part for part in (run.reason, run.error or "") if part)[:200]
    state = str(run.state)
    numbers = ((late, "number"), (took, "number"))
    return _row((str(run.id), ""), (run.job, ""), (state, state), (moment(run.due_at, now), ""), *numbers, (why, ""))
