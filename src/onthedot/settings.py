"""Defines every setting of a node, in one frozen object."""

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
    """The settings of a node. Lengths of time are in microseconds. The defaults suit production.

    >>> Settings(seats=8).node_ttl // SECOND
    15
    """

    node_id: str = ""
    """The name of the node. If it is empty, a name is generated at start."""

    roles: tuple[str, ...] = ("planner", "worker")
    """The work of this node: it plans when it is leader ("planner"), executes runs ("worker"), or does both. Every node
    does upkeep."""
    seats: int = 64
    """The maximum number of attempts that run at once on this node."""
    processes: int = 8
    """The maximum number of child processes of this node, for jobs with `isolation="process"`. Further attempts wait.
    """
    kill_after: Micros = 5 * SECOND
    """The time that a handler in a child process has to end after it was asked to (SIGTERM). Then it is killed."""
    programs: bool | None = None
    """True if this worker runs commands and steps. None: it does so if its own program defines such jobs. The command
    line sets True for every node that it starts."""
    least_isolation: Level = "none"
    """The lowest isolation level for programs on this node. Jobs that ask for a lower level run on other workers."""
    programs_in: str = ""
    """The directory in which commands and steps start, if they name no directory, have no source and keep no artifacts.
    If it is empty, they start in the workspace of the run."""
    spool: str = ""
    """The directory for workspaces, and for output that waits to be stored. If it is empty, it is
    `$XDG_STATE_HOME/onthedot/spool`, or the same below `~/.local/state`. Without either, root's workspaces are in
    `/var/lib/onthedot/spool` (`OTD_STATE_DIR`)."""
    spool_bytes: int = 10 << 30
    """The maximum amount of output in the spool while the output store is unavailable. Beyond it, the output that has
    waited longest is dropped."""
    cgroups: tuple[str, ...] = ()
    """Directories of cgroups in which the guard may create a cgroup for each program. Bounds then apply to all
    processes of the program together."""
    keep_workspaces: Micros = 86_400 * SECOND
    """The time that the workspace of a run that did not succeed is kept after its last use. A retry can use it, and a
    person can inspect it."""
    ahead: int = 64
    """The maximum number of runs due within `horizon` that a worker may reserve ahead (at most `seats`)."""
    batch: int = 500
    """The maximum number of rows that one call to the store touches."""
    queues: tuple[str, ...] | None = None
    """The queues that this worker serves. None: the queues of the program's own jobs, and `default`."""
    labels: tuple[str, ...] = ()
    """The labels that this worker offers to jobs that need them, such as `gpu` or `region=eu`."""
    assign_most: int = 64
    """The maximum number of runs that the leader assigns to one worker, for jobs with `assignment="leader"`."""

    lookahead: Micros = 30 * SECOND
    """The time before their due time at which runs are planned. It is longer than a term, so that the successor of a
    dead leader finds the next runs in the store."""
    plan_every: Micros = 5 * SECOND
    """The longest time between two passes of the planner."""
    horizon: Micros = 2 * SECOND
    """The longest time before its due time at which a worker may reserve a run."""
    poll_every: Micros = 1 * SECOND
    """The longest time between two polls for work. Hints usually wake the worker earlier."""
    arm_lead_min: Micros = 5 * MILLISECOND
    arm_lead_max: Micros = 500 * MILLISECOND
    """The limits of the time by which `arm` is sent before the due time. This time is twice the 99th percentile of
    recent arms."""
    lapse: Micros = 500 * MILLISECOND
    """The time after which other workers may take a reservation that was not armed. It counts from the due time. A
    worker whose arms are slow asks for three times the duration of an arm, and at most `node_ttl`."""
    late_after: Micros = 30 * SECOND
    """A slot that starts later than this is a catch-up. The job's `catch_up` policy decides about it."""

    node_ttl: Micros = 15 * SECOND
    beat_every: Micros = 4 * SECOND
    margin: Micros = 3 * SECOND
    """`node_ttl` is the length of the node's lease, and `beat_every` the time between two renewals. The node stops
    trusting the lease `margin` before its end."""
    term_ttl: Micros = 10 * SECOND
    renew_every: Micros = 3 * SECOND
    """`term_ttl` is the length of the planner's term, and `renew_every` the time between two renewals."""
    clock_every: Micros = SECOND // 4
    """The time between two questions to a remote store for its clock. A node waits out the remaining uncertainty before
    each start."""
    reap_every: Micros = 2 * SECOND
    expire_every: Micros = 1 * SECOND
    """`reap_every` is the time between two searches for runs of dead nodes, which are then recovered. `expire_every` is
    the time between two searches for slots that came too late, which are then skipped."""
    recount_every: Micros = 5 * SECOND
    """The time between two checks of all gates. The check repairs a gate that was left closed by mistake, which should
    never happen."""

    http_allow: tuple[str, ...] = ()
    """The hosts and networks that HTTP jobs and git sources may reach in addition to the public internet, such as
    `localhost` or `10.0.0.0/8`."""
    container_engine: str = ""
    """The address of the API of Docker or Podman, such as `unix:///run/podman/podman.sock`. If it is empty,
    `DOCKER_HOST` or one of the usual addresses is used."""
    container_mounts: tuple[str, ...] = ()
    """The directories that containers of jobs may mount, including everything below them. The default is none."""

    retention: Retention = field(default_factory=Retention)
    """The age and the number of finished runs that are kept."""
    prune_every: Micros = 60 * SECOND
    """The time between two searches of the leader for runs to remove."""

    output: str = ""
    """The place where the output of attempts is stored: a directory, or `s3://bucket/prefix?endpoint=…&region=…`. If it
    is empty, it is below `$XDG_STATE_HOME/onthedot/output`. Each store has its own folder there."""

    api_rate: float = 50.0
    """The number of requests per second that the HTTP server accepts with each key, on average."""
    api_burst: int = 200
    """The number of requests with one key that the HTTP server accepts at once."""
    api_followers: int = 200
    """The maximum number of requests of the HTTP server that stay open to follow logs and events."""
    api_followers_each: int = 50
    """The maximum number of such requests for one key, or for one user with all sessions."""
    api_clients: int = 1_000
    """The maximum number of connections to the HTTP server. It is lower if the process may open less than twice as many
    files."""
    api_clients_per_address: int = 250
    """The maximum number of connections from one address to the HTTP server (for IPv6, from one /64). Behind a trusted
    proxy, it is the maximum number of requests at once."""
    api_connections: int | None = None
    """The maximum number of connections from the HTTP server to the store, in addition to those for planning and
    execution. None: the number that the store's URL sets for each event loop. It has no effect on stores that do not
    count connections."""

    allow_hosts: tuple[str, ...] = ()
    """The host names that the HTTP server answers for, in addition to the address that it listens on, such as
    `jobs.example.org`. Requests for other hosts are refused (421)."""
    tls_cert: str = ""
    """A file with the certificate chain of the HTTP server, in PEM. With it, the server accepts only HTTPS. If it is
    empty, the server uses plain HTTP."""
    tls_key: str = ""
    """A file with the private key of the certificate, without a password. If it is empty, the key is in the file of
    `tls_cert`."""
    trusted_proxies: tuple[str, ...] = ()
    """The addresses and networks of the proxies in front of the HTTP server, such as `127.0.0.1` or `10.0.0.0/8`.
    Limits and the audit trail use the client address that these proxies forward. Forwarded headers from all other
    addresses are ignored."""
    quota_jobs: int | None = None
    """The maximum number of jobs of one owner. None: no limit. Quotas apply to requests to the HTTP server, except
    those of admins."""
    quota_runs: int | None = None
    """The maximum number of waiting and running runs of one owner's jobs. The server refuses requests for more. None:
    no limit."""
    quota_submits: int | None = None
    """The maximum number of runs that one owner may submit per minute, at each HTTP server. None: no limit."""

    sign_on: str = ""
    """The issuer of the identity provider whose ID tokens `POST /api/v1/login` accepts, exactly as the provider writes
    it, such as `https://example.eu.auth0.com/`. If it is empty, no tokens are accepted."""
    sign_on_client: str = ""
    """The client id of this server at that provider. Tokens must be issued for it."""

    grace: Micros = 30 * SECOND
    """The time that a stopping node waits for its attempts before it abandons them."""
    result_bytes: int = 256 * 1024
    """The largest result, as JSON, that is stored with a run."""

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
                "it applies to programs, not to handlers"
            )
        if self.node_ttl > 3600 * SECOND:
            problems.append(
                f"node_ttl: expected at most an hour, got {self.node_ttl} µs; a dead node is not detected earlier"
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
        """Return the queues of a worker whose program has these jobs.

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
        """True if a node with these settings plans.

        >>> Settings(roles=("worker",)).plans, Settings().plans
        (False, True)
        """
        return "planner" in self.roles

    @property
    def works(self) -> bool:
        """True if a node with these settings executes runs.

        >>> Settings(roles=("planner",)).works, Settings().works
        (False, True)
        """
        return "worker" in self.roles

    def with_leases(self, length: timedelta | Micros) -> Settings:
        """Return these settings with a node lease of `length`, and with the related periods in proportion.

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
    """Return a problem for each setting that expects names and received one text. A text is a sequence of its
    characters."""
    problems = []
    for one in fields(settings):
        value = getattr(settings, one.name)
        if str(one.type).startswith("tuple") and isinstance(value, str):
            names = [json.dumps(name, ensure_ascii=False) for name in map(str.strip, value.split(",")) if name]
            instead = f"({', '.join(names)}{',' if len(names) == 1 else ''})"
            problems.append(f"{one.name}: expected a list of names, got {shown(value)}; write {instead}")
    return problems
