"""What is measured on each image: local descriptors that become words, and summaries of cells."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from .images_pixels import (
    N_PATTERNS,
    dense_sift,
    hsv_pixels,
    local_binary_patterns,
    opencv,
    self_similarity,
    sift_at,
    texture_responses,
)
from .images_regions import (
    cell_histogram,
    cell_numbers,
    cell_sums,
    edge_orientations,
    foreground,
    gabor_energies,
    gradient_grid,
    region_covariances,
)


class Picture:
    """One image (h, w, 3), BGR uint8, and what several descriptors need of it."""

    def __init__(self, image: np.ndarray) -> None:
        self.image = image
        self.shape = image.shape[:2]

    @cached_property
    def gray(self) -> np.ndarray:
        cv2 = opencv()
        return cv2.cvtColor(self.image, cv2.COLOR_BGR2GRAY).astype(np.float32) / 255

    @cached_property
    def opponent(self) -> list[np.ndarray]:
        """Intensity, red against green, and yellow against blue."""
        blue, green, red = np.moveaxis(self.image.astype(np.float32) / 255, 2, 0)
        return [(red + green + blue) / 3, (red - green) / 2, (red + green - 2 * blue) / 4]

    @cached_property
    def half(self) -> Picture:
        """The same with half as many rows and columns."""
        return Picture(_halved(self.image))

    @cached_property
    def mask(self) -> np.ndarray:
        """(h, w), where the foreground is."""
        return foreground(self.image)

    @cached_property
    def box(self) -> tuple[slice, slice]:
        """Rows and columns around the foreground."""
        return _middle(self.mask.max(axis=1)), _middle(self.mask.max(axis=0))

    def cells(self, y: np.ndarray, x: np.ndarray, side: int) -> np.ndarray:
        return cell_numbers(y, x, self.shape, side)


def _halved(values: np.ndarray) -> np.ndarray:
    cv2 = opencv()
    return cv2.resize(values, None, fx=0.5, fy=0.5, interpolation=cv2.INTER_AREA)


def _middle(used: np.ndarray) -> slice:
    found = np.flatnonzero(used)
    return slice(int(found[0]), int(found[-1]) + 1)


Described = tuple[np.ndarray, np.ndarray]


@dataclass(frozen=True)
class Words:
    """A bag of visual words: `describe` gives descriptors (q, d) and cells (q,) in a grid of side x side."""

    n_words: int
    side: int
    describe: Callable[[Picture], Described]


@dataclass(frozen=True)
class Cells:
    """Numbers (cells, m) of an image; `signed` if they may be negative, and so are no histogram."""

    describe: Callable[[Picture], np.ndarray]
    signed: bool = False


Sources = Mapping[str, Words | Cells]


def _located(found: tuple[np.ndarray, ...], side: int, shape: tuple[int, ...]) -> Described:
    descriptors, y, x = found
    return descriptors, cell_numbers(y, x, shape, side)


def _sift(picture: Picture, bins: tuple[int, ...], step: int, colour: bool = False) -> Described:
    channels = picture.opponent if colour else [picture.gray]
    return _located(dense_sift(channels, bins, step), 4, picture.shape)


def _alike(picture: Picture) -> Described:
    return _located(self_similarity(picture.half.gray, 3), 4, picture.half.shape)


def _colours(picture: Picture) -> Described:
    y, x = (each.ravel() for each in np.mgrid[1 : picture.shape[0] : 2, 1 : picture.shape[1] : 2])
    return hsv_pixels(picture.image)[y, x], picture.cells(y, x, 4)


def _patterns(picture: Picture) -> np.ndarray:
    y, x = (each.ravel() for each in np.mgrid[0 : picture.shape[0], 0 : picture.shape[1]])
    cells = picture.cells(y, x, 4)
    gray = np.rint(picture.gray * 255)
    found = [cell_histogram(local_binary_patterns(gray, radius).ravel(), cells, 16, N_PATTERNS) for radius in (1, 3)]
    return np.hstack(found)


def _tiny(picture: Picture) -> np.ndarray:
    cv2 = opencv()
    small = cv2.resize(picture.image, (12, 12), interpolation=cv2.INTER_AREA).astype(np.float32)
    return ((small - small.mean()) / (small.std() + 1.0)).reshape(1, -1)


def _usual_sift(picture: Picture) -> Described:
    return _sift(picture, (4, 6, 8), 5)


CALTECH: Sources = {
    "sift": Words(300, 4, _usual_sift),
    "sift, many words": Words(800, 4, _usual_sift),
    "large sift": Words(300, 4, lambda picture: _sift(picture.half, (6, 8), 3)),
    "colour sift": Words(300, 4, lambda picture: _sift(picture.half, (3, 5), 3, colour=True)),
    "self-similarity": Words(300, 4, _alike),
    "colour": Words(128, 4, _colours),
    "edges": Cells(lambda picture: edge_orientations(picture.gray)),
    "gradients": Cells(lambda picture: gradient_grid(picture.gray, 10)),
    "patterns": Cells(_patterns),
    "gabor": Cells(lambda picture: cell_sums(gabor_energies(picture.gray), 8)),
    "covariance 1": Cells(lambda picture: region_covariances(picture.half.image, 1), signed=True),
    "covariance 2": Cells(lambda picture: region_covariances(picture.half.image, 2), signed=True),
    "covariance 3": Cells(lambda picture: region_covariances(picture.half.image, 3), signed=True),
    "tiny image": Cells(_tiny, signed=True),
}


def _inside(picture: Picture, bins: tuple[int, ...], step: int, channels: list[np.ndarray]) -> Described:
    """SIFT of the foreground; cells are those of the box around it."""
    h, w = channels[0].shape
    mask = picture.mask[:: picture.shape[0] // h, :: picture.shape[1] // w][:h, :w]
    descriptors, y, x = dense_sift(channels, bins, step, mask)
    return descriptors, _box_cells(picture, y * picture.shape[0] // h, x * picture.shape[1] // w, 2)


def _box_cells(picture: Picture, y: np.ndarray, x: np.ndarray, side: int) -> np.ndarray:
    rows, columns = picture.box
    shape = rows.stop - rows.start, columns.stop - columns.start
    return cell_numbers(
        np.clip(y - rows.start, 0, shape[0] - 1), np.clip(x - columns.start, 0, shape[1] - 1), shape, side
    )


def _boundary(picture: Picture) -> Described:
    """SIFT at the boundary of the foreground, or inside where there is none."""
    cv2 = opencv()
    mask = picture.mask.astype(np.uint8)
    edge = (mask > 0) & (cv2.erode(mask, np.ones((3, 3), np.uint8), borderValue=1) == 0)
    y, x = np.nonzero(edge if edge.sum() > 20 else mask)
    kept = slice(None, None, max(1, len(y) // 400))
    y, x = y[kept], x[kept]
    found = np.vstack([sift_at(picture.gray, y, x, size) for size in (3, 6)])
    return found, np.zeros(len(found), dtype=np.intp)


def _foreground_pixels(picture: Picture, values: np.ndarray) -> Described:
    """values (h / 2, w / 2, d), one for every second pixel, where the foreground is."""
    mask = _halved(picture.mask.astype(np.float32)) > 0.5
    found = values[mask] if mask.any() else values.reshape(-1, values.shape[-1])
    return found, np.zeros(len(found), dtype=np.intp)


def _box_gradients(picture: Picture) -> np.ndarray:
    """HOG of the box around the foreground, the background black."""
    return gradient_grid((picture.gray * picture.mask)[picture.box], 8)


FLOWERS: Sources = {
    "colour": Words(500, 1, lambda picture: _foreground_pixels(picture, hsv_pixels(picture.half.image))),
    "colour sift inside": Words(400, 2, lambda picture: _inside(picture, (3, 5), 3, picture.half.opponent)),
    "sift inside": Words(800, 2, lambda picture: _inside(picture, (3, 5, 8, 12), 5, [picture.gray])),
    "sift at the boundary": Words(500, 1, _boundary),
    "sift, whole image": Words(500, 4, lambda picture: _sift(picture.half, (3, 6), 3)),
    "texture": Words(500, 1, lambda picture: _foreground_pixels(picture, texture_responses(picture.half.gray))),
    "gradients": Cells(_box_gradients),
}
SOURCES: dict[str, Sources] = {"flowers": FLOWERS, "caltech": CALTECH}
