"""The version of the time zone data is that of the system, else that of the package."""

import re

import pytest

from onthedot.node.zone_data import find_version, tzdata_version


def test_this_machine_reports_a_version_or_unknown():
    assert re.fullmatch(r"[0-9]{4}[a-z]{1,2}|unknown", tzdata_version())


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        ("tzdata.zi", "# version 2025b\nR A 1916", "2025b"),
        ("+VERSION", "2024a\n", "2024a"),
        ("tzdata.zi", "# redistributed\n", "unknown"),
        ("other", "2024a", "unknown"),
    ],
)
def test_the_version_is_read_from_the_systems_data(tmp_path, name, text, expected):
    (tmp_path / "UTC").write_bytes(b"TZif")
    (tmp_path / name).write_text(text)
    assert find_version([str(tmp_path / "nothing"), str(tmp_path)]) == expected


def test_the_package_is_used_if_the_system_has_no_data(tmp_path):
    assert re.fullmatch(r"[0-9]{4}[a-z]{1,2}", find_version([str(tmp_path)]))
