#!/usr/bin/env python3
"""Local stand-in for hosted embedding APIs (for tests and benchmarks; never leaves 127.0.0.1).

Speaks, by path:
  POST */embeddings   OpenAI shape (also Gemini's OpenAI-compatible path, Ollama, LM Studio ...).
                      Honours "dimensions", and "encoding_format": "base64" | "float".
                      A Voyage body ("input_type" / "output_dimension") gets the same answer shape.
  POST *:predict      Vertex AI shape (instances/parameters.outputDimensionality).
  POST *:embedContent / *:batchEmbedContents   native Gemini shape.
  GET  /stats         counters as JSON      POST /reset   zero the counters
  POST /control       change behaviour at run time, JSON object with any of the fields of Behaviour

Vectors are deterministic: "bow" (default) hashes words (and bigrams for CJK) into `dim`
buckets with signs and normalises, so texts that share words are near and search has
meaning; "hash" gives an independent random unit vector per distinct text.

Use as a program:  stub_embeddings.py --port 0 --dim 768 --latency-ms 50
  prints one line: {"url": "http://127.0.0.1:PORT/v1", "port": PORT, "pid": PID}
                   stub_embeddings.py --self-check      start, ask every path, provoke each failure, stop
Use as a library:  with StubServer(dim=64) as stub: stub.url; stub.control(status=429); stub.stats()
"""

from __future__ import annotations

import argparse
import base64
import hashlib
import json
import os
import re
import threading
import time
import urllib.error
import urllib.request
from dataclasses import asdict, dataclass, fields
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import numpy as np

WORD = re.compile(r"[a-z0-9_]+|[぀-ヿ㐀-鿿가-힯]+|[^\W\d_]+", re.I | re.U)


@dataclass
class Behaviour:
    dim: int = 768  # used when the request names no dimension
    force_dim: int = 0  # > 0: ignore what the request asks, answer with this many
    mode: str = "bow"  # bow | hash
    latency_ms: float = 0.0  # fixed per request
    latency_per_text_ms: float = 0.0
    status: int = 200  # answer every request with this (until cleared)
    fail_first: int = 0  # answer the next N requests with fail_status, then work
    fail_every: int = 0  # every Nth request answers fail_status
    fail_after: int = 0  # requests after the Nth answer fail_status (counted from reset)
    fail_status: int = 429
    retry_after: str = ""  # Retry-After header on errors
    hang: bool = False  # accept and never answer (until cleared)
    hold_word: str = ""  # requests with a text that holds this word get no answer (until cleared)
    hang_s: float = 0.0  # answer only after this long
    max_texts: int = 0  # > 0: 400 when a request carries more texts (as OpenAI 2048, Vertex 250)
    max_tokens_text: int = 0  # > 0: 400 when one text has more than this many estimated tokens
    max_concurrent: int = 0  # > 0: 429 when more requests are under way
    rps: float = 0.0  # > 0: token bucket; 429 above this many requests a second
    short_by: int = 0  # answer with N vectors fewer than asked (broken server)
    garbage: bool = False  # 200 with a body that isn't JSON
    body: str = ""  # 200 with this body instead of vectors
    need_key: str = ""  # 401 unless Authorization: Bearer KEY (or Google's x-goog-api-key: KEY)
    echo_key: bool = False  # error messages quote the key that was sent, as careless servers do
    poison: str = ""  # a request with a text that holds this word answers poison_status
    poison_status: int = 400
    nan_on: str = ""  # texts that hold this word get a vector of NaN
    drop: bool = False  # read the request, then close the connection without an answer
    shuffle: bool = False  # OpenAI shape: list the vectors in reverse order, each with its true index
    no_index: str = ""  # OpenAI shape: leave the index out where it is 0 ("zero", as Gemini does) or "always"
    refuse_fields: str = ""  # comma-separated request fields that are answered 400 by name
    refuse_encoding: str = ""  # answer this encoding_format with 400
    google_reason: str = ""  # the reason in a Google error's details
    error_code: str = ""  # the error's "code" instead of the usual one
    slow_word: str = ""  # requests with a text that holds this word take slow_s longer
    slow_s: float = 0.0


class StubState:
    """Behaviour, counters and the vectors of one stub."""

    def __init__(self, b: Behaviour):
        self.b = b
        self.lock = threading.Lock()
        self.cache: dict[tuple[str, int], tuple[int, float]] = {}
        self.now = 0  # requests under way since the last reset
        self.token = "ya29.stub-access-token"
        self.reset()

    def reset(self):
        """Zero the counters; the behaviour stays."""
        self.n = dict(
            requests=0,
            ok=0,
            failed=0,
            texts=0,
            chars=0,
            max_texts_seen=0,
            max_chars_seen=0,
            max_concurrent_seen=0,
            by_status={},
            distinct_texts=0,
            answered_texts=0,
        )
        self.seen: set[bytes] = set()
        self.now = 0
        self.bucket = 1.0
        self.bucket_t = time.monotonic()
        self.t0 = time.monotonic()
        self.cpu0 = time.process_time()
        self.last_texts: list[str] = []
        self.last_request: dict = {}
        self.last_path = ""
        self.last_headers: dict = {}
        self.open_requests = threading.Event()

    def vector(self, text: str, dim: int) -> np.ndarray:
        """The unit vector (float32, dim) of a text: the same for the same text, always."""
        if self.b.mode == "hash":
            seed = int.from_bytes(hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest(), "big")
            v = np.random.default_rng(seed).standard_normal(dim)
        else:
            v = np.zeros(dim)
            idx, sgn = [], []
            for w in WORD.findall(text.lower()):
                toks = [w] if ord(w[0]) < 0x3040 else ([w[i : i + 2] for i in range(len(w) - 1)] or [w])
                for t in toks:
                    c = self.cache.get((t, dim))
                    if c is None:
                        h = int.from_bytes(
                            hashlib.blake2b(t.encode("utf-8", "surrogatepass"), digest_size=8).digest(), "big"
                        )
                        c = self.cache[(t, dim)] = (h % dim, 1.0 if (h >> 40) & 1 else -1.0)
                    idx.append(c[0])
                    sgn.append(c[1])
            if idx:
                np.add.at(v, idx, sgn)
                v = np.sign(v) * np.sqrt(np.abs(v))
            else:
                v[0] = 1.0
        n = np.linalg.norm(v)
        return (v / n if n else np.eye(1, dim)[0]).astype(np.float32)


class Handler(BaseHTTPRequestHandler):
    """One HTTP connection: routes a request to its API shape and applies the behaviour."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    state: StubState
    counted: dict | None = None  # the counters of the request under way

    def log_message(self, *a):
        pass

    def _send(self, code: int, obj, headers=()):
        self._leave()
        body = obj if isinstance(obj, bytes) else json.dumps(obj).encode()
        with self.state.lock:
            k = str(code)
            self.state.n["by_status"][k] = self.state.n["by_status"].get(k, 0) + 1
        self.send_response(code)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        for k, v in headers:
            self.send_header(k, v)
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self):
        if self.path.startswith("/stats"):
            s = self.state
            with s.lock:
                out = dict(
                    s.n,
                    wall_s=round(time.monotonic() - s.t0, 3),
                    stub_cpu_s=round(time.process_time() - s.cpu0, 3),
                    behaviour=asdict(s.b),
                    last_texts=[t[:500] for t in s.last_texts],
                )
            return self._send(200, out)
        if self.path.endswith("/models"):
            return self._send(200, {"object": "list", "data": [{"id": "stub", "object": "model"}]})
        self._send(404, {"error": "not found"})

    def do_POST(self):
        s = self.state
        raw = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        if self.path.startswith("/reset"):
            with s.lock:
                s.reset()
            return self._send(200, {})
        if self.path.startswith("/token"):  # Google's OAuth token service, for service account files
            return self._send(200, {"access_token": self.state.token, "expires_in": 3600, "token_type": "Bearer"})
        if self.path.startswith("/control"):
            known = {f.name for f in fields(Behaviour)}
            for k, v in json.loads(raw or b"{}").items():
                if k not in known:
                    return self._send(400, {"error": f"unknown field {k}"})
                setattr(s.b, k, v)
            return self._send(200, asdict(s.b))
        try:
            self._embed(json.loads(raw))
        except (BrokenPipeError, ConnectionResetError):
            self.close_connection = True

    def _error(self, code, msg):
        with self.state.lock:
            self.state.n["failed"] += 1
        kind = {401: "invalid_api_key", 429: "rate_limit_exceeded"}.get(code, "server_error")
        h = [("Retry-After", self.state.b.retry_after)] if self.state.b.retry_after else []
        if self.state.b.echo_key:
            msg = f"{msg}: {self._sent_key()}"
        details = [{"reason": self.state.b.google_reason}] if self.state.b.google_reason else []
        google = {"error": {"code": code, "message": msg, "status": kind.upper(), "details": details}}
        other = {"error": {"message": msg, "type": kind, "code": self.state.b.error_code or kind}, "detail": msg}
        self._send(code, google if ":" in self.path else other, h)

    def _sent_key(self):
        return self.headers.get("x-goog-api-key") or (self.headers.get("Authorization") or "").removeprefix("Bearer ")

    def _embed(self, req: dict):
        s, b = self.state, self.state.b
        path = self.path.split("?")[0]
        if path.endswith(":predict"):
            kind, texts = "vertex", [i["content"] for i in req["instances"]]
            dim = (req.get("parameters") or {}).get("outputDimensionality")
        elif path.endswith(":batchEmbedContents"):
            kind = "gemini"
            texts = ["".join(p.get("text", "") for p in r["content"]["parts"]) for r in req["requests"]]
            first = req["requests"][0] if req["requests"] else {}
            dim = first.get("outputDimensionality") or (first.get("embedContentConfig") or {}).get(
                "outputDimensionality"
            )
        elif path.endswith(":embedContent"):
            kind, texts = "gemini1", ["".join(p.get("text", "") for p in req["content"]["parts"])]
            dim = req.get("outputDimensionality") or (req.get("embedContentConfig") or {}).get("outputDimensionality")
        elif path.endswith("/embeddings"):
            kind, inp = "openai", req.get("input")
            texts = [inp] if isinstance(inp, str) else list(inp)
            dim = req.get("dimensions") or req.get("output_dimension")
        else:
            return self._send(404, {"error": {"message": f"no such path {path}"}})
        with s.lock:
            s.n["requests"] += 1
            num = s.n["requests"]
            s.n["texts"] += len(texts)
            s.n["chars"] += sum(map(len, texts))
            s.n["max_texts_seen"] = max(s.n["max_texts_seen"], len(texts))
            s.n["max_chars_seen"] = max([s.n["max_chars_seen"], *map(len, texts)])
            for t in texts:
                s.seen.add(hashlib.blake2b(t.encode("utf-8", "surrogatepass"), digest_size=8).digest())
            s.n["distinct_texts"] = len(s.seen)
            s.last_texts = texts[-3:]
            s.last_request = req
            s.last_path = path
            s.last_headers = dict(self.headers)
            s.open_requests.set()
            s.now += 1
            self.counted = s.n
            under_way = s.now
            s.n["max_concurrent_seen"] = max(s.n["max_concurrent_seen"], s.now)
            limited = False
            if b.rps > 0:
                t = time.monotonic()
                s.bucket = min(max(1.0, b.rps), s.bucket + (t - s.bucket_t) * b.rps)
                s.bucket_t = t
                limited = s.bucket < 1.0
                if not limited:
                    s.bucket -= 1.0
            fail_now = False
            if b.fail_first > 0:
                b.fail_first -= 1
                fail_now = True
        try:
            t_end = time.monotonic() + b.hang_s + (b.latency_ms + b.latency_per_text_ms * len(texts)) / 1000
            if b.slow_word and any(b.slow_word in t for t in texts):
                t_end += b.slow_s
            while b.hang or (b.hold_word and any(b.hold_word in t for t in texts)):
                time.sleep(0.02)
            if b.drop:
                self.close_connection = True
                return None
            if b.need_key and self._sent_key() != b.need_key:
                return self._error(401, "Incorrect API key provided")
            if b.status != 200:
                return self._error(b.status, f"stub forced status {b.status}")
            if fail_now or (b.fail_every and num % b.fail_every == 0) or (b.fail_after and num > b.fail_after):
                return self._error(b.fail_status, f"stub failure {b.fail_status} on request {num}")
            if limited or (b.max_concurrent and under_way > b.max_concurrent):
                return self._error(429, "Rate limit reached")
            if b.poison and any(b.poison in t for t in texts):
                return self._error(b.poison_status, "this input cannot be embedded")
            if b.refuse_encoding and req.get("encoding_format") == b.refuse_encoding:
                return self._error(400, f"unsupported encoding_format: {b.refuse_encoding}")
            for field in filter(None, b.refuse_fields.split(",")):
                if field in req:
                    return self._error(400, f"unknown parameter: {field}")
            if b.max_texts and len(texts) > b.max_texts:
                return self._error(400, f"too many inputs: {len(texts)} > {b.max_texts}")
            if b.max_tokens_text and any(len(t) // 4 > b.max_tokens_text for t in texts):
                return self._error(400, "maximum context length exceeded")
            if not texts or any(t == "" for t in texts) and kind == "openai":
                return self._error(400, "'$.input' is invalid: empty string")
            dim = b.force_dim or dim or b.dim
            vecs = [s.vector(t, dim) for t in texts]
            if b.nan_on:
                vecs = [np.full_like(v, np.nan) if b.nan_on in t else v for v, t in zip(vecs, texts)]
            if b.short_by:
                vecs = vecs[: max(0, len(vecs) - b.short_by)]
            wait = t_end - time.monotonic()
            if wait > 0:
                time.sleep(wait)
            if b.garbage:
                return self._send(200, b"<html>oops</html>")
            if b.body:
                return self._send(200, b.body.encode())
            if kind == "vertex":
                out = {
                    "predictions": [
                        {"embeddings": {"values": v.tolist(), "statistics": {"token_count": 1}}} for v in vecs
                    ]
                }
            elif kind == "gemini":
                out = {"embeddings": [{"values": v.tolist()} for v in vecs]}
            elif kind == "gemini1":
                out = {"embedding": {"values": vecs[0].tolist()}}
            else:
                b64 = req.get("encoding_format") == "base64"
                out = {
                    "object": "list",
                    "model": req.get("model", "stub"),
                    "data": [
                        {
                            "object": "embedding",
                            **({} if b.no_index and (b.no_index == "always" or not i) else {"index": i}),
                            "embedding": base64.b64encode(v.tobytes()).decode() if b64 else v.tolist(),
                        }
                        for i, v in (reversed(list(enumerate(vecs))) if b.shuffle else enumerate(vecs))
                    ],
                    "usage": {
                        "prompt_tokens": sum(len(t) // 4 for t in texts),
                        "total_tokens": sum(len(t) // 4 for t in texts),
                    },
                }
            with s.lock:
                s.n["ok"] += 1
                s.n["answered_texts"] += len(texts)
            self._send(200, out)
        finally:
            self._leave()

    def _leave(self):
        """No longer under way: before the answer is sent, as who has it may ask again at once."""
        with self.state.lock:
            if self.counted is self.state.n:
                self.state.now -= 1
            self.counted = None


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128


class StubServer:
    """Run the stub in this process (a thread). A context manager; .url is the base URL ending in /v1."""

    def __init__(self, port: int = 0, **behaviour):
        self.state = StubState(Behaviour(**behaviour))
        h = type("H", (Handler,), {"state": self.state})
        self.httpd = _Server(("127.0.0.1", port), h)
        self.port = self.httpd.server_address[1]
        self.url = f"http://127.0.0.1:{self.port}/v1"

    def __enter__(self):
        threading.Thread(target=self.httpd.serve_forever, args=(0.02,), daemon=True).start()
        return self

    def __exit__(self, *a):
        self.state.b.hang, self.state.b.hold_word = False, ""
        self.httpd.shutdown()
        self.httpd.server_close()

    def control(self, **kw):
        """Change fields of Behaviour."""
        for k, v in kw.items():
            setattr(self.state.b, k, v)

    def stats(self):
        """A copy of the counters."""
        with self.state.lock:
            return dict(self.state.n)

    def reset(self):
        with self.state.lock:
            self.state.reset()


def self_check():
    """Start a stub, use every path and failure once, raise AssertionError where an answer is wrong."""

    def ask(url, body, key=None):
        headers = {"Content-Type": "application/json", **({"Authorization": f"Bearer {key}"} if key else {})}
        try:
            with urllib.request.urlopen(
                urllib.request.Request(url, json.dumps(body).encode(), headers), timeout=10
            ) as r:
                return r.status, json.loads(r.read())
        except urllib.error.HTTPError as e:
            return e.code, dict(e.headers)

    with StubServer(dim=64) as stub:
        root = stub.url.removesuffix("/v1")
        code, out = ask(stub.url + "/embeddings", {"input": ["red kettle", "red kettle", "blue sky"], "dimensions": 32})
        a, b, c = (np.array(d["embedding"]) for d in out["data"])
        assert code == 200 and len(a) == 32 and np.allclose(a, b) and a @ b > a @ c and abs(a @ a - 1) < 1e-5
        code, out = ask(stub.url + "/embeddings", {"input": "red kettle", "encoding_format": "base64"})
        assert np.frombuffer(base64.b64decode(out["data"][0]["embedding"]), np.float32).shape == (64,)
        _, out = ask(
            root + "/p/x:predict", {"instances": [{"content": "a"}], "parameters": {"outputDimensionality": 8}}
        )
        assert len(out["predictions"][0]["embeddings"]["values"]) == 8
        part = {"content": {"parts": [{"text": "a"}]}, "outputDimensionality": 8}
        _, out = ask(root + "/m:batchEmbedContents", {"requests": [part, part]})
        assert len(out["embeddings"]) == 2
        _, out = ask(root + "/m:embedContent", part)
        assert len(out["embedding"]["values"]) == 8
        stub.control(fail_first=1, retry_after="3")
        code, head = ask(stub.url + "/embeddings", {"input": "a"})
        assert code == 429 and head["Retry-After"] == "3" and ask(stub.url + "/embeddings", {"input": "a"})[0] == 200
        stub.control(need_key="K")
        assert (
            ask(stub.url + "/embeddings", {"input": "a"})[0] == 401
            and ask(stub.url + "/embeddings", {"input": "a"}, "K")[0] == 200
        )
        stub.control(need_key="", max_texts=2, short_by=1)
        assert ask(stub.url + "/embeddings", {"input": ["a"] * 3})[0] == 400
        assert len(ask(stub.url + "/embeddings", {"input": ["a", "b"]})[1]["data"]) == 1
        assert ask(stub.url + "/embeddings", {"input": [""]})[0] == 400
        print(json.dumps({"self_check": "ok", **stub.stats()}))


def main():
    p = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    p.add_argument("--port", type=int, default=0)
    p.add_argument("--self-check", action="store_true")
    for f in fields(Behaviour):
        flag = "--" + f.name.replace("_", "-")
        if isinstance(f.default, bool):
            p.add_argument(flag, action="store_true")
        else:
            p.add_argument(flag, type=type(f.default), default=f.default)
    a = vars(p.parse_args())
    if a.pop("self_check"):
        return self_check()
    srv = StubServer(port=a.pop("port"), **a)
    print(json.dumps({"url": srv.url, "port": srv.port, "pid": os.getpid()}), flush=True)
    try:
        srv.httpd.serve_forever()
    except KeyboardInterrupt:
        pass


if __name__ == "__main__":
    main()
