"""Where results may be written, and how: files, links, devices, pipes, and what is refused.

No test names a real device. A terminal of `openpty` stands for devices: nothing, not even root, can replace it.
"""

import os
import socket
import stat
import subprocess
import sys
import threading
from pathlib import Path

import pytest

import confmax
from confmax.places import check_place, replaces, same_place, write_whole
from tests.helpers import files_of_at_most

pytestmark = pytest.mark.usefixtures("inside")
RULE = confmax.DecisionRule.from_weights([1.0, 2.0], classes=["no", "yes"])


def names(folder="."):
    return sorted(path.name for path in Path(folder).iterdir())


# --- files -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mask, mode", [(0o027, 0o640), (0, 0o666)])
def test_a_new_file_gets_the_mode_of_the_umask_which_is_not_touched(monkeypatch, mask, mode):
    """The umask belongs to all threads of a process, so it must not be changed to read it."""
    before = os.umask(mask)
    try:
        with monkeypatch.context() as patched:
            patched.setattr(os, "umask", lambda _: pytest.fail("the umask is changed"))
            RULE.save("rule.json")
    finally:
        os.umask(before)
    assert stat.S_IMODE(Path("rule.json").stat().st_mode) == mode
    assert names() == ["rule.json"]


def test_a_file_that_exists_is_replaced_and_keeps_its_mode():
    path = Path("rule.json")
    path.write_text("before, and longer than what follows" * 100)
    path.chmod(0o640)
    os.link(path, "other.json")
    with path.open("rb") as reader:
        RULE.save(path)
        assert reader.read().startswith(b"before")  # a reader sees the old file whole, and so do other hard links
    assert path.read_text() == RULE.to_json()
    assert Path("other.json").read_text().startswith("before")
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
    assert names() == ["other.json", "rule.json"]


def test_a_name_may_be_as_long_as_names_may_be():
    name = "r" * 250 + ".json"
    RULE.save(name)
    assert names() == [name]


def test_a_failed_write_names_the_path_and_leaves_the_old_file():
    Path("rule.json").write_text("before")
    Path("link.json").symlink_to("rule.json")
    for name in ("rule.json", "link.json", "new.json"):
        with files_of_at_most(100), pytest.raises(OSError, match="File too large") as failed:
            RULE.save(name)
        assert failed.value.filename == name
    assert names() == ["link.json", "rule.json"]
    assert Path("rule.json").read_text() == "before"


# --- links -----------------------------------------------------------------------------------------------------------


def test_a_link_is_written_through(tmp_path):
    """The target holds the new rule, whether it was there or not; the link stays, through any number of links."""
    (tmp_path / "far").mkdir()
    (tmp_path / "near").mkdir()
    target = Path("far/rule.json")
    Path("near/middle.json").symlink_to("../far/rule.json")
    Path("link.json").symlink_to(tmp_path / "near" / "middle.json")
    for mode in (None, 0o640):
        if mode is not None:
            target.write_text("before")
            target.chmod(mode)
        RULE.save("link.json")
        assert target.read_text() == RULE.to_json()
    assert stat.S_IMODE(target.stat().st_mode) == 0o640
    assert os.readlink("link.json") == str(tmp_path / "near" / "middle.json")
    assert os.readlink("near/middle.json") == "../far/rule.json"
    assert (names("far"), names("near"), names()) == (["rule.json"], ["middle.json"], ["far", "link.json", "near"])


# --- devices and pipes -----------------------------------------------------------------------------------------------


def test_a_terminal_takes_the_bytes_and_stays():
    """A terminal is a device as /dev/null is one."""
    ours, theirs = os.openpty()
    name = os.ttyname(theirs)
    try:
        check_place(Path(name))
        assert not replaces(Path(name))
        Path("link").symlink_to(name)
        write_whole(Path(name), b"one ")
        write_whole(Path("link"), b"two")
        shown = b""
        while len(shown) < 7:  # a terminal passes on what it has so far
            shown += os.read(ours, 100)
        assert shown == b"one two"
        assert stat.S_ISCHR(Path(name).stat().st_mode)
    finally:
        os.close(ours)
        os.close(theirs)


def test_more_than_a_pipe_holds_is_written_as_it_is_read():
    os.mkfifo("pipe")
    check_place(Path("pipe"))
    assert not replaces(Path("pipe"))
    data = os.urandom(1 << 20)
    read = []
    reader = threading.Thread(target=lambda: read.append(Path("pipe").read_bytes()), daemon=True)
    reader.start()
    write_whole(Path("pipe"), data)
    reader.join(10)
    assert read == [data]
    assert stat.S_ISFIFO(Path("pipe").stat().st_mode)
    assert names() == ["pipe"]


def test_a_reader_that_leaves_is_an_error_with_the_path():
    os.mkfifo("pipe")
    reader = threading.Thread(target=lambda: Path("pipe").open("rb", buffering=0).close(), daemon=True)
    reader.start()
    with pytest.raises(BrokenPipeError) as failed:
        write_whole(Path("pipe"), bytes(1 << 20))
    assert failed.value.filename == "pipe"


@pytest.mark.skipif(not os.path.exists("/proc/self/fd/1"), reason="no /proc")
def test_output_redirected_to_a_file():
    """By `/dev/stdout`, what is printed is kept, in order; by its own name the file is replaced."""
    code = (
        "from pathlib import Path\nfrom confmax.places import replaces, write_whole\n"
        "path = Path('/proc/self/fd/1')\nprint('before', replaces(path))\n"
        "write_whole(path, b'result\\n')\nprint('after', flush=True)\nprint(replaces(Path('out.txt')))"
    )
    environment = {**os.environ, "PYTHONPATH": str(Path(confmax.__file__).parents[1])}
    with open("out.txt", "w") as out:
        subprocess.run([sys.executable, "-c", code], stdout=out, env=environment, check=True)
    assert Path("out.txt").read_text() == "before False\nresult\nafter\nTrue\n"


# --- refused ---------------------------------------------------------------------------------------------------------


def refused(path, sentence):
    """Both the check before the work and the write itself refuse a path, with one and the same sentence."""
    for attempt in (lambda: check_place(Path(path)), lambda: RULE.save(path)):
        with pytest.raises(ValueError) as error:
            attempt()
        assert str(error.value) == sentence


LONG = "r" * 300
REFUSED = {
    "folder": "folder is a directory; name the file to write in it",
    "to_folder": "to_folder is a directory; name the file to write in it",
    "a.json": "a.json is reached by symbolic links in a circle; remove them or choose another name",
    "lost.json": "the folder {}/none does not exist, so rule.json cannot be written (lost.json leads there); create it "
    "first",
    "rule.json/new/x.json": "rule.json/new/x.json cannot be written because rule.json is a file, not a folder; choose "
    "another place",
    LONG: f"{LONG} cannot be written (File name too long); choose another place",
}


@pytest.mark.parametrize("path", REFUSED)
def test_folders_links_that_lead_nowhere_and_impossible_names_are_refused(path, tmp_path):
    Path("folder").mkdir()
    Path("rule.json").write_text("before")
    links = {"to_folder": "folder", "a.json": "b.json", "b.json": "a.json", "lost.json": "none/rule.json"}
    for name, target in links.items():
        Path(name).symlink_to(target)
    before = names()
    refused(path, REFUSED[path].format(tmp_path.resolve()))
    assert names() == before and names("folder") == []


def test_a_socket_is_refused():
    with socket.socket(socket.AF_UNIX) as server:
        server.bind("socket")
        refused("socket", "socket is a socket, not a file; choose another name")
    assert stat.S_ISSOCK(Path("socket").stat().st_mode)


def test_a_block_device_is_refused(monkeypatch):
    Path("disk").write_text("all data")
    fields = list(Path("disk").stat())
    fields[0] = stat.S_IFBLK | 0o660
    with monkeypatch.context() as patched:
        patched.setattr(Path, "stat", lambda *_, **__: os.stat_result(fields))
        refused("disk", "disk is a block device, not a file; choose another name")
    assert Path("disk").read_text() == "all data"


def test_what_is_protected_is_refused(monkeypatch):
    """Renaming would replace a protected file all the same. Root may write anywhere, so the answer is given here."""
    Path("rule.json").write_text("before")
    allowed = os.access
    monkeypatch.setattr(os, "access", lambda path, mode: str(path) != "rule.json" and allowed(path, mode))
    refused("rule.json", "rule.json is write-protected; make it writable or choose another name")
    monkeypatch.setattr(os, "access", lambda path, mode: str(path) != "." and allowed(path, mode))
    # the file is writable, its folder is not: written in place, it could end up half-written
    refused("rule.json", "the folder . is not writable, so rule.json cannot be written; choose another")
    assert Path("rule.json").read_text() == "before"


def test_two_paths_to_one_place():
    Path("here").mkdir()
    Path("there").symlink_to("here")
    Path("page.html").symlink_to("here/new.html")
    assert same_place(Path("here/new.html"), Path("there/new.html"))  # neither exists
    assert same_place(Path("page.html"), Path("here/../there/new.html"))
    assert not same_place(Path("page.html"), Path("here/old.html"))
    Path("here/new.html").touch()
    os.link("here/new.html", "hard.html")
    assert same_place(Path("page.html"), Path("hard.html"))
    assert not same_place(Path("here/new.html"), Path("here/none.html"))
