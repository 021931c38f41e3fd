"""From a zip of images to histograms in one small file. Needs the extra `vision`."""

from __future__ import annotations

import sys
import zipfile
from argparse import ArgumentParser
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import joblib
import numpy as np
from sklearn.cluster import KMeans

from .images_pixels import opencv
from .images_regions import cell_histogram
from .images_sources import SOURCES, Described, Picture, Words

ARCHIVES = {"flowers": "flowers17.zip", "caltech": "caltech101.zip"}
# Dictionaries are made from these many images drawn from all, whatever their class, and so many descriptors of each.
DICTIONARY_IMAGES, DICTIONARY_SAMPLE = 250, 120
_PIECE = 120


def list_images(archive: str | Path) -> list[str]:
    """Names of the images, `class/file.jpg`, in order."""
    with zipfile.ZipFile(archive) as opened:
        return sorted(name for name in opened.namelist() if name.endswith(".jpg"))


def read_pictures(archive: str | Path, names: list[str]) -> Iterator[Picture]:
    cv2 = opencv()
    with zipfile.ZipFile(archive) as opened:
        for name in names:
            yield Picture(cv2.imdecode(np.frombuffer(opened.read(name), np.uint8), cv2.IMREAD_COLOR))


def extract(data_set: str, archive: Path, cache: Path, n_jobs: int = 1) -> Path:
    """Write the descriptors of a data set into the cache; pieces that are there already are not computed again."""
    names = list_images(archive)
    folder = cache / data_set
    folder.mkdir(parents=True, exist_ok=True)
    words = dictionaries(data_set, archive, names, folder, n_jobs)
    pieces = [names[start : start + _PIECE] for start in range(0, len(names), _PIECE)]
    paths = [folder / f"piece{number:03d}.npz" for number in range(len(pieces))]
    missing = [i for i, path in enumerate(paths) if not path.exists()]
    work = (joblib.delayed(_describe_piece)(data_set, archive, pieces[i], words, paths[i]) for i in missing)
    done = len(paths) - len(missing)
    for _ in joblib.Parallel(n_jobs, return_as="generator_unordered")(work):
        done += 1
        _report(f"{data_set}: {done} of {len(paths)} pieces")
    target = cache / f"{data_set}.npz"
    _save(target, {"names": np.array(names), **_gather(paths)})
    return target


def dictionaries(data_set: str, archive: Path, names: list[str], folder: Path, n_jobs: int) -> dict[str, np.ndarray]:
    """Words (n_words, d) of each source, by k-means."""
    sources = {name: source for name, source in SOURCES[data_set].items() if isinstance(source, Words)}
    paths = {name: folder / f"words {name}.npy" for name in sources}
    missing = [name for name, path in paths.items() if not path.exists()]
    samples = _sample(data_set, missing, archive, names, n_jobs) if missing else {}
    for name, sample in samples.items():
        _report(f"{data_set}: dictionary of {name}")
        np.save(paths[name], _cluster(sample, sources[name].n_words))
    return {name: np.load(path) for name, path in paths.items()}


def _sample(data_set: str, sources: list[str], archive: Path, names: list[str], n_jobs: int) -> dict[str, np.ndarray]:
    """Descriptors (q, d) of these sources, from images drawn with a fixed seed."""
    rng = np.random.default_rng(0)
    chosen = np.array(names)[rng.permutation(len(names))[:DICTIONARY_IMAGES]]
    parts = np.array_split(chosen, min(12, len(chosen)))
    found = joblib.Parallel(n_jobs)(
        joblib.delayed(_sample_part)(data_set, sources, archive, part.tolist(), seed) for seed, part in enumerate(parts)
    )
    return {name: np.vstack([part[name] for part in found]) for name in sources}


def _sample_part(
    data_set: str, sources: list[str], archive: Path, names: list[str], seed: int
) -> dict[str, np.ndarray]:
    rng = np.random.default_rng([1, seed])
    found: dict[str, list[np.ndarray]] = {name: [] for name in sources}
    for picture in read_pictures(archive, names):
        for name in sources:
            source = SOURCES[data_set][name]
            assert isinstance(source, Words)
            descriptors, _ = source.describe(picture)
            found[name].append(descriptors[rng.permutation(len(descriptors))[:DICTIONARY_SAMPLE]])
    return {name: np.vstack(values) for name, values in found.items()}


def _cluster(sample: np.ndarray, n_words: int) -> np.ndarray:
    fitted = KMeans(n_words, init="random", n_init=1, max_iter=15, random_state=0).fit(sample)
    return fitted.cluster_centers_.astype(np.float32)


def _describe_piece(data_set: str, archive: Path, names: list[str], words: dict[str, np.ndarray], path: Path) -> None:
    found: dict[str, list[np.ndarray]] = {name: [] for name in SOURCES[data_set]}
    for picture in read_pictures(archive, names):
        described: dict[Any, Described] = {}
        for name, source in SOURCES[data_set].items():
            if isinstance(source, Words):
                # Dictionaries of several sizes may have the same descriptors.
                if source.describe not in described:
                    described[source.describe] = source.describe(picture)
                found[name].append(_histogram(source, described[source.describe], words[name]))
            else:
                found[name].append(source.describe(picture))
    _save(path, {name: np.stack(values).astype(np.float32) for name, values in found.items()})


def _histogram(source: Words, described: Described, words: np.ndarray) -> np.ndarray:
    """Counts (side * side, n_words) of the nearest words."""
    descriptors, cells = described
    nearest = np.argmin((words**2).sum(axis=1) - 2 * (descriptors @ words.T), axis=1)
    return cell_histogram(nearest, cells, source.side**2, source.n_words)


def _gather(paths: list[Path]) -> dict[str, np.ndarray]:
    """All pieces, as bytes: square roots of histograms by row, other numbers by their range."""
    pieces = [dict(np.load(path)) for path in paths]
    found: dict[str, np.ndarray] = {}
    for name in pieces[0]:
        values = np.concatenate([piece[name] for piece in pieces])
        if values.min() < 0:
            low, high = np.percentile(values, [0.1, 99.9], axis=0)
            codes = np.rint((values - low) / np.maximum(high - low, 1e-9) * 255)
            found |= {f"{name}: signed": np.clip(codes, 0, 255).astype(np.uint8), f"{name}: range": high - low}
        else:
            most = values.max(axis=(1, 2), keepdims=True)
            found[name] = np.rint(255 * np.sqrt(values / np.maximum(most, 1e-12))).astype(np.uint8)
    return found


def _save(path: Path, arrays: dict[str, Any]) -> None:
    """Written whole or not at all."""
    part = path.with_suffix(".part.npz")
    np.savez_compressed(part, **arrays)
    part.replace(path)


def _report(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def main() -> None:
    parser = ArgumentParser("python -m experiments.images_extract", description=__doc__)
    parser.add_argument("data_set", choices=sorted(SOURCES))
    parser.add_argument("--data", type=Path, required=True, help="folder of the zip files")
    parser.add_argument("--cache", type=Path, required=True, help="folder of what is computed")
    parser.add_argument("--jobs", type=int, default=1, metavar="N", help="processes (default: 1)")
    given = parser.parse_args()
    print(extract(given.data_set, given.data / ARCHIVES[given.data_set], given.cache, given.jobs))


if __name__ == "__main__":
    main()
