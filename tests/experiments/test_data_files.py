"""Finding and downloading data files, against a server on this machine."""

from __future__ import annotations

import gc
import hashlib
import re
import sys
import threading
import warnings
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from experiments import data_files
from experiments.data_files import RemoteFile, fetch

CONTENTS = bytes(range(256)) * 40
FILE = RemoteFile("folder/numbers.bin", "owner/repo/0123abc/numbers.bin", hashlib.sha256(CONTENTS).hexdigest())


class Handler(BaseHTTPRequestHandler):
    """Serves ``server.body``; ``server.announced`` bytes are promised."""

    def do_GET(self):
        self.server.requested.append(self.path)
        self.send_response(200 if self.path == f"/{FILE.source}" else 404)
        self.send_header("Content-Length", str(self.server.announced))
        self.end_headers()
        self.wfile.write(self.server.body)

    def log_message(self, *args):
        pass


@pytest.fixture
def server(monkeypatch):
    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.body, server.announced, server.requested = CONTENTS, len(CONTENTS), []
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        monkeypatch.setattr(data_files, "GITHUB", f"http://127.0.0.1:{server.server_port}")
        monkeypatch.setenv("NO_PROXY", "127.0.0.1")
        yield server
        server.shutdown()
        thread.join()
    with warnings.catch_warnings():  # the response of a failed download is left to the garbage collector
        warnings.simplefilter("ignore", ResourceWarning)
        gc.collect()


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setattr(data_files, "cache_folder", lambda: tmp_path / "cache")
    monkeypatch.delenv("KERNELKIN_DATA", raising=False)
    return tmp_path / "cache"


def put(folder, contents=CONTENTS):
    path = folder / FILE.path
    path.parent.mkdir(parents=True)
    path.write_bytes(contents)
    return path


def files_in(folder):
    return [path for path in folder.rglob("*") if path.is_file()]


def test_data_home_goes_before_the_environment(tmp_path, monkeypatch):
    here, there = put(tmp_path / "here"), put(tmp_path / "there")
    monkeypatch.setenv("KERNELKIN_DATA", str(tmp_path / "there"))
    assert fetch(FILE) == there
    assert fetch(FILE, tmp_path / "here") == here


def test_corrupt_local_file_is_refused_and_not_replaced(tmp_path, server):
    path = put(tmp_path / "here", CONTENTS[:-1])
    with pytest.raises(OSError, match="is not the file that was expected") as error:
        fetch(FILE, tmp_path / "here")
    for part in (str(path), FILE.sha256, FILE.url, "KERNELKIN_DATA"):
        assert part in str(error.value)
    assert not server.requested
    assert path.read_bytes() == CONTENTS[:-1]


def test_download_goes_to_the_cache_once(cache, server, tmp_path):
    path = fetch(FILE, tmp_path)  # a folder without the file
    assert path == cache / FILE.path
    assert path.read_bytes() == CONTENTS
    assert fetch(FILE) == path
    assert server.requested == [f"/{FILE.source}"]


def test_corrupt_cached_file_is_downloaded_again(cache, server):
    path = put(cache, b"rubbish")
    assert fetch(FILE) == path
    assert path.read_bytes() == CONTENTS


@pytest.mark.parametrize(
    ("body", "announced"),
    [(CONTENTS[:-1] + b"!", len(CONTENTS)), (CONTENTS[:100], len(CONTENTS)), (b"", 0)],
    ids=["corrupt", "interrupted", "empty"],
)
def test_broken_download_leaves_nothing(cache, server, tmp_path, body, announced):
    server.body, server.announced = body, announced
    with pytest.raises(FileNotFoundError, match="download failed") as error:
        fetch(FILE, tmp_path)
    for part in (str(tmp_path), str(cache), FILE.path, FILE.sha256, FILE.url):
        assert part in str(error.value)
    assert files_in(tmp_path) == []


def test_broken_download_keeps_what_the_cache_had(cache, server):
    path = put(cache, b"old")
    server.body = CONTENTS[:100]
    with pytest.raises(FileNotFoundError):
        fetch(FILE)
    assert files_in(cache) == [path]
    assert path.read_bytes() == b"old"


def test_missing_at_the_source(cache, server):
    file = RemoteFile(FILE.path, "owner/repo/0123abc/gone.bin", FILE.sha256, also="http://example.org/gone")
    with pytest.raises(FileNotFoundError, match="404") as error:
        fetch(file)
    assert file.url in str(error.value)
    assert "also at http://example.org/gone" in str(error.value)
    assert "data_home and KERNELKIN_DATA are not set" in str(error.value)
    assert files_in(cache) == []


def test_without_pooch_the_error_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "pooch", None)
    with pytest.raises(ImportError, match=re.escape('pip install "kernelkin[data]"')) as error:
        fetch(FILE)
    assert FILE.url in str(error.value)


def test_without_pooch_a_local_file_is_enough(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "pooch", None)
    path = put(tmp_path / "here")
    assert fetch(FILE, tmp_path / "here") == path
