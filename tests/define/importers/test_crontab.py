"""Crontabs become jobs, and every difference gets a remark."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

import onthedot as otd
from onthedot.define.importers.crontab import name_of, read_crontab
from onthedot.define.importers.import_result import ImportResult
from onthedot.model.job import Job
from onthedot.model.task import Command

CORPUS = Path(__file__).parent / "corpus"


def remarks(found: ImportResult) -> dict[int, str]:
    return {told.at.line if told.at else 0: told.problem for told in found.remarks}


def test_the_crontab_of_a_user_becomes_jobs():
    found = read_crontab((CORPUS / "user.crontab").read_text(), "user.crontab")
    by_name = {job.name: job for job in found.jobs}
    assert list(by_name) == [
        "backup", "sync", "report", "find-shop", "mail-hello", "scatter", "backup-logs", "morning",
    ]  # fmt: skip
    env = {"PATH": "/usr/local/bin:/usr/bin:/bin", "LEVEL": "very high"}
    assert by_name["backup"].task == Command(script="/usr/local/bin/backup --all > /var/log/backup.log 2>&1", env=env)
    assert by_name["backup"].schedules == (otd.cron("30 2 * * *"),)
    assert (by_name["backup"].catch_up.mode, by_name["backup"].overlap) == ("none", otd.Overlap("allow"))
    assert by_name["sync"].schedules == (otd.cron("*/15 8-18 * * mon-fri"),)
    assert by_name["report"].task == Command(script="report --month $(date +%Y-%m)", env=env)
    assert by_name["mail-hello"].task == Command(
        script='mail -s "hello" ann@example.org', stdin="Dear Ann,\n\nall is well: 100%.\n", env=env
    )
    assert by_name["scatter"].schedules == (otd.cron("H(0-59) 3 * * *"),)
    assert by_name["morning"].schedules == (otd.cron("0 9 * * *", tz="Europe/Berlin"),)


def test_a_line_that_cannot_be_mapped_gets_a_remark():
    told = remarks(read_crontab((CORPUS / "user.crontab").read_text(), "user.crontab"))
    assert told.pop(4).startswith("MAILTO=ops@example.org: no mail is sent")
    assert told.pop(12) == (
        "'@reboot /usr/local/bin/warm-cache': it names no time; start it with systemd or with a program; left out"
    )
    [to_file] = [told.pop(line) for line in list(told) if "/var/log/backup.log" in told[line]]
    assert to_file == (
        "its output goes to /var/log/backup.log: the log of its runs does not have it; without the redirection it is "
        "kept for each run"
    )
    assert told.pop(14) == "'0~59': a random minute there; here 'H(0-59)', which the job's name chooses and which stays"
    assert "minute: expected 0-59, got '61'" in told.pop(18)
    assert "expected five fields and a command, got 'not a line'" in told.pop(19)
    assert told == {}


@pytest.mark.parametrize("system", [None, True])
def test_users_of_the_system_crontab_become_owners(system):
    found = read_crontab((CORPUS / "system.crontab").read_text(), "a/etc/crontab", tz="Europe/Berlin", system=system)
    hourly, daily, clean = found.jobs
    assert [job.owner for job in found.jobs] == ["root", "root", "www-data"]
    assert hourly.schedules == (otd.cron("17 * * * *", tz="Europe/Berlin", jitter="30m"),)
    assert hourly.task == Command(
        argv=("/bin/bash", "-c", "cd / && run-parts --report /etc/cron.hourly"),
        directory="/var/lib/cron",
        env={"HOME": "/var/lib/cron"},
    )
    assert clean.name == "clean"
    assert daily.task.argv[2].startswith("test -x /usr/sbin/anacron || {")  # type: ignore[union-attr]
    assert "it runs as root there" in remarks(found)[7]
    assert "'onthedot worker --labels user=root', and give the job 'labels: [user=root]'" in remarks(found)[7].replace(
        ")", ""
    )


@pytest.mark.parametrize("text", ["", "\n#x\n", "* * * * *", "@daily", "=", "a=", "\0", "% % % % % %", "@every 5m x"])
def test_an_invalid_line_gives_no_job(text):
    found = read_crontab(text)
    assert found.jobs == []


def one(line: str, **options: Any) -> tuple[Job, list[str]]:
    """Return the job of a line and its remarks."""
    found = read_crontab(line, **options)
    assert found.lost == []
    [job] = found.jobs
    return job, [told.problem for told in found.remarks]


STYLES: list[tuple[str, str, Command]] = [
    ("* * * * * /usr/bin/tick", "* * * * *", Command(script="/usr/bin/tick")),
    ("*/5 * * * * /usr/bin/tick", "*/5 * * * *", Command(script="/usr/bin/tick")),
    ("  0\t4  *  *  *   /usr/bin/tick  ", "0 4 * * *", Command(script="/usr/bin/tick")),
    ("0 4 * * sun /usr/bin/tick", "0 4 * * sun", Command(script="/usr/bin/tick")),
    ("0 4 * * 7 /usr/bin/tick", "0 4 * * 7", Command(script="/usr/bin/tick")),
    ("0 4 1,15 jan-mar,dec * /usr/bin/tick", "0 4 1,15 jan-mar,dec *", Command(script="/usr/bin/tick")),
    ("0 8-18/2 * * 1-5 /usr/bin/tick", "0 8-18/2 * * 1-5", Command(script="/usr/bin/tick")),
    ("0 0 13 * 5 /usr/bin/tick", "0 0 13 * 5", Command(script="/usr/bin/tick")),
    ("0 0 */2 * 1 /usr/bin/tick", "0 0 */2 * 1", Command(script="/usr/bin/tick")),
    ("@hourly /usr/bin/tick", "@hourly", Command(script="/usr/bin/tick")),
    ("@midnight /usr/bin/tick", "@midnight", Command(script="/usr/bin/tick")),
    ("@annually /usr/bin/tick", "@annually", Command(script="/usr/bin/tick")),
    ("@every_minute /usr/bin/tick", "* * * * *", Command(script="/usr/bin/tick")),
    ("0 4 * * * a && b", "0 4 * * *", Command(script="a && b")),
    ("0 4 * * * a 2>&1 | b", "0 4 * * *", Command(script="a 2>&1 | b")),
    ("0 4 * * * a; b", "0 4 * * *", Command(script="set +e; a; b")),
    ("0 4 * * * a & b", "0 4 * * *", Command(script="set +e; a & b")),
    ("0 4 * * * date +\\%F", "0 4 * * *", Command(script="date +%F")),
    ("0 4 * * * cat%one%two", "0 4 * * *", Command(script="cat", stdin="one\ntwo\n")),
    ("0 4 * * * cat%", "0 4 * * *", Command(script="cat", stdin="\n")),
    ("0 4 * * * cat%5\\%%", "0 4 * * *", Command(script="cat", stdin="5%\n\n")),
    ("0 4 * * * echo ${{ x }}", "0 4 * * *", Command(script="echo ${{ x }}")),
    ("A=1\nB = two w \nC='q'\n0 4 * * * a", "0 4 * * *", Command(script="a", env={"A": "1", "B": "two w", "C": "q"})),
    ("SHELL=/bin/bash\n0 4 * * * a; b", "0 4 * * *", Command(argv=("/bin/bash", "-c", "a; b"))),
    ("HOME=/srv\n0 4 * * * ./a", "0 4 * * *", Command(script="./a", directory="/srv", env={"HOME": "/srv"})),
    ("-*/15 * * * * /usr/bin/tick", "*/15 * * * *", Command(script="/usr/bin/tick")),
    ("# FOO=1\nFOO=\n0 4 * * * a", "0 4 * * *", Command(script="a", env={"FOO": ""})),
]  # fmt: skip


@pytest.mark.parametrize(("line", "cron", "task"), STYLES, ids=[line for line, _, _ in STYLES])
def test_each_style_of_a_line_is_read_without_remarks(line: str, cron: str, task: Command):
    job, said = one(line)
    assert (job.schedules, job.task) == ((otd.cron(cron),), task)
    assert said == []
    assert (job.catch_up.mode, job.overlap) == ("none", otd.Overlap("allow"))


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("MAILTO=a@x.org\n0 4 * * * a", "MAILTO=a@x.org: no mail is sent"),
        ("TZ=Asia/Tokyo\n0 4 * * * a", "TZ=Asia/Tokyo: commands get it as a variable; it does not move times"),
        ("CRON_TZ=Mars/City\n0 4 * * * a", "times below it are read in UTC"),
        ("30~ 4 * * * a", "'30~': a random minute there; here 'H(30-59)'"),
        ("0 4 * * * ./a", "it uses its user's home directory"),
        ("0 4 * * * cd shop && ./a", "it uses its user's home directory"),
        ("0 4 * * * ~/bin/a", "it uses its user's home directory"),
        ("0 4 * * * a $HOME/log", "it uses its user's home directory"),
        ("0 4 * * * a>>/l", "its output goes to /l: the log of its runs does not have it"),
        (
            "0 4 * * * a 1> /var/log/x.log 2>&1",
            "its output goes to /var/log/x.log: the log of its runs does not have it",
        ),
        ("0 4 * * * a &>> x.log", "its output goes to x.log: the log of its runs does not have it"),
        ("TZ=UTC\n0 4 * * * a", "if you meant the times, write CRON_TZ, or give --tz"),
        ("0 4 * * * -ns a", "'-ns' before the command: the job does not overlap itself"),
        ("#0 5 * * * old\n0 4 * * * a", "'#0 5 * * * old': a job that is commented out; not imported"),
    ],
)
def test_a_difference_to_cron_gets_a_remark(line: str, said: str):
    _, told = one(line)
    [problem] = told
    assert said in problem


def test_an_empty_mailto_and_a_command_in_a_directory_need_no_remark():
    assert one('MAILTO=""\n0 4 * * * cd /srv/shop && ./a')[1] == []


def test_the_zone_of_a_job_is_set_by_the_lines_above():
    found = read_crontab("0 1 * * * a\nCRON_TZ=Asia/Tokyo\n0 2 * * * b\nTZ=UTC\n0 3 * * * c", tz="Europe/Berlin")
    assert [job.schedules[0].tz for job in found.jobs] == ["Europe/Berlin", "Asia/Tokyo", "Asia/Tokyo"]  # type: ignore[union-attr]
    assert found.zone_assumed
    assert not read_crontab("CRON_TZ=Asia/Tokyo\n0 2 * * * b").zone_assumed


USERS = "0 1 * * * root /usr/bin/a\n0 2 * * * www-data cd /srv && b\n@daily deploy c d\n"


@pytest.mark.parametrize(("file", "text"), [
    ("/etc/crontab", USERS), ("/etc/cron.d/php", USERS), ("shop.cron", USERS),
    ("shop", "# m h dom mon dow user command\n0 1 * * * root /usr/bin/a\n0 2 * * * www-data b\n@daily deploy c d\n"),
])  # fmt: skip
def test_user_names_are_not_read_as_commands(file: str, text: str):
    found = read_crontab(text, file)
    assert [job.owner for job in found.jobs] == ["root", "www-data", "deploy"]
    assert all(job.task.script.startswith(("/usr/bin/a", "cd /srv", "b", "c")) for job in found.jobs)  # type: ignore[union-attr]
    by_content = [told.problem for told in found.remarks if told.at is None]
    assert by_content == (
        ["its lines name users (deploy, root, www-data): read as a system crontab; --user reads it as a user's"]
        if file == "shop.cron" else []
    )  # fmt: skip


def test_a_command_may_have_the_name_of_a_user():
    found = read_crontab("0 1 * * * backup /srv\n0 2 * * * /usr/bin/b\n")
    assert ([job.name for job in found.jobs], found.remarks) == (["backup", "b"], [])
    [told] = read_crontab("0 1 * * * root /srv\n0 2 * * * /usr/bin/b\n").remarks
    assert told.problem == "its command starts with 'root': if that is a user, import the file with --system"
    assert read_crontab(USERS, system=False).jobs[0].task.script == "root /usr/bin/a"  # type: ignore[union-attr]


def test_comments_become_notes_of_the_job_below():
    text = "# about the file\n\n# m h dom mon dow command\n# --- one ---\n# two\n0 1 * * * a\n0 2 * * * b\n# three\n"
    assert read_crontab(text).notes == {"default/a": ["one", "two"]}


LINES = {
    "/usr/local/bin/backup.sh --full > /var/log/backup.log 2>&1": "backup",
    "cd /srv/shop && ./bin/sync.sh": "sync",
    "python3 -m shop.report": "shop.report",
    "/usr/bin/python3.11 /opt/shop/report.py --all": "report",
    "/bin/bash -lc 'cd /srv && bundle exec rake clean'": "bundle",
    "flock -n /tmp/x.lock curl -s https://example.org/ping?x=1": "curl-ping",
    "nice -n 19 ionice -c3 /usr/bin/updatedb": "updatedb",
    "sudo -u postgres pg_dump shop | gzip > /srv/dump.gz": "pg_dump",
    "timeout 5m rsync -a /srv/ host:/backup": "rsync-srv",
    "test -x /usr/sbin/anacron || { cd / && run-parts --report /etc/cron.daily; }": "run-parts-cron.daily",
    "[ -x /usr/lib/php/clean ] && if [ ! -d /run/x ]; then /usr/lib/php/clean; fi": "clean",
    "command -v sa1 > /dev/null && sa1 1 1": "sa1",
    "perl -e 'sleep int(rand(3600))' && certbot -q renew": "certbot",
    "PATH=/opt/bin LANG=C /opt/bin/certbot renew": "certbot",
    "su - git -c '/opt/gitea dump'": "gitea",
    "php /var/www/cron.php": "cron",
    "echo 'it is an unfinished": "echo-it",
    "": "job",
    "&& ;": "job",
}


@pytest.mark.parametrize(("line", "name"), LINES.items())
def test_a_command_gets_a_short_name(line: str, name: str):
    assert name_of(line).name == name


def test_a_line_of_any_length_has_a_name():
    assert name_of("sudo " * 3000 + "backup").name == "backup"
    assert name_of("sh -c " * 3000 + "backup").name == "sh"


SOME = ["0 1 * * * backup --full", "0 2 * * * backup --logs", "0 3 * * * backup --logs", "0 4 * * * echo hello"]


def names(*lines: str) -> list[str]:
    return [job.name for job in read_crontab("\n".join(lines)).jobs]


def test_names_are_unique_and_stay_when_lines_are_added():
    first, second, third, fourth = names(*SOME)
    assert (first, second, fourth) == ("backup", "backup-logs", "echo-hello")
    assert third.startswith("backup-")
    assert names(*SOME) == [first, second, third, fourth]
    more = names("0 0 * * * other", SOME[0], "PATH=/bin", "0 9 * * * backup --rest", *SOME[1:], "0 5 * * * backup")
    assert more[:3] == ["other", first, "backup-rest"]
    assert more[3:6] == [second, third, fourth]
    assert len(set(more)) == len(more)


def test_equal_lines_get_different_stable_names():
    found = names(*["0 1 * * * backup"] * 5)
    assert len(set(found)) == 5
    assert found == names(*["0 1 * * * backup"] * 5)


def test_a_file_in_the_home_directory_has_both_remarks():
    home, to_file = one("0 4 * * * a > $HOME/log")[1]
    assert home.startswith("it uses its user's home directory")
    assert to_file.startswith("its output goes to $HOME/log: ")


@pytest.mark.parametrize(
    "command",
    ["a > /dev/null 2>&1", "a >/dev/null", "a 2>> /err.log", "a 2>&1", "a > /x | b", "echo '->'", "a -> b", "a >&2"],
)
def test_output_that_is_kept_or_thrown_away_needs_no_remark(command: str):
    assert one(f"0 4 * * * {command}")[1] == []


def test_no_line_takes_long():
    began = time.process_time()
    read_crontab("\n".join(f"0 4 * * * a {sign * 5_000}" for sign in (">", "> ", "1>", ">x ", "\\>")))
    assert time.process_time() - began < 0.5
