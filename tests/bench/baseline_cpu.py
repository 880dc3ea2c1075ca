"""Measures baselines on this CPU: numpy, faiss-cpu and usearch for search, scikit-learn for k-means.

    python3 -m pip install numpy faiss-cpu usearch scikit-learn
    OMP_NUM_THREADS=1 python3 baseline_cpu.py --threads 1 > baseline_cpu.jsonl

Prints one JSON line for each figure. Reports baselines that are not installed on standard error and skips them.
"""

import argparse
import json
import os
import statistics
import sys
import time

import numpy as np


def timed(run, repeats):
    run()
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        run()
        times.append(time.perf_counter() - start)
    return times


def say(times, queries=None, **row):
    row |= {"median_s": round(statistics.median(times), 4), "min_s": round(min(times), 4), "max_s": round(max(times), 4)}
    if queries:
        row["queries_per_s"] = round(queries / statistics.median(times), 1)
    print(json.dumps(row), flush=True)


def numpy_search(corpus, queries, k):
    scores = queries @ corpus.T
    best = np.argpartition(scores, -k, axis=1)[:, -k:]
    order = np.argsort(-np.take_along_axis(scores, best, 1), axis=1)
    return np.take_along_axis(best, order, 1)


def search(rows, dim, k, threads, repeats):
    random = np.random.default_rng()
    corpus = random.standard_normal((rows, dim), dtype=np.float32)
    corpus /= np.linalg.norm(corpus, axis=1, keepdims=True)
    engines = {"numpy": lambda q: numpy_search(corpus, q, k)}
    try:
        import faiss

        faiss.omp_set_num_threads(threads)
        index = faiss.IndexFlatIP(dim)
        index.add(corpus)
        engines["faiss-cpu"] = lambda q: index.search(q, k)
    except ImportError as error:
        print(error, file=sys.stderr)
    try:
        from usearch.index import search as exact

        engines["usearch"] = lambda q: exact(corpus, q, k, "ip", exact=True, threads=threads)
    except ImportError as error:
        print(error, file=sys.stderr)
    for count in (1, 10, 100):
        queries = random.standard_normal((count, dim), dtype=np.float32)
        queries /= np.linalg.norm(queries, axis=1, keepdims=True)
        for name, engine in engines.items():
            times = timed(lambda: engine(queries), repeats)
            say(times, count, op="search", baseline=name, rows=rows, dim=dim, batch=count, k=k, threads=threads)


def kmeans(rows, dim, clusters, iterations):
    try:
        from sklearn.cluster import KMeans
    except ImportError as error:
        print(error, file=sys.stderr)
        return
    data = np.random.default_rng(7).standard_normal((rows, dim), dtype=np.float32)
    model = KMeans(clusters, n_init=1, max_iter=iterations, tol=0, random_state=7, algorithm="lloyd")
    start, cpu = time.perf_counter(), time.process_time()
    model.fit(data)
    print(json.dumps({"op": "kmeans", "baseline": "scikit-learn", "rows": rows, "dim": dim, "clusters": clusters,
                      "iterations": iterations, "seconds": round(time.perf_counter() - start, 2),
                      "cpu_seconds": round(time.process_time() - cpu, 2), "inertia": float(model.inertia_)}))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--no-kmeans", action="store_true")
    options = parser.parse_args()
    search(100_000, 768, 10, options.threads, options.repeats)
    if not options.no_kmeans:
        kmeans(100_000, 128, 256, 20)


if __name__ == "__main__":
    main()
