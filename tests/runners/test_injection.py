"""A parameter that a shell or another interpreter could execute as code is refused, whichever program starts that."""

from __future__ import annotations

import pytest

from onthedot.define.check import check_job
from onthedot.model.errors import DefinitionError
from onthedot.model.job import Job
from onthedot.model.task import Command, Container, Param, Step, Steps, Task
from onthedot.runners.injection import injection_risks
from onthedot.runners.task_template import fill

X = "${{ params.x }}"

CODE = [
    # shells, and programs that start a shell with -c
    f"sh -c {X}",
    f"sh -cx {X}",
    f"sh -xc {X}",
    f"sh -c -- {X}",
    f"sh -c -x {X}",
    f"bash -c +x {X}",
    f"bash -c -o pipefail {X}",
    f"bash -c -O extglob {X}",
    f"bash -co pipefail {X}",
    f"bash -o pipefail -c {X}",
    f"bash -lic {X}",
    f"bash --norc -c {X}",
    f"bash --init-file {X} -i",
    f"bash --rcfile={X} --init-file={X}",
    f"bash {X}",
    f"/usr/local/bin/zsh-5.9 -fc {X}",
    f"yash -c {X}",
    f"pwsh -Command {X}",
    f"an-unknown-shell -c {X}",
    f"an-unknown-shell -c -- {X}",
    f"an-unknown-shell --command {X}",
    f"an-unknown-shell --command={X}",
    f"an-unknown-shell --eval -- {X}",
    f"an-unknown-starter 5 sh -c {X}",
    f"an-unknown-starter 5 sh {X}",
    f"an-unknown-starter -- python3 {X}",
    # interpreters
    f"python3 -c {X}",
    f"python3 -Ic {X}",
    f"python3.11 -I -c {X}",
    f"python3 -c{X}",
    f"python3 {X}",
    f"python3 -m {X}",
    f"python3 -m timeit {X}",
    f"python3 -W ignore -- {X}",
    f"perl -e {X}",
    f"perl -E {X}",
    f"perl -ne {X}",
    f"perl -e 1 {X}",
    f"perl -M{X} -e 1",
    f"perl5.36 -pe {X}",
    f"ruby -e {X}",
    f"node --eval {X}",
    f"node --eval={X}",
    f"node -p {X}",
    f"node -r {X} app.js",
    f"php -r {X}",
    f"php8.2 -r {X}",
    f"lua5.4 -e {X}",
    f"deno eval {X}",
    f"awk {X}",
    f"awk -F , {X}",
    f"gawk -e {X}",
    f"gawk --source={X} --include={X} --exec={X}",
    f"mawk -f {X}",
    f"sed {X}",
    f"sed -n {X}",
    f"sed -e {X}",
    f"sed s/a/b/ {X}",
    f"sed s/a/{X}/e",
    f"sed --expression={X}",
    f"jq {X}",
    f"vim -c {X}",
    f"vim +{X}",
    f"vim -es file {X}",
    f"ex -sc {X}",
    f"gdb -ex {X}",
    f"gdb --eval-command={X}",
    f"make {X}",
    f"make -- {X}",
    f"make VERSION={X}",
    f"sqlite3 db {X}",
    f"psql -c {X}",
    f"psql --command={X}",
    f"mysql --execute={X}",
    f"m4 -D {X}",
    f"m4 {X}",
    f"/usr/bin/m4 {X}",
    # programs that start other programs
    f"busybox sh -c {X}",
    f"busybox awk {X}",
    f"busybox {X}",
    f"env {X}",
    f"env -S {X}",
    f"env --split-string={X}",
    f"env -i A=b sh -c {X}",
    f"env VAR=x sh -c {X}",
    f"env BASH_ENV={X} sh script",
    f"env -u A {X}",
    f"nice -n 5 sh -c {X}",
    f"nice {X}",
    f"ionice -c 3 sh -c {X}",
    f"ionice -c3 bash -ec {X}",
    f"timeout 5 sh -c {X}",
    f"timeout 5 {X}",
    f"timeout -k 1 5 {X}",
    f"nohup sh -c {X}",
    f"setsid -w sh -c {X}",
    f"stdbuf -oL sh -c {X}",
    f"nsenter -t 1 -m sh -c {X}",
    f"nsenter --target 1 --mount {X}",
    f"unshare -r sh -c {X}",
    f"chroot /srv sh -c {X}",
    f"chroot /srv {X}",
    f"sudo -u app sh -c {X}",
    f"sudo -u app {X}",
    f"sudo -- sh -c {X}",
    f"sudo nice timeout 5 {X}",
    f"flock f -c {X}",
    f"flock f sh -c {X}",
    f"flock f {X}",
    f"xargs sh -c {X}",
    f"xargs -I y sh -c {X}",
    f"xargs {X}",
    f"find . -exec sh -c {X} ;",
    f"find . -exec {X} ;",
    f"find . -execdir sh -c {X} ;",
    f"docker exec box sh -c {X}",
    f"docker run --rm image {X}",
    f"docker run --entrypoint={X} image",
    f"kubectl exec pod -- sh -c {X}",
    f"systemd-run --pipe sh -c {X}",
    f"npx {X}",
    f"git submodule foreach {X}",
    f"git bisect run {X}",
    f"poetry run {X}",
    f"uv run -- {X}",
    f"bundle exec {X}",
    f"ssh-agent {X}",
    f"ssh-agent -t 5 {X}",
    f"run-parts {X}",
    f"/lib64/ld-linux-x86-64.so.2 {X}",
    f"ld-linux.so.2 {X}",
    f"socat - {X}",
    f"hyperfine {X}",
    f"hyperfine ls {X}",
    # programs that pass their arguments to a shell
    f"ssh host {X}",
    f"ssh host deploy {X}",
    f"ssh -- host deploy {X}",
    f"ssh -o ProxyCommand={X} host",
    f"ssh -oProxyCommand={X} host",
    f"sudo ssh host deploy {X}",
    f"su -c {X}",
    f"su app -c {X}",
    f"su - app -- -c {X}",
    f"runuser -u app -- {X}",
    f"watch {X}",
    f"script -c {X}",
    f"parallel echo {X}",
    f"tmux new {X}",
    # options of other programs that execute their value
    f"git -c alias.x=!{X} x",
    f"git -c core.pager={X} log",
    f"git clone -u {X} url",
    f"git clone --upload-pack={X} url",
    f"git rebase --exec={X}",
    f"tar --to-command {X} -xf a.tar",
    f"tar --to-command={X} -xf a.tar",
    f"tar --checkpoint-action=exec={X} -cf a.tar .",
    f"tar -I {X} -cf a.tar .",
    f"tar --use-compress-program={X} -cf a.tar .",
    f"rsync -e {X} a b",
    f"rsync --rsh={X} a b",
    f"rsync --rsync-path={X} a b",
    f"sort --compress-program={X} file",
    f"split --filter={X} file",
    f"git difftool --extcmd={X}",
    f"sbatch --wrap={X}",
    f"ansible all --args={X}",
    f"man -P {X} ls",
    f"rg --pre={X} text",
    f"mysqldump --where={X} db",
    # text around the parameter
    f"echo $({X})",
    f"echo `{X}`",
    f"report a;{X}",
    f"report f({X})",
    f"report -{X}",
    f"report --{X}",
    f"report --out=$({X})",
]  # fmt: skip

ARGUMENTS = [
    f"deploy {X}",
    f"deploy prod {X}",
    f"deploy {X} {X}",
    f"deploy --env {X}",
    f"deploy --env={X}",
    f"deploy --out=/srv/{X}.tar",
    f"deploy s3://bucket/{X}/file",
    f"deploy region={X}",
    f"deploy -v -- {X}",
    f"rm -rf -- {X}",
    f"ls -- {X}",
    f"git checkout {X}",
    f"poetry run deploy {X}",
    f"ssh-agent deploy {X}",
    f"git clone -- https://example.org/{X}.git",
    f"kubectl scale --replicas={X} deployment/web",
    f"kubectl get node {X}",
    f"systemctl restart {X}",
    f"docker restart {X}",
    f"docker run --rm -- image deploy {X}",
    f"docker run image deploy {X}",
    f"python3 report.py {X}",
    f"python3 -m report {X}",
    f"sh deploy.sh {X}",
    f"sh -c code _ {X}",
    f"sh -ec code sh {X}",
    f"perl -e code -- {X}",
    f"python3 -c code -- {X}",
    f"awk code {X}",
    f"sed code -- {X}",
    f"nice deploy {X}",
    f"nice -n 5 deploy {X}",
    f"timeout 5 deploy {X}",
    f"timeout -k 1 5 deploy --env={X}",
    f"sudo -u app deploy {X}",
    f"sudo systemctl restart {X}",
    f"env A=b deploy {X}",
    f"env REGION={X} deploy {X}",
    f"flock /tmp/lock deploy {X}",
    f"find . -exec grep -- {X} y ;",
]


def argv(line: str) -> tuple[str, ...]:
    """Splits a line into words. A placeholder stays inside its word."""
    return tuple(word.replace("@", X) for word in line.replace(X, "@").split())


def problems_of(task: Task, *params: Param) -> list[str]:
    try:
        check_job(Job(name="j", task=task, params=params or (Param(name="x"),)))
    except DefinitionError as error:
        return error.problems
    return []


@pytest.mark.parametrize("line", CODE)
def test_a_parameter_that_may_be_read_as_code_is_refused(line: str):
    given = argv(line)
    assert problems_of(Command(argv=given)), given
    assert problems_of(Steps(steps=(Step(name="a", argv=given),)))
    assert problems_of(Container(image="image", argv=given))
    assert problems_of(Container(image="image", entrypoint=given[0], argv=given[1:]))


@pytest.mark.parametrize("line", ARGUMENTS)
def test_a_parameter_as_a_plain_argument_is_allowed(line: str):
    assert problems_of(Command(argv=argv(line))) == []


VARIABLES = (
    "LD_PRELOAD LD_LIBRARY_PATH BASH_ENV ENV PATH PYTHONSTARTUP PERL5OPT GIT_SSH_COMMAND NODE_OPTIONS PS4 MAKEFLAGS"
    " EDITOR JAVA_TOOL_OPTIONS PROMPT_COMMAND HOME MAKEFILES GNUMAKEFLAGS VIMINIT EXINIT SVN_SSH BORG_RSH"
    " BORG_PASSCOMMAND GOFLAGS ERL_AFLAGS OPENSSL_CONF KUBECONFIG GUNICORN_CMD_ARGS WGETRC LESS JAVA_HOME"
)


@pytest.mark.parametrize("name", VARIABLES.split())
def test_environment_variables_that_programs_execute_are_refused(name: str):
    assert problems_of(Command(argv=("deploy",), env={name: X}))
    assert problems_of(Steps(steps=(Step(name="a", argv=("deploy",)),), env={name: X}))
    assert problems_of(Command(argv=("deploy",), env={"REGION": X, "ENVIRONMENT": X, "DEPLOY_PATH_SUFFIX": X})) == []


@pytest.mark.parametrize(
    ("param", "exempt"),
    [
        (Param(name="x", kind="whole"), True),
        (Param(name="x", kind="yes_or_no"), True),
        (Param(name="x", choices=("eu", "us")), True),
        (Param(name="x", pattern="[a-z][a-z0-9-]{0,20}"), True),
        (Param(name="x", pattern="v[0-9]+[.][0-9]+"), True),
        (Param(name="x", pattern="[a-z0-9-]+"), False),  # a value may start with '-'
        (Param(name="x", pattern="[^;]+"), False),
        (Param(name="x", pattern=".+"), False),
        (Param(name="x", pattern="a| .+"), False),
        (Param(name="x", pattern="a?-c"), False),
        (Param(name="x"), False),
    ],
)
def test_a_parameter_with_safe_values_is_allowed(param: Param, exempt: bool):
    assert bool(problems_of(Command(argv=argv(f"ssh host deploy {X}")), param)) is not exempt
    assert problems_of(Command(argv=argv(f"sh -c {X}")), param)  # always code, so it stays refused


def test_the_error_says_what_to_do_instead():
    [problem] = problems_of(Command(argv=argv(f"ssh host deploy {X}")))
    assert problem == (
        "argv[3]: expected no parameter where it may be read as code, got '${{ params.x }}': 'ssh' hands its arguments "
        "to a shell; put it into env, and write \"$NAME\" in a script, or bound its values with 'choices' or 'pattern'"
    )


def test_jobs_that_are_already_stored_still_run():
    task = Command(argv=argv(f"ssh host deploy {X}"))
    assert injection_risks(task, ())
    assert fill(task, {"x": "a"}, {}).task == Command(argv=("ssh", "host", "deploy", "a"))
