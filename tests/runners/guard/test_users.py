"""A user id belongs to one program at a time, and to no other while it owns a workspace."""

import fcntl
import os
import stat
import tempfile
from pathlib import Path

import pytest

from onthedot.runners.guard import folders, process_tree, users
from onthedot.runners.guard.users import USERS, LevelUnavailable, NoFreeUser, check_reachable, reclaim, take_user


@pytest.fixture(autouse=True)
def locks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv(users.STATE_VARIABLE, str(tmp_path / "state"))
    monkeypatch.setattr(process_tree, "all_processes", lambda: iter(()))  # programs of other tests use these users, too
    return tmp_path / "state" / "users"


@pytest.fixture
def work(tmp_path: Path) -> Path:
    (tmp_path / "work").mkdir()
    return tmp_path / "work"


def test_a_user_id_is_used_by_one_program_at_a_time(work):
    first, second = take_user(str(work)), take_user(str(work))
    assert first.uid != second.uid
    assert {first.uid, second.uid} <= set(USERS)
    first.give_back()
    third = take_user(str(work))
    assert third.uid == first.uid
    second.give_back()
    third.give_back()


def test_an_error_says_that_all_user_ids_are_taken(work, monkeypatch):
    monkeypatch.setattr(users, "USERS", range(USERS.start, USERS.start + 1))
    one = take_user(str(work))
    with pytest.raises(NoFreeUser, match="expected a free user id"):
        take_user(str(work))
    one.give_back()


def test_other_users_cannot_open_the_locks(work, locks):
    take_user(str(work)).give_back()
    assert stat.S_IMODE(locks.stat().st_mode) == 0o700
    assert stat.S_IMODE(locks.parent.stat().st_mode) == 0o711
    assert {stat.S_IMODE(lock.stat().st_mode) for lock in locks.iterdir()} == {0o600}


def test_a_lock_folder_that_others_can_write_to_is_refused(work, locks):
    locks.mkdir(parents=True)
    locks.chmod(0o777)
    with pytest.raises(LevelUnavailable, match=r"closed for others; got one of user .* with mode 777"):
        take_user(str(work))


def test_a_lock_that_is_a_symbolic_link_is_refused(work, locks, tmp_path):
    take_user(str(work)).give_back()
    (locks / str(USERS.start)).unlink()
    (locks / str(USERS.start)).symlink_to(tmp_path / "elsewhere")
    with pytest.raises(OSError, match="symbolic links"):
        take_user(str(work))
    assert not (tmp_path / "elsewhere").exists()


@pytest.mark.usefixtures("root")
def test_an_id_that_owns_a_workspace_is_reserved_for_it(work, tmp_path):
    other = tmp_path / "other"
    other.mkdir()
    first = take_user(str(work))
    first.own(str(work))
    first.give_back()
    second = take_user(str(other))
    assert second.uid != first.uid
    again = take_user(str(work))
    assert again.uid == first.uid
    again.give_back()
    assert reclaim(str(work))
    third = take_user(str(other))
    assert third.uid == first.uid
    second.give_back()
    third.give_back()


@pytest.mark.usefixtures("root")
def test_an_id_is_free_after_its_workspace_is_removed(work, tmp_path):
    first = take_user(str(work))
    first.own(str(work))
    first.give_back()
    work.rmdir()
    second = take_user(str(tmp_path))
    assert second.uid == first.uid
    second.give_back()


@pytest.mark.usefixtures("root")
def test_a_reclaimed_workspace_is_closed_and_has_no_set_user_id_files(work):
    user = take_user(str(work))
    (work / "folder").mkdir()
    (work / "folder" / "file").write_text("x")
    user.own(str(work))
    work.chmod(0o777)
    (work / "folder" / "file").chmod(0o6777)
    assert not reclaim(str(work))  # a program still uses it
    user.give_back()
    assert reclaim(str(work))
    assert (work.stat().st_uid, stat.S_IMODE(work.stat().st_mode)) == (0, 0o700)
    about = (work / "folder" / "file").stat()
    assert (about.st_uid, about.st_gid, about.st_mode & 0o6000) == (0, 0, 0)


@pytest.mark.usefixtures("root")
def test_a_hard_link_changes_owner_only_if_both_names_are_inside(work, tmp_path):
    (tmp_path / "precious").write_text("of root")
    (work / "linked").hardlink_to(tmp_path / "precious")
    (work / "one").write_text("")
    (work / "two").hardlink_to(work / "one")
    user = take_user(str(work))
    user.own(str(work))
    assert (tmp_path / "precious").stat().st_uid == 0
    assert (work / "two").stat().st_uid == user.uid
    user.give_back()
    reclaim(str(work))
    assert (work / "one").stat().st_uid == 0


def test_reclaim_does_not_change_a_folder_that_was_never_given_away(work):
    work.chmod(0o755)
    assert reclaim(str(work))
    assert reclaim(str(work / "nowhere"))
    assert (work.stat().st_uid, stat.S_IMODE(work.stat().st_mode)) == (os.geteuid(), 0o755)


@pytest.mark.usefixtures("root")
def test_a_workspace_that_another_program_uses_is_not_reclaimed(work):
    first = take_user(str(work))
    first.own(str(work))
    second = take_user(str(work))
    first.give_back()
    folder = os.open(work, os.O_RDONLY)
    fcntl.flock(folder, fcntl.LOCK_EX)  # as the second program locks it before it takes ownership
    assert not reclaim(str(work))
    os.close(folder)
    second.own(str(work))
    assert not reclaim(str(work))
    second.give_back()
    assert reclaim(str(work))


@pytest.mark.usefixtures("root")
def test_only_its_user_can_pass_the_folder_above_the_workspace(tmp_path):
    run = tmp_path / "run"
    (run / "work").mkdir(parents=True)
    run.chmod(0o710)
    user = take_user(str(run / "work"))
    user.own(str(run / "work"))
    assert (run.stat().st_uid, run.stat().st_gid, stat.S_IMODE(run.stat().st_mode)) == (0, user.uid, 0o710)
    user.give_back()
    assert reclaim(str(run / "work"))
    assert run.stat().st_gid == 0


@pytest.mark.usefixtures("root")
def test_the_group_of_a_folder_that_is_open_for_all_does_not_change(tmp_path):
    run = tmp_path / "run"
    (run / "work").mkdir(parents=True)
    run.chmod(0o711)
    user = take_user(str(run / "work"))
    user.own(str(run / "work"))
    assert run.stat().st_gid == 0
    user.give_back()
    reclaim(str(run / "work"))


def test_only_the_nearest_folder_above_may_be_closed_for_others():
    with tempfile.TemporaryDirectory() as above:  # tmp_path is below a folder that is closed itself
        run = Path(above, "run")
        (run / "work").mkdir(parents=True)
        Path(above).chmod(0o711)
        run.chmod(0o710)
        check_reachable(str(run / "work"))
        Path(above).chmod(0o710)
        with pytest.raises(LevelUnavailable, match=rf"^{above}: .* got mode 710"):
            check_reachable(str(run / "work"))


@pytest.mark.parametrize("which", range(4))
def test_an_id_that_a_process_still_uses_is_not_free(work, monkeypatch, which):
    """As its real, effective, saved or file system id."""
    free = take_user(str(work))
    free.give_back()
    ids = [[1000] * 4]
    monkeypatch.setattr(process_tree, "all_processes", lambda: [process_tree.Process(12, 1, 12, 0, is_zombie=False)])
    monkeypatch.setattr(process_tree, "users_of", lambda pid: set(ids[0]))
    ids[0][which] = free.uid
    other = take_user(str(work))
    assert other.uid != free.uid
    other.give_back()
    ids[0][which] = 1000
    again = take_user(str(work))
    assert again.uid == free.uid
    again.give_back()


def test_all_user_ids_of_a_process_are_read():
    assert process_tree.users_of(os.getpid()) == set(os.getresuid())
    assert process_tree.users_of(2**22 + 1) == set()


@pytest.mark.usefixtures("root")
def test_a_deep_tree_changes_its_owner_and_is_reclaimed(work):
    top = os.open(work, os.O_RDONLY)
    at = os.dup(top)
    for _ in range(2_100):
        os.mkdir("d", dir_fd=at)
        inner = os.open("d", os.O_RDONLY, dir_fd=at)
        os.close(at)
        at = inner
    user = take_user(str(work))
    user.own(str(work))
    assert os.fstat(at).st_uid == user.uid
    user.give_back()
    assert reclaim(str(work))
    assert os.fstat(at).st_uid == 0
    os.close(at)
    os.close(top)
    folders.remove(str(work))
    assert not work.exists()


@pytest.mark.usefixtures("root")
def test_a_tree_that_moves_during_the_walk_is_an_error(work, monkeypatch):
    (work / "one" / "two").mkdir(parents=True)
    real = os.open

    def moved(path, flags, mode=0o777, *, dir_fd=None):
        return real(work.parent if path == ".." else path, flags, mode, dir_fd=dir_fd)

    monkeypatch.setattr(os, "open", moved)
    with pytest.raises(OSError, match="was moved"):
        list(folders.entries(str(work)))
