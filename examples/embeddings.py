"""Serves a sentence-transformers model as an OpenAI-compatible endpoint on loopback, for `routing.vectors`.

    pip install numpy tokenizers
    python embeddings.py FOLDER [PORT]

FOLDER has config.json, tokenizer.json and model.safetensors of a BERT or MPNet model, such as all-MiniLM-L6-v2 or
all-mpnet-base-v2. The vector of a text is the mean of its tokens, with length 1.
"""

import json
import struct
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Lock

import numpy as np
from tokenizers import Tokenizer

MOST_TOKENS = 256
LARGEST_BODY = 4 * 1024 * 1024
TYPES = {"F32": np.float32, "F16": np.float16, "I64": np.int64}
# The names of the same weights in both kinds of model.
NAMES = {
    "bert": ("attention.self.query", "attention.self.key", "attention.self.value", "attention.output.dense",
             "attention.output.LayerNorm"),
    "mpnet": ("attention.attn.q", "attention.attn.k", "attention.attn.v", "attention.attn.o", "attention.LayerNorm"),
}


def read_weights(path):
    data = path.read_bytes()
    (length,) = struct.unpack("<Q", data[:8])
    header = json.loads(data[8 : 8 + length])
    header.pop("__metadata__", None)
    weights = {}
    for name, entry in header.items():
        begin, end = (8 + length + offset for offset in entry["data_offsets"])
        values = np.frombuffer(data[begin:end], TYPES[entry["dtype"]]).reshape(entry["shape"])
        weights[name.removeprefix("bert.").removeprefix("mpnet.")] = values.astype(np.float32)
    return weights


def erf(x):
    """The approximation 7.1.26 of Abramowitz and Stegun, with an error under 2e-7."""
    t = 1 / (1 + 0.3275911 * np.abs(x))
    terms = ((((1.061405429 * t - 1.453152027) * t + 1.421413741) * t - 0.284496736) * t + 0.254829592) * t
    return np.sign(x) * (1 - terms * np.exp(-x * x))


def distance_buckets(length, buckets):
    """MPNet's classes of distances between tokens: exact when near, logarithmic up to 128."""
    distance = np.arange(length)[:, None] - np.arange(length)[None, :]
    half, exact = buckets // 2, buckets // 4
    size = np.abs(distance)
    far = exact + np.log(np.maximum(size, 1) / exact) / np.log(128 / exact) * (half - exact)
    return np.where(size < exact, size, np.minimum(far.astype(int), half - 1)) + half * (distance < 0)


class Model:
    def __init__(self, folder):
        self.config = json.loads((folder / "config.json").read_text())
        if self.config["model_type"] not in NAMES:
            sys.exit(f"{folder} has a model of type {self.config['model_type']}; this program knows {', '.join(NAMES)}")
        self.weights = read_weights(folder / "model.safetensors")
        self.tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
        self.tokenizer.no_padding()
        self.tokenizer.enable_truncation(MOST_TOKENS)

    def linear(self, x, name):
        return x @ self.weights[f"{name}.weight"].T + self.weights[f"{name}.bias"]

    def norm(self, x, name):
        centred = x - x.mean(-1, keepdims=True)
        scaled = centred / np.sqrt((centred**2).mean(-1, keepdims=True) + self.config["layer_norm_eps"])
        return scaled * self.weights[f"{name}.weight"] + self.weights[f"{name}.bias"]

    def embed(self, text):
        ids = self.tokenizer.encode(text).ids
        kind, heads, length = self.config["model_type"], self.config["num_attention_heads"], len(ids)
        first = self.config["pad_token_id"] + 1 if kind == "mpnet" else 0
        x = self.weights["embeddings.word_embeddings.weight"][ids]
        x = x + self.weights["embeddings.position_embeddings.weight"][first : first + length]
        bias = 0
        if kind == "mpnet":
            table = self.weights["encoder.relative_attention_bias.weight"]
            bias = table[distance_buckets(length, len(table))].transpose(2, 0, 1)
        else:
            x = x + self.weights["embeddings.token_type_embeddings.weight"][0]
        x = self.norm(x, "embeddings.LayerNorm")
        for layer in range(self.config["num_hidden_layers"]):
            query, key, value, output, norm = (f"encoder.layer.{layer}.{name}" for name in NAMES[kind])
            q, k, v = (self.linear(x, name).reshape(length, heads, -1).transpose(1, 0, 2) for name in (query, key, value))
            scores = q @ k.transpose(0, 2, 1) / np.sqrt(q.shape[-1]) + bias
            shares = np.exp(scores - scores.max(-1, keepdims=True))
            mixed = (shares / shares.sum(-1, keepdims=True)) @ v
            x = self.norm(x + self.linear(mixed.transpose(1, 0, 2).reshape(length, -1), output), norm)
            inner = self.linear(x, f"encoder.layer.{layer}.intermediate.dense")
            inner = inner * 0.5 * (1 + erf(inner / np.sqrt(2)))
            x = self.norm(x + self.linear(inner, f"encoder.layer.{layer}.output.dense"), f"encoder.layer.{layer}.output.LayerNorm")
        mean = x.mean(0)
        return mean / np.linalg.norm(mean)


def handler_for(model):
    busy = Lock()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self):
            length = int(self.headers.get("content-length") or -1)
            if not 0 <= length <= LARGEST_BODY:
                return self.answer(413, {"error": f"a body of at most {LARGEST_BODY} bytes with Content-Length is needed"})
            try:
                texts = json.loads(self.rfile.read(length))["input"]
                texts = [texts] if isinstance(texts, str) else [str(text) for text in texts]
            except (ValueError, KeyError, TypeError):
                return self.answer(400, {"error": 'the body must be {"model": …, "input": [texts]}'})
            with busy:
                vectors = [model.embed(text).tolist() for text in texts]
            try:
                self.answer(200, {"data": [{"index": i, "embedding": vector} for i, vector in enumerate(vectors)]})
            except ConnectionError:
                print(f"the client did not wait for the vectors of {len(texts)} texts", file=sys.stderr)

        def answer(self, status, value):
            body = json.dumps(value).encode()
            self.send_response(status)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(body)))
            if status != 200:
                self.close_connection = True
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_):
            pass

    return Handler


def main():
    if len(sys.argv) not in (2, 3):
        sys.exit(__doc__)
    port = int(sys.argv[2]) if len(sys.argv) == 3 else 8080
    server = ThreadingHTTPServer(("127.0.0.1", port), handler_for(Model(Path(sys.argv[1]))))
    print(f"http://127.0.0.1:{server.server_port}/v1/embeddings", flush=True)
    try:
        server.serve_forever()
    except KeyboardInterrupt:
        pass


if __name__ == "__main__":
    main()
