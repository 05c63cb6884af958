"""Times all-pairs search beside its rivals: ``python bench/run_bench.py [--sizes 30000,100000] [--reps 3]``.

Each measurement runs in a process of its own and the methods take turns, so that a busy machine slows all alike: read
the ratios, not the seconds. Memory is the highest resident size less the size just after the vectors were loaded, so
libraries that a method loads count. Recall and precision compare with NumPy's brute force in float32; pairs within
2e-6 of the threshold, which float32 may put on either side, are left out of both.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import numpy.typing as npt

Float32s = npt.NDArray[np.float32]
Found = tuple[npt.NDArray[np.int64], npt.NDArray[np.int64], npt.NDArray[np.float32]]

WIDTH = 384
EDGE = 2e-6
WARM_UP_ROWS = 2000
METHODS = ("faiss_range_search", "numpy_tiles", "bounded", "bounded_beside_encoder", "faiss_ivf")
RIVALS = ("faiss_range_search", "numpy_tiles")


@dataclass
class Measured:
    """All repetitions of one method at one size."""

    method: str
    size: int
    seconds: list[float] = field(default_factory=list)
    memory_mib: list[float] = field(default_factory=list)
    pair_count: int = 0
    recall: float = 1.0
    precision: float = 1.0

    @property
    def median(self) -> float:
        """Median seconds."""
        return statistics.median(self.seconds)


def made_vectors(count: int, seed: int = 1) -> Float32s:
    """Unit rows that lie as sentence vectors do: float32 [count, 384], the same for the same seed.

    A common direction, a spectrum that falls like that of a small sentence encoder on technical notes, subjects within
    fields, and one row in ten that repeats another, from word for word to barely alike.
    """
    rng = np.random.default_rng(seed)
    place = np.arange(1, WIDTH + 1)
    spread = np.sqrt(np.exp(-place / 250) / (place + 8) ** 0.9).astype(np.float32)

    def directions(number: int) -> Float32s:
        drawn: Float32s = rng.standard_normal((number, WIDTH), dtype=np.float32) * spread
        drawn /= np.linalg.norm(drawn, axis=1, keepdims=True)
        return drawn

    original_count = max(1, count - count // 10)
    common = directions(1)
    fields = directions(max(4, count // 900))
    subjects = directions(max(8, count // 35))
    subject = rng.integers(0, len(subjects), original_count)
    weight = rng.uniform(0.15, 0.5, (original_count, 2)).astype(np.float32)
    rows = np.empty((count, WIDTH), np.float32)
    for start in range(0, original_count, 20_000):
        part = slice(start, min(start + 20_000, original_count))
        rows[part] = directions(part.stop - part.start) + 0.32 * common
        rows[part] += weight[part, :1] * fields[subject[part] % len(fields)]
        rows[part] += 2 * weight[part, 1:] * subjects[subject[part]]
    rows[:original_count] /= np.linalg.norm(rows[:original_count], axis=1, keepdims=True)
    copied = rng.integers(0, original_count, count - original_count)
    likeness = np.minimum(rng.uniform(0.78, 1.05, (count - original_count, 1)), 1.0).astype(np.float32)
    rows[original_count:] = likeness * rows[copied] + np.sqrt(1 - likeness**2) * directions(count - original_count)
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    shuffled: Float32s = rows[rng.permutation(count)]
    return shuffled


def faiss_range_search(vectors: Float32s, min_similarity: float) -> Found:
    """FAISS's exhaustive range search, 10,000 queries at a time."""
    import faiss

    index = faiss.IndexFlatIP(vectors.shape[1])
    index.add(vectors)
    parts = []
    for start in range(0, len(vectors), 10_000):
        limits, similarity, j = index.range_search(vectors[start : start + 10_000], min_similarity)
        i = np.repeat(np.arange(len(limits) - 1), np.diff(limits).astype(np.int64)) + start
        above = i < j
        parts.append((i[above], j[above], similarity[above]))
    i, j, similarity = (np.concatenate(column) for column in zip(*parts, strict=True))
    return i, j, similarity


def numpy_tiles(vectors: Float32s, min_similarity: float) -> Found:
    """Brute force over the upper triangle, tile by tile, with the threads of NumPy's BLAS."""
    height, width = 1024, 4096
    parts = []
    for top in range(0, len(vectors), height):
        for left in range(top, len(vectors), width):
            products = vectors[top : top + height] @ vectors[left : left + width].T
            i, j = np.nonzero(products >= min_similarity)
            above = i + top < j + left
            i, j = i[above], j[above]
            parts.append((i + top, j + left, products[i, j]))
    i, j, similarity = (np.concatenate(column) for column in zip(*parts, strict=True))
    return i, j, similarity


def method_named(name: str) -> Callable[[Float32s, float], Found]:
    """The function that a method's name stands for."""
    sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
    from bench import pairs_entry

    return {
        "faiss_range_search": faiss_range_search,
        "numpy_tiles": numpy_tiles,
        "bounded": pairs_entry.search,
        "bounded_beside_encoder": pairs_entry.search_beside_encoder,
        "faiss_ivf": pairs_entry.search_lists,
    }[name]


def resident_mib(name: str) -> float:
    """``VmRSS`` (resident now) or ``VmHWM`` (the most so far) of this process in MiB."""
    for line in Path("/proc/self/status").read_text(encoding="ascii").splitlines():
        if line.startswith(name + ":"):
            return int(line.split()[1]) / 1024
    raise SystemExit(f"/proc/self/status has no {name}: memory can be measured on Linux only")


def measure_once(name: str, vectors_path: Path, min_similarity: float, clock: str, pairs_path: Path) -> None:
    """Runs one method once in this process; writes its pairs, prints seconds and memory as JSON."""
    now = time.process_time if clock == "cpu" else time.perf_counter
    vectors = np.load(vectors_path)
    before_mib = resident_mib("VmRSS")
    method = method_named(name)
    method(vectors[:WARM_UP_ROWS], min_similarity)
    started = now()
    i, j, similarity = method(vectors, min_similarity)
    seconds = now() - started
    memory_mib = resident_mib("VmHWM") - before_mib
    key = i.astype(np.int64) * len(vectors) + j
    np.savez(pairs_path, key=key, sure=np.abs(similarity - min_similarity) > EDGE)
    print(json.dumps({"seconds": seconds, "memory_mib": memory_mib, "pair_count": len(key)}))


def measure_apart(name: str, vectors_path: Path, pairs_path: Path, options: argparse.Namespace) -> dict[str, float]:
    """Runs ``measure_once`` in a new process with the threads asked for."""
    threads = {key: str(options.threads) for key in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS")}
    command = [sys.executable, __file__, "--child", name, "--vectors", str(vectors_path), "--pairs", str(pairs_path)]
    command += ["--threshold", str(options.threshold), "--clock", options.clock, "--threads", str(options.threads)]
    environment = {**os.environ, **threads}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    if done.returncode:
        raise SystemExit(f"{name} failed:\n{done.stderr}")
    measured: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return measured


def compare(measured: Measured, pairs_path: Path, reference_path: Path) -> None:
    """Fills in recall and precision against the pairs of brute force."""
    found, reference = np.load(pairs_path), np.load(reference_path)
    sure_found, sure_reference = found["key"][found["sure"]], reference["key"][reference["sure"]]
    measured.recall = float(np.isin(sure_reference, found["key"]).mean()) if len(sure_reference) else 1.0
    measured.precision = float(np.isin(sure_found, reference["key"]).mean()) if len(sure_found) else 1.0


def measure_pairs(size: int, options: argparse.Namespace) -> list[Measured]:
    """All methods at one size, taking turns."""
    results = {name: Measured(name, size) for name in options.methods}
    with tempfile.TemporaryDirectory() as directory:
        vectors_path = Path(directory) / "vectors.npy"
        np.save(vectors_path, np.load(options.data)[:size] if options.data else made_vectors(size))
        pairs_paths = {name: Path(directory) / f"{name}.npz" for name in options.methods}
        for repetition in range(options.reps):
            for name, result in results.items():
                one = measure_apart(name, vectors_path, pairs_paths[name], options)
                result.seconds.append(one["seconds"])
                result.memory_mib.append(one["memory_mib"])
                result.pair_count = int(one["pair_count"])
                print(f"{size} {name} {repetition + 1}: {one['seconds']:.2f} s", file=sys.stderr)
        if "numpy_tiles" in results:
            for name, result in results.items():
                compare(result, pairs_paths[name], pairs_paths["numpy_tiles"])
    return list(results.values())


def markdown_table(results: list[Measured], clock: str) -> str:
    """The results as a table: one line a method and size, with its speed as a multiple of each rival's."""
    rivals = [name for name in RIVALS if any(result.method == name for result in results)]
    header = ["rows", "method", f"{clock} s (range)", *(f"x {name}" for name in rivals)]
    header += ["pairs", "recall", "precision", "MiB over the vectors"]
    lines = [header, ["---"] * len(header)]
    medians = {(result.method, result.size): result.median for result in results}
    for result in results:
        times = f"{result.median:.2f} ({min(result.seconds):.2f} to {max(result.seconds):.2f})"
        ratios = [f"{medians[name, result.size] / result.median:.1f}" for name in rivals]
        quality = [f"{result.recall:.4f}", f"{result.precision:.4f}", f"{max(result.memory_mib):.0f}"]
        lines.append([f"{result.size:,}", result.method, times, *ratios, f"{result.pair_count:,}", *quality])
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def parsed(arguments: list[str] | None = None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", default="30000,100000", type=lambda text: [int(size) for size in text.split(",")])
    parser.add_argument("--reps", default=3, type=int)
    parser.add_argument("--threshold", default=0.85, type=float)
    parser.add_argument("--threads", default=len(os.sched_getaffinity(0)), type=int)
    parser.add_argument("--clock", choices=("wall", "cpu"), default="wall", help="cpu: for a machine that is shared")
    parser.add_argument("--methods", default=list(METHODS), type=lambda text: text.split(","))
    parser.add_argument("--data", type=Path, help="a .npy of float32 unit rows instead of made ones")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    parser.add_argument("--vectors", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--pairs", type=Path, help=argparse.SUPPRESS)
    return parser.parse_args(arguments)


def main() -> None:
    """Measures and prints the table, or, as a child, one measurement."""
    options = parsed()
    if options.child:
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[: options.threads])
        measure_once(options.child, options.vectors, options.threshold, options.clock, options.pairs)
        return
    results = [result for size in options.sizes for result in measure_pairs(size, options)]
    print(markdown_table(results, options.clock))


if __name__ == "__main__":
    main()
