"""Summaries of cells of an image: gradients, filter responses and covariances; and a mask of its foreground."""

from __future__ import annotations

import numpy as np

from .images_pixels import opencv, orientation_maps


def cell_numbers(y: np.ndarray, x: np.ndarray, shape: tuple[int, ...], side: int) -> np.ndarray:
    """The cell, 0 to side * side - 1, of each point in a grid of side x side cells over an image of this shape."""
    return (y * side // shape[0]) * side + x * side // shape[1]


def cell_histogram(words: np.ndarray, cells: np.ndarray, n_cells: int, n_words: int, weights=None) -> np.ndarray:
    """Counts (n_cells, n_words)."""
    counts = np.bincount(cells * n_words + words, weights, minlength=n_cells * n_words)
    return counts.reshape(n_cells, n_words)


def cell_sums(maps: np.ndarray, side: int) -> np.ndarray:
    """maps (m, h, w) -> sums (side * side, m) over the cells of a grid."""
    h, w = maps.shape[1:]
    rows, columns = (np.arange(side) * h // side, np.arange(side) * w // side)
    sums = np.add.reduceat(np.add.reduceat(maps, rows, axis=1), columns, axis=2)
    return sums.reshape(len(maps), -1).T


def edge_orientations(gray: np.ndarray, side: int = 8, n_bins: int = 20) -> np.ndarray:
    """Gradient directions (side * side, n_bins) on the edges that Canny's detector finds: the cells of PHOG."""
    cv2 = opencv()
    edges = cv2.Canny((gray * 255).astype(np.uint8), 60, 140) > 0
    return cell_sums(orientation_maps(gray, n_bins) * edges, side)


def gradient_grid(gray: np.ndarray, side: int, n_bins: int = 9) -> np.ndarray:
    """HOG: gradient directions up to sign (side * side, n_bins), normalised over blocks of 2 x 2 cells."""
    cv2 = opencv()
    square = cv2.resize(gray, (side * 8, side * 8), interpolation=cv2.INTER_AREA)
    cells = cell_sums(orientation_maps(square, n_bins, np.pi), side).reshape(side, side, n_bins)
    energy = cv2.blur((cells**2).sum(axis=2), (3, 3)) * 9
    return (cells / np.sqrt(energy + 0.1)[:, :, np.newaxis]).reshape(side * side, n_bins)


def gabor_energies(gray: np.ndarray, n_scales: int = 4, n_orientations: int = 8, pixels: int = 64) -> np.ndarray:
    """V1-like responses (scales * orientations, pixels, pixels): the length of an even and an odd Gabor filter."""
    cv2 = opencv()
    square = cv2.resize(gray, (pixels, pixels), interpolation=cv2.INTER_AREA)
    contrast = square - cv2.GaussianBlur(square, (0, 0), 6)
    square = contrast / (np.sqrt(cv2.GaussianBlur(contrast**2, (0, 0), 6)) + 0.05)
    found = []
    for scale in range(n_scales):
        wave = 3.0 * 2 ** (scale / 1.5)
        size = 2 * int(wave) + 1
        for orientation in range(n_orientations):
            angle = np.pi * orientation / n_orientations
            even, odd = (cv2.getGaborKernel((size, size), wave / 2, angle, wave, 1, phase) for phase in (0, np.pi / 2))
            even = even - even.mean()
            responses = [cv2.filter2D(square, cv2.CV_32F, each / np.abs(each).sum()) for each in (even, odd)]
            found.append(np.hypot(*responses))
    return np.stack(found)


def region_covariances(image: np.ndarray, side: int) -> np.ndarray:
    """Logarithms of the covariances of position, colour and derivatives in each cell (side * side, 55)."""
    cv2 = opencv()
    lab = cv2.cvtColor(image, cv2.COLOR_BGR2LAB).astype(np.float32) / 255
    gray = lab[..., 0]
    h, w = gray.shape
    y, x = np.mgrid[0:h, 0:w].astype(np.float32) / max(h, w)
    first = [np.abs(cv2.Sobel(gray, cv2.CV_32F, *order, ksize=3)) for order in ((1, 0), (0, 1))]
    second = [np.abs(cv2.Sobel(gray, cv2.CV_32F, *order, ksize=3)) for order in ((2, 0), (0, 2))]
    features = np.stack([x, y, *np.moveaxis(lab, 2, 0), *first, *second, np.hypot(*first)])
    rows, columns = (np.arange(side + 1) * size // side for size in (h, w))
    cells = [features[:, a:b, c:d].reshape(len(features), -1) for a, b in _pairs(rows) for c, d in _pairs(columns)]
    covariances = np.stack([np.cov(cell) for cell in cells]) + 1e-4 * np.eye(len(features))
    values, vectors = np.linalg.eigh(covariances)
    logarithms = (vectors * np.log(values)[:, np.newaxis]) @ np.swapaxes(vectors, 1, 2)
    upper = np.triu_indices(len(features))
    return (logarithms * np.where(np.eye(len(features)), 1, np.sqrt(2)))[:, upper[0], upper[1]]


def _pairs(bounds: np.ndarray) -> list[tuple[int, int]]:
    return list(zip(bounds[:-1].tolist(), bounds[1:].tolist(), strict=True))


def foreground(image: np.ndarray, pixels: int = 80, rounds: int = 2) -> np.ndarray:
    """A mask (h, w) by GrabCut, from a first guess of what is near the middle and not green."""
    cv2 = opencv()
    h, w = image.shape[:2]
    scale = pixels / min(h, w)
    small = cv2.resize(image, (round(w * scale), round(h * scale)), interpolation=cv2.INTER_AREA)
    guess = _first_guess(small)
    mask = guess.copy()
    cv2.setRNGSeed(0)
    cv2.grabCut(small, mask, None, np.zeros((1, 65)), np.zeros((1, 65)), rounds, cv2.GC_INIT_WITH_MASK)
    kept = cv2.morphologyEx(_marked(mask), cv2.MORPH_OPEN, np.ones((3, 3), np.uint8))
    if kept.mean() < 0.04:
        kept = _marked(guess) if _marked(guess).mean() > 0.04 else np.ones_like(kept)
    return cv2.resize(kept, (w, h), interpolation=cv2.INTER_NEAREST) > 0


def _marked(mask: np.ndarray) -> np.ndarray:
    cv2 = opencv()
    return np.isin(mask, (cv2.GC_FGD, cv2.GC_PR_FGD)).astype(np.uint8)


def _first_guess(image: np.ndarray) -> np.ndarray:
    cv2 = opencv()
    h, w = image.shape[:2]
    y, x = np.mgrid[0:h, 0:w]
    y, x = np.abs((y + 0.5) / h - 0.5), np.abs((x + 0.5) / w - 0.5)
    hue, saturation = cv2.split(cv2.cvtColor(image, cv2.COLOR_BGR2HSV))[:2]
    green = (hue > 32) & (hue < 90) & (saturation > 40)
    mask = np.where((np.hypot(y, x) < 0.38) & ~green, cv2.GC_PR_FGD, cv2.GC_PR_BGD).astype(np.uint8)
    mask[(np.hypot(y, x) < 0.06) & ~green] = cv2.GC_FGD
    mask[np.maximum(y, x) > 0.48] = cv2.GC_BGD
    return mask
