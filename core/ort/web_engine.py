"""onnxruntime-web in a browser as two engines: WebAssembly with threads, and WebGPU.

The page of a headless browser requests commands from a server in this process, so no browser driver is needed. The
browser ends when the pipe to its debugger closes, which happens whenever this process ends.
"""

from __future__ import annotations

import json
import os
import re
import secrets
import shutil
import subprocess
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from queue import Queue
from threading import Event, Lock, Thread
from typing import Any
from weakref import finalize

import numpy as np
import onnx

from ..errors import EvaluationError
from ..io.ort_format import is_ort_file
from ..processes.process_limits import usable_cores
from ..support.scratch_folder import ScratchFolder
from .engines import SINGLE, Engine, EngineSession, EngineSettings, ValueFacts

Array = np.ndarray[Any, Any]
PACKAGE = "onnxruntime-web"
BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
INSTALL = f"npm install {PACKAGE}, and Chromium or Chrome; NODE_PATH and CHROME_PATH say where they are"
WASM, WEBGPU = "wasm", "webgpu"
BUNDLES = {WASM: "ort.wasm.min.js", WEBGPU: "ort.webgpu.min.js"}
FLAGS = (
    "--headless", "--remote-debugging-pipe", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync",
    "--no-sandbox",  # containers seldom allow it; the browser opens only its own page
)  # fmt: skip
GPU = ("--enable-unsafe-webgpu", "--enable-features=Vulkan")
SOFTWARE_GPU = (*GPU, "--use-webgpu-adapter=swiftshader", "--use-angle=swiftshader", "--enable-unsafe-swiftshader")
LAUNCH = 'ulimit -S -d "$(ulimit -H -d)"; exec "$@" 3<&0 4>&1 </dev/null >/dev/null 2>&1'
"""Starts a program with a pipe at 3 and 4, where the browser expects its debugger, without this process's limit."""
START_SECONDS, END_SECONDS = 60.0, 5.0
HEADERS = {"Cross-Origin-Opener-Policy": "same-origin", "Cross-Origin-Embedder-Policy": "require-corp"}
"""A page has threads only with these headers."""
TYPES = {".html": "text/html", ".js": "text/javascript", ".mjs": "text/javascript", ".wasm": "application/wasm"}
PAD = 8  # bytes
KINDS = frozenset(
    ("bool", "float16", "float32", "float64", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
)
ONNX_KINDS = {"float32": "float", "float64": "double"}
PLACED = re.compile(r"(?:Node\(s\)|All nodes) placed on \[(\w+?)(?:ExecutionProvider)?\]\. Number of nodes: (\d+)")
COPY = re.compile(r"AddCopyNode\] Add Memcpy(?:To|From)Host")


def _paths(variable: str) -> list[str]:
    return [p for p in os.environ.get(variable, "").split(os.pathsep) if p]


def _package() -> Path:
    """The folder of the package, found like node does from the working directory. Raises ImportError."""
    here = Path.cwd()
    for place in (*(p / "node_modules" for p in (here, *here.parents)), *map(Path, _paths("NODE_PATH"))):
        if (place / PACKAGE / "package.json").is_file():
            return place / PACKAGE
    raise ImportError(PACKAGE)


def _browser() -> str:
    """The browser program. Raises ImportError."""
    found = next(filter(None, map(shutil.which, (*_paths("CHROME_PATH"), *BROWSERS))), None)
    if found is None:
        raise ImportError("Chromium")
    return found


def version() -> str:
    """The version of the package, if there is also a browser. Raises ImportError."""
    _browser()
    return str(json.loads((_package() / "package.json").read_text(encoding="utf-8"))["version"])


class Page:
    """A page in its own browser, which runs one command at a time.

    `files` are the files that it may read; `unused` are its sessions that are no longer referenced.
    """

    def __init__(self, provider: str, flags: Sequence[str]) -> None:
        text = Path(__file__).with_name("web_page.html").read_text(encoding="utf-8")
        self.files: dict[str, Path | bytes] = {"page.html": text.replace("BUNDLE", BUNDLES[provider]).encode()}
        self.files |= {file.name: file for file in (_package() / "dist").iterdir()}
        self.unused: list[int] = []
        self.adapter, self.is_dead = "", Event()
        self._commands, self._answers, self._lock = Queue[bytes](), Queue[bytes](), Lock()
        self._is_connected, self._folder = Event(), ScratchFolder()
        self.root = f"/{secrets.token_urlsafe()}/"  # known only to the browser
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), partial(_Handler, self))
        Thread(target=self._server.serve_forever, daemon=True).start()
        self._start(flags)
        if not self._is_connected.wait(START_SECONDS) or self.is_dead.is_set():
            self.close()
            raise EvaluationError(f"{_browser()} did not open its page")

    def _start(self, flags: Sequence[str]) -> None:
        address = f"http://127.0.0.1:{self._server.server_port}{self.root}page.html"
        start = self._folder.path / "start.html"  # in a file, because arguments of programs are visible to all users
        start.write_text(f"<script>location.replace({json.dumps(address)})</script>", encoding="ascii")
        program = ["/bin/sh", "-c", LAUNCH, "sh", _browser(), *FLAGS, *flags]
        self._process = subprocess.Popen(  # noqa: S603 - a program that the user installed
            [*program, f"--user-data-dir={self._folder.path}", start.as_uri()],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        self.end = finalize(self, _end, self._process)

    def ask(self, command: Mapping[str, Any], feeds: Mapping[str, Any] = {}) -> tuple[Any, bytes]:
        """Run a command in the page on arrays; return its answer and the bytes of arrays. Raises EvaluationError."""
        described, parts = list[dict[str, Any]](), list[bytes]()
        for name, given in feeds.items():
            array = np.ascontiguousarray(given)
            if array.dtype.name not in KINDS:
                raise EvaluationError(f"it cannot exchange elements of {array.dtype}, such as in {name}")
            at, shape = sum(map(len, parts)), list(np.shape(given))
            described.append({"name": name, "kind": array.dtype.name, "dims": shape, "at": at, "size": array.nbytes})
            parts.append(_padded(array.tobytes()))
        head = json.dumps({**command, "feeds": described}).encode()
        with self._lock:
            if not self.is_dead.is_set():
                self._commands.put(b"".join((len(head).to_bytes(PAD, "little"), _padded(head), *parts)))
            answer = self._answers.get()
        if not answer:
            self.close()
            raise EvaluationError("its page crashed, or the browser ended")
        end = PAD + int.from_bytes(answer[:PAD], "little")
        found = json.loads(answer[PAD:end])
        if "error" in found:
            raise EvaluationError(" ".join(found["error"].split()))
        return found, answer[PAD + len(_padded(answer[PAD:end])) :]

    def next_command(self, answer: bytes) -> bytes:
        """Take the page's answer to the last command (initially empty), and wait for the next command."""
        if answer:
            self._answers.put(answer)
        self._is_connected.set()
        return self._commands.get()

    def note_end(self) -> None:
        """Record that the page has ended: commands fail from now on."""
        self.is_dead.set()
        self._is_connected.set()
        self._answers.put(b"")

    def close(self) -> None:
        """End the browser and the server."""
        self.note_end()
        self.end()
        self._server.shutdown()
        self._server.server_close()
        self._folder.remove()


def _end(process: subprocess.Popen[bytes]) -> None:
    """End a browser by closing its pipe, or by force if necessary."""
    for end in (process.stdin, process.stdout):
        assert end is not None
        end.close()
    with suppress(subprocess.TimeoutExpired):
        process.wait(END_SECONDS)
    process.kill()
    process.wait()


class _Handler(BaseHTTPRequestHandler):
    """Requests of a page."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def __init__(self, page: Page, *arguments: Any) -> None:
        self._page = page
        super().__init__(*arguments)

    def do_GET(self) -> None:
        name = self.path.removeprefix(self._page.root)
        found = self._page.files.get(name)
        if name == "alive":  # a connection that ends with the page
            self.close_connection = True
            self._begin("Connection", "close")
            self.connection.recv(1)
            self._page.note_end()
        elif isinstance(found, Path):
            self._begin("Content-Length", str(found.stat().st_size))
            with found.open("rb") as file:
                shutil.copyfileobj(file, self.wfile, 1 << 20)
        elif found is not None:
            self._begin("Content-Length", str(len(found)))
            self.wfile.write(found)
        else:
            self.send_error(404)

    def do_POST(self) -> None:
        if self.path != f"{self._page.root}next":
            self.send_error(404)
            return
        command = self._page.next_command(self.rfile.read(int(self.headers["Content-Length"])))
        self._begin("Content-Length", str(len(command)))
        self.wfile.write(command)

    def _begin(self, *header: str) -> None:
        self.send_response(200)
        for name, value in (*HEADERS.items(), header):
            self.send_header(name, value)
        self.send_header("Content-Type", TYPES.get(Path(self.path).suffix, "application/octet-stream"))
        self.end_headers()

    def log_message(self, format: str, *arguments: Any) -> None:  # noqa: A002 - as the base calls it
        """Log nothing."""


def _padded(data: bytes) -> bytes:
    return data.ljust(-(-len(data) // PAD) * PAD, b"\0")


PAGES = dict[tuple[str, int], Page]()
"""The pages of this process, by provider and number of threads; these apply to all sessions of a page."""


def _page(provider: str, threads: int) -> Page:
    """The page of this process, opened if necessary. Raises EvaluationError."""
    page = PAGES.get((provider, threads))
    if page is not None and not page.is_dead.is_set():
        return page
    for flags in ((),) if provider == WASM else (GPU, SOFTWARE_GPU):
        page = Page(provider, flags)
        page.adapter = page.ask({"do": "start", "provider": provider, "threads": threads})[0]["adapter"]
        if page.adapter:
            PAGES[provider, threads] = page
            return page
        page.close()
    raise EvaluationError("the browser has no WebGPU adapter")


class WebSession(EngineSession):
    """A session in a page. After the page crashes, the next run opens a new one."""

    def __init__(self, provider: str, model: bytes | Path, settings: EngineSettings) -> None:
        self._provider, self._model, self.threads = provider, model, settings.threads or usable_cores()
        self._load()

    def _load(self) -> None:
        """Load the model in a page. Raises EvaluationError."""
        model = self._model
        if isinstance(model, Path) and not is_ort_file(model):
            try:
                library: Any = onnx
                model = bytes(library.load(str(model)).SerializeToString())  # including external data
            except ValueError as e:
                raise EvaluationError("it accepts at most 2 GB") from e
        page = self._page = _page(self._provider, self.threads)
        page.files["model"] = model
        unused: list[int] = [*page.unused]
        page.unused.clear()
        found, _ = page.ask({"do": "load", "provider": self._provider, "release": unused})
        self._number = found["session"]
        finalize(self, page.unused.append, self._number)
        for v in (*found["inputs"], *found["outputs"]):
            if not v["isTensor"] or v["type"] not in KINDS:
                raise EvaluationError(f"it cannot exchange a {v.get('type', 'sequence')}, such as {v['name']}")
        self.inputs, self.outputs = (
            [ValueFacts(v["name"], f"tensor({ONNX_KINDS.get(v['type'], v['type'])})", tuple(v["shape"])) for v in side]
            for side in (found["inputs"], found["outputs"])
        )
        self.load_seconds, log = found["seconds"], "\n".join(found["log"])
        if self._provider == WEBGPU:
            counts = Counter[str]()
            for where, number in PLACED.findall(log):
                counts[where] += int(number)
            copies = len(COPY.findall(log))  # they also count as nodes
            ops = f"{counts['WebGpu'] - copies} ops on {page.adapter}, {counts['CPU']} on the CPU"
            self.precision = f"{SINGLE}: {ops}, {copies} copies"

    def run(self, outputs: Sequence[str] | None, feeds: Mapping[str, Any]) -> list[Any]:
        """Run once. Raises EvaluationError."""
        if self._page.is_dead.is_set():
            self._load()
        names = [v.name for v in self.outputs] if outputs is None else list(outputs)
        found, rest = self._page.ask({"do": "run", "session": self._number, "outputs": names}, feeds)
        return [
            np.frombuffer(rest, made["kind"], made["count"], made["at"]).reshape(made["dims"]).copy()
            for made in found["outputs"]
        ]

    def bind(self, feeds: Mapping[str, Any]) -> Callable[[], object]:
        """Bind inputs in the page; the call returns its seconds, without communication with the page."""
        found, _ = self._page.ask({"do": "bind", "session": self._number}, feeds)
        return lambda: self._page.ask({"do": "call", "call": found["call"]})[0]["seconds"]

    def cancel(self) -> None:
        """End the browser, because its runs cannot be ended."""
        self._page.end()


def _engine(name: str, provider: str) -> Engine:
    def start(settings: EngineSettings) -> Page:
        return _page(provider, settings.threads or usable_cores())

    return Engine(name, partial(WebSession, provider), version=version, install=INSTALL, start=start)


ENGINE, WEBGPU_ENGINE = _engine("web", WASM), _engine("webgpu", WEBGPU)
