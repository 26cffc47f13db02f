"""Every setting of a node, in one frozen object."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable
from dataclasses import dataclass, field, fields, replace
from datetime import timedelta
from typing import TYPE_CHECKING

from onthedot.clock import MILLISECOND, SECOND, Micros
from onthedot.model.addresses import AddressRefused, Allowed, is_issuer, read_host, read_networks
from onthedot.model.errors import DefinitionError, explains_arguments, shown
from onthedot.model.retention import Retention
from onthedot.model.route import DEFAULT_QUEUE
from onthedot.model.task import Level

if TYPE_CHECKING:
    from onthedot.model.job import Job


@explains_arguments
@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """How a node behaves. Lengths of time are microseconds; the defaults suit production.

    >>> Settings(seats=8).node_ttl // SECOND
    15
    """

    node_id: str = ""
    """The node's name; empty: generated at start."""

    roles: tuple[str, ...] = ("planner", "worker")
    """What this node does: plan when it leads, execute runs, or both. Upkeep is everybody's."""
    seats: int = 64
    """How many attempts run at once on this node."""
    processes: int = 8
    """How many child processes this node has at most, for jobs with `isolation="process"`; what is more, waits."""
    kill_after: Micros = 5 * SECOND
    """How long a handler in a child process may go on when it was asked to end (SIGTERM), before it is killed."""
    programs: bool | None = None
    """Whether this worker runs commands and steps; None: if its own program defines such jobs. The command line says
    yes for every node that it starts."""
    least_isolation: Level = "none"
    """The least that programs are kept apart here: jobs that ask for less are left to others."""
    programs_in: str = ""
    """Where commands and steps begin that say no directory, check nothing out and leave no artifacts; empty: in the
    run's own workspace."""
    spool: str = ""
    """Where attempts have their workspaces, and their output waits until it is kept; empty: below
    `$XDG_STATE_HOME/onthedot/spool`, or that in `~/.local/state`. Without either, root's workspaces are in
    `/var/lib/onthedot/spool` (`OTD_STATE_DIR`)."""
    spool_bytes: int = 10 << 30
    """How much output waits in the spool at most while the output store is away; then what waits longest is lost."""
    cgroups: tuple[str, ...] = ()
    """Directories of cgroups in which the guard may make one for each program: bounds then count for all its processes
    together."""
    keep_workspaces: Micros = 86_400 * SECOND
    """How long the workspace of a run that did not succeed is kept after its last use: to go on in it, or to look."""
    ahead: int = 64
    """K: how many runs of the next `horizon` a worker may hold reserved (at most `seats`)."""
    batch: int = 500
    """The most rows that one call to the store touches."""
    queues: tuple[str, ...] | None = None
    """The queues this worker serves; None: those of the program's own jobs, and `default`."""
    labels: tuple[str, ...] = ()
    """What this worker offers to jobs that need it, such as `gpu` or `region=eu`."""
    assign_most: int = 64
    """K: how many runs the leader gives to one worker, of jobs whose worker it chooses."""

    lookahead: Micros = 30 * SECOND
    """How far ahead of their due instants runs are planned. Longer than a term, so that a dead leader's
    successor finds the next runs already there."""
    plan_every: Micros = 5 * SECOND
    """The longest time between two passes of the planner."""
    horizon: Micros = 2 * SECOND
    """How far ahead of its due instant a worker may reserve a run."""
    poll_every: Micros = 1 * SECOND
    """The longest time between two looks for work, behind all hints."""
    arm_lead_min: Micros = 5 * MILLISECOND
    arm_lead_max: Micros = 500 * MILLISECOND
    """`arm` is sent this long before the due instant: twice the 99th percentile of recent arms, within these."""
    lapse: Micros = 500 * MILLISECOND
    """A reservation not armed this long after its due instant may be taken by others. A worker whose arms are slow asks
    for three times as long as they take, and at most `node_ttl`."""
    late_after: Micros = 30 * SECOND
    """A slot that starts later than this is a catch-up, and subject to the job's `catch_up` policy."""

    node_ttl: Micros = 15 * SECOND
    beat_every: Micros = 4 * SECOND
    margin: Micros = 3 * SECOND
    """The node's lease, how often it is renewed, and how long before its end the node stops trusting it."""
    term_ttl: Micros = 10 * SECOND
    renew_every: Micros = 3 * SECOND
    """The planner's term, and how often it is renewed."""
    clock_every: Micros = SECOND // 4
    """How often a node asks a store elsewhere for its time; what it cannot know of it, it waits before each start."""
    reap_every: Micros = 2 * SECOND
    expire_every: Micros = 1 * SECOND
    """How often runs of dead nodes are recovered, and slots that came too late are skipped."""
    recount_every: Micros = 5 * SECOND
    """How often gates are counted anew: a net under a promise that should never need it."""

    http_allow: tuple[str, ...] = ()
    """What HTTP jobs and git sources may reach beside the public internet: hosts such as `localhost`, networks such as
    `10.0.0.0/8`."""
    container_engine: str = ""
    """Where the API of Docker or Podman is, such as `unix:///run/podman/podman.sock`; empty: where `DOCKER_HOST` says,
    or at one of the usual places."""
    container_mounts: tuple[str, ...] = ()
    """The directories that containers of jobs may be given, with all that is below them; none by default."""

    retention: Retention = field(default_factory=Retention)
    """How long, and how many, finished runs are kept."""
    prune_every: Micros = 60 * SECOND
    """How often the leader looks for what may go."""

    output: str = ""
    """Where the output of attempts is kept: a directory, or `s3://bucket/prefix?endpoint=…&region=…`; empty: below
    `$XDG_STATE_HOME/onthedot/output`. Each store has a folder of its own in it."""

    api_rate: float = 50.0
    """How many requests a second the HTTP server takes of each key, on the average."""
    api_burst: int = 200
    """How many of them at once."""
    api_followers: int = 200
    """How many requests of the HTTP server may stay open at a time, to follow logs and events."""
    api_followers_each: int = 50
    """How many of these one key may have, or one user with all sessions."""
    api_clients: int = 1_000
    """How many connections the HTTP server holds at a time; fewer, if the process may open less than twice as many
    files."""
    api_clients_per_address: int = 250
    """How many connections the HTTP server takes from one address at a time (of IPv6, from one /64); behind a trusted
    proxy, how many requests."""
    api_connections: int | None = None
    """How many connections to the store the HTTP server has at most, beside those of planning and execution; None: as
    many as the store's URL says for each event loop. Stores that count none have none of these."""

    allow_hosts: tuple[str, ...] = ()
    """The names that the HTTP server answers for beside those of the address that it listens on, such as
    `jobs.example.org`: requests for other hosts are refused (421)."""
    tls_cert: str = ""
    """A file with the certificate chain of the HTTP server, in PEM: it then speaks HTTPS only. Empty: plain HTTP."""
    tls_key: str = ""
    """A file with its private key, without a password; empty: the key is in the file of `tls_cert`."""
    trusted_proxies: tuple[str, ...] = ()
    """The proxies in front of the HTTP server: addresses and networks, such as `127.0.0.1` or `10.0.0.0/8`. Limits and
    the audit use the address that these forward for; from all others, forwarded headers are ignored."""
    quota_jobs: int | None = None
    """How many jobs one owner may have; None: any number. Quotas hold for what is asked of the HTTP server, but not for
    admins."""
    quota_runs: int | None = None
    """How many runs of one owner's jobs may wait or run when more of them are asked for; None: any number."""
    quota_submits: int | None = None
    """How many runs one owner may ask for in a minute, at each HTTP server; None: any number."""

    sign_on: str = ""
    """The issuer of the identity provider whose ID tokens `POST /api/v1/login` takes, exactly as it names itself, such
    as `https://example.eu.auth0.com/`; empty: none."""
    sign_on_client: str = ""
    """What that provider calls this server: the client id that its tokens are for."""

    grace: Micros = 30 * SECOND
    """How long a stopping node waits for its attempts before it gives up on them."""
    result_bytes: int = 256 * 1024
    """The largest result, as JSON, that is kept with a run."""

    def __post_init__(self) -> None:
        if texts := _refused_texts(self):  # all other checks would read the characters of the text
            raise DefinitionError(texts, subject="settings")
        problems = [
            f"{field.name}: expected a number above zero, got {getattr(self, field.name)!r}"
            for field in fields(self)
            if isinstance(value := getattr(self, field.name), int | float) and not isinstance(value, bool)
            if not 0 < value < math.inf
        ]
        if self.api_connections is not None and (self.api_connections == 1 or self.api_connections > 1_000):
            problems.append(f"api_connections: expected a number from 2 to 1000, got {self.api_connections}")
        if self.least_isolation not in ("none", "user", "sandbox"):
            problems.append(
                f"least_isolation: expected 'none', 'user' or 'sandbox', got {self.least_isolation!r}; "
                "it is about programs, not about handlers"
            )
        if self.node_ttl > 3600 * SECOND:
            problems.append(
                f"node_ttl: expected at most an hour, got {self.node_ttl} µs; a dead node is missed for that long"
            )
        if not self.roles or not set(self.roles) <= {"planner", "worker"}:
            problems.append(f"roles: expected 'planner', 'worker' or both, got {', '.join(self.roles) or 'none'}")
        if self.tls_key and not self.tls_cert:
            problems.append("tls_key: expected a certificate for it as well (tls_cert), got none")
        if bool(self.sign_on) != bool(self.sign_on_client):
            problems.append("sign_on: expected an issuer and a client id (sign_on_client), got one of them")
        if self.sign_on and not is_issuer(self.sign_on):
            problems.append(f"sign_on: expected an https URL such as https://example.auth0.com/, got {self.sign_on!r}")
        try:
            Allowed.of(self.http_allow)
        except AddressRefused as error:
            problems.append(f"http_allow: {error}")
        try:
            read_networks(self.trusted_proxies)
        except AddressRefused as error:
            problems.append(f"trusted_proxies: {error}")
        for name in self.allow_hosts:
            try:
                read_host(name)
            except AddressRefused:
                problems.append(f"allow_hosts: expected a host without scheme and port, got {name!r}")
        if self.queues is not None and not self.queues:
            problems.append("queues: expected at least one queue, got none")
        if self.term_ttl < 3 * self.renew_every:
            problems.append(
                f"term_ttl: expected at least three times renew_every ({self.renew_every} µs), got {self.term_ttl} µs"
            )
        if self.node_ttl < 3 * self.beat_every:
            problems.append(
                f"node_ttl: expected at least three times beat_every ({self.beat_every} µs), got {self.node_ttl} µs"
            )
        if self.lookahead <= self.term_ttl:
            problems.append(
                f"lookahead: expected more than term_ttl ({self.term_ttl} µs), so that runs outlive a leader; "
                f"got {self.lookahead} µs"
            )
        if problems:
            raise DefinitionError(problems, subject="settings")

    def queues_for(self, jobs: Iterable[Job]) -> tuple[str, ...]:
        """The queues that a worker serves whose program has these jobs.

        >>> from onthedot.model.job import Call, Job
        >>> mail = Job(name="mail", task=Call(handler="mail"), queue="mail")
        >>> Settings().queues_for([mail]), Settings(queues=("bulk",)).queues_for([mail])
        (('default', 'mail'), ('bulk',))
        """
        if self.queues is not None:
            return self.queues
        return tuple(sorted({DEFAULT_QUEUE, *(job.queue for job in jobs)}))

    @property
    def plans(self) -> bool:
        """Whether a node with these settings plans.

        >>> Settings(roles=("worker",)).plans, Settings().plans
        (False, True)
        """
        return "planner" in self.roles

    @property
    def works(self) -> bool:
        """Whether it executes runs.

        >>> Settings(roles=("planner",)).works, Settings().works
        (False, True)
        """
        return "worker" in self.roles

    def with_leases(self, length: timedelta | Micros) -> Settings:
        """The same settings with the node's lease at `length` and the periods around it in proportion.

        >>> Settings().with_leases(timedelta(seconds=30)).beat_every // SECOND
        8
        """
        ttl = length // timedelta(microseconds=1) if isinstance(length, timedelta) else length
        scale = ttl / (15 * SECOND)

        def scaled(value: Micros) -> Micros:
            return max(MILLISECOND, round(value * scale))

        return replace(
            self,
            lookahead=max(self.lookahead, 3 * scaled(10 * SECOND)),
            node_ttl=ttl,
            beat_every=scaled(4 * SECOND),
            margin=scaled(3 * SECOND),
            term_ttl=scaled(10 * SECOND),
            renew_every=scaled(3 * SECOND),
            reap_every=scaled(2 * SECOND),
        )


def _refused_texts(settings: Settings) -> list[str]:
    """A problem for each setting that takes names and got one text: a text is a sequence of its characters."""
    problems = []
    for one in fields(settings):
        value = getattr(settings, one.name)
        if str(one.type).startswith("tuple") and isinstance(value, str):
            names = [json.dumps(name, ensure_ascii=False) for name in map(str.strip, value.split(",")) if name]
            instead = f"({', '.join(names)}{',' if len(names) == 1 else ''})"
            problems.append(f"{one.name}: expected a list of names, got {shown(value)}; write {instead}")
    return problems
