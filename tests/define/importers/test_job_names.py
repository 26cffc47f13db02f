"""Jobs are named after what they start."""

from __future__ import annotations

import pytest

from onthedot.define.importers.crontab import read_crontab
from onthedot.define.importers.job_names import name_of

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
def test_names(line: str, name: str):
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


def test_the_same_line_often():
    found = names(*["0 1 * * * backup"] * 5)
    assert len(set(found)) == 5
    assert found == names(*["0 1 * * * backup"] * 5)
