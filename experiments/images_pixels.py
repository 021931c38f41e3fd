"""Descriptors of one image, from pixels to arrays. Needs the extra `vision` (OpenCV)."""

from __future__ import annotations

from typing import Any

import numpy as np

# Half of the patches of a plain background have no gradient; their directions would be noise.
_LEAST_CONTRAST = 0.01


def opencv() -> Any:
    """OpenCV, on one thread: images are what is done in parallel."""
    try:
        import cv2
    except ImportError:
        raise ImportError('descriptors of images need OpenCV: pip install "kernelkin[vision]"') from None
    cv2.setNumThreads(1)
    return cv2


def orientation_maps(channel: np.ndarray, n_bins: int = 8, period: float = 2 * np.pi) -> np.ndarray:
    """channel (h, w) in [0, 1] -> (n_bins, h, w): the length of the gradient, shared by the two nearest directions."""
    cv2 = opencv()
    dx = cv2.Sobel(channel, cv2.CV_32F, 1, 0, ksize=1)
    dy = cv2.Sobel(channel, cv2.CV_32F, 0, 1, ksize=1)
    length, angle = np.hypot(dx, dy), np.arctan2(dy, dx) % period * (n_bins / period)
    lower = np.floor(angle).astype(np.intp) % n_bins
    share = (angle - np.floor(angle)) * length
    maps = np.zeros((n_bins, channel.size), dtype=np.float32)
    pixels = np.arange(channel.size)
    maps[lower.ravel(), pixels] = (length - share).ravel()
    maps[(lower.ravel() + 1) % n_bins, pixels] += share.ravel()
    return maps.reshape(n_bins, *channel.shape)


def grid_points(shape: tuple[int, ...], step: int, margin: int) -> tuple[np.ndarray, np.ndarray]:
    """Rows and columns of a regular grid that keeps `margin` from the border."""
    rows, columns = (np.arange(min(margin, side // 2), max(side - margin, side // 2 + 1), step) for side in shape[:2])
    y, x = np.meshgrid(rows, columns, indexing="ij")
    return y.ravel(), x.ravel()


def sift_at(channel: np.ndarray, y: np.ndarray, x: np.ndarray, bin_size: int) -> np.ndarray:
    """SIFT with 4 x 4 bins of `bin_size` pixels around each point (q,), upright -> (q, 128), of length 1 or 0."""
    cv2 = opencv()
    smooth = cv2.GaussianBlur(channel, (0, 0), max(bin_size / 6.0, 0.5))
    pooled = np.stack([_triangle(each, bin_size) for each in orientation_maps(smooth)])
    h, w = channel.shape
    offsets = np.rint((np.arange(4) - 1.5) * bin_size).astype(np.intp)
    rows = np.clip(y[:, np.newaxis] + offsets, 0, h - 1)
    columns = np.clip(x[:, np.newaxis] + offsets, 0, w - 1)
    found = pooled[:, rows[:, :, np.newaxis], columns[:, np.newaxis, :]]  # (8, q, 4, 4)
    return _normalise(np.moveaxis(found, 0, 1).reshape(len(y), -1))


def _triangle(image: np.ndarray, size: int) -> np.ndarray:
    cv2 = opencv()
    return cv2.blur(cv2.blur(image, (size, size)), (size, size))


def _normalise(descriptors: np.ndarray) -> np.ndarray:
    """Length 1, entries of at most 0.2 before it is made 1 again, then the square root of shares; zero if faint."""
    length = np.linalg.norm(descriptors, axis=1, keepdims=True)
    # Running sums of a blur may be negative by their rounding.
    descriptors = np.clip(descriptors / np.maximum(length, 1e-8), 0, 0.2)
    descriptors /= np.maximum(descriptors.sum(axis=1, keepdims=True), 1e-8)
    return np.where(length > _LEAST_CONTRAST, np.sqrt(descriptors), 0).astype(np.float32)


def dense_sift(
    channels: list[np.ndarray], bin_sizes: tuple[int, ...], step: int, mask: np.ndarray | None = None
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """SIFT on a grid, where the mask is, of all channels side by side.

    Returns descriptors (q, 128 * channels), rows and columns (q,).
    """
    y, x = grid_points(channels[0].shape, step, bin_sizes[0])
    if mask is not None and mask[y, x].any():
        y, x = y[mask[y, x]], x[mask[y, x]]
    found = [np.hstack([sift_at(channel, y, x, size) for channel in channels]) for size in bin_sizes]
    return np.vstack(found), np.tile(y, len(bin_sizes)), np.tile(x, len(bin_sizes))


def hsv_pixels(image: np.ndarray) -> np.ndarray:
    """image (h, w, 3) BGR uint8 -> (h, w, 4): hue on a circle times saturation, saturation and value."""
    cv2 = opencv()
    hsv = cv2.cvtColor(image, cv2.COLOR_BGR2HSV).astype(np.float32)
    hue, saturation, value = hsv[..., 0] * (np.pi / 90), hsv[..., 1] / 255, hsv[..., 2] / 255
    return np.stack([saturation * np.cos(hue), saturation * np.sin(hue), saturation, value], axis=-1)


def local_binary_patterns(gray: np.ndarray, radius: int) -> np.ndarray:
    """The uniform pattern (h, w), 0 to 58, of each pixel against eight neighbours at this distance."""
    padded = np.pad(gray, radius, mode="edge")
    h, w = gray.shape
    diagonal = max(1, round(radius / np.sqrt(2)))
    shifts = [(0, radius), (diagonal, diagonal), (radius, 0), (diagonal, -diagonal)]
    shifts += [(-dy, -dx) for dy, dx in shifts]
    code = np.zeros(gray.shape, dtype=np.intp)
    for bit, (dy, dx) in enumerate(shifts):
        code |= (padded[radius + dy : radius + dy + h, radius + dx : radius + dx + w] >= gray).astype(np.intp) << bit
    return _UNIFORM[code]


def _uniform_patterns() -> np.ndarray:
    """Number of each of the 256 patterns: those with at most two changes have their own, the others share one."""
    bits = (np.arange(256)[:, np.newaxis] >> np.arange(8)) & 1
    uniform = (bits != np.roll(bits, 1, axis=1)).sum(axis=1) <= 2
    return np.where(uniform, np.cumsum(uniform) - 1, uniform.sum())


_UNIFORM = _uniform_patterns()
N_PATTERNS = int(_UNIFORM.max()) + 1


def self_similarity(gray: np.ndarray, step: int, radius: int = 8) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """How alike a 5 x 5 patch and those around it are, the largest in 10 directions x 3 distances -> (q, 30)."""
    cv2 = opencv()
    y, x = grid_points(gray.shape, step, 2)
    padded = np.pad(gray, radius, mode="reflect")
    h, w = gray.shape
    found = np.full((30, len(y)), -np.inf, dtype=np.float32)
    variance = np.full(len(y), 0.01, dtype=np.float32)
    for dy, dx in _disc(radius):
        other = padded[radius + dy : radius + dy + h, radius + dx : radius + dx + w]
        squares = cv2.blur((gray - other) ** 2, (5, 5))[y, x]
        distance = np.hypot(dy, dx)
        if distance < 1.5:
            np.maximum(variance, squares, out=variance)
        ring = min(int(3 * np.log(distance) / np.log(radius)), 2)
        number = ring * 10 + int(np.arctan2(dy, dx) % (2 * np.pi) / (2 * np.pi) * 10) % 10
        np.maximum(found[number], -squares, out=found[number])
    return np.exp(found.T / variance[:, np.newaxis]).astype(np.float32), y, x


def _disc(radius: int) -> list[tuple[int, int]]:
    """Shifts of a length from 1 to `radius`."""
    sides = range(-radius, radius + 1)
    return [(dy, dx) for dy in sides for dx in sides if 1 <= np.hypot(dy, dx) <= radius]


def texture_responses(gray: np.ndarray) -> np.ndarray:
    """gray (h, w) -> (h, w, 8): edges and bars of three widths, the largest over directions, and two round filters.

    Contrast is that of the image, and the responses are as long as the logarithm of their length: as in MR8.
    """
    cv2 = opencv()
    gray = (gray - gray.mean()) / (gray.std() + 1e-3)
    found = []
    for sigma in (0.7, 1.4, 2.8):
        for order in (1, 2):
            bank = [_oriented(sigma, order, np.pi * k / 4) for k in range(4)]
            found.append(np.max([np.abs(cv2.filter2D(gray, cv2.CV_32F, kernel)) for kernel in bank], axis=0))
    smooth = cv2.GaussianBlur(gray, (0, 0), 2.8)
    responses = np.stack([*found, smooth, cv2.Laplacian(smooth, cv2.CV_32F) * 4], axis=-1)
    length = np.linalg.norm(responses, axis=-1, keepdims=True)
    return responses * (np.log1p(length / 0.03) / np.maximum(length, 1e-6))


def _oriented(sigma: float, order: int, angle: float) -> np.ndarray:
    """A derivative of a Gaussian that is three times as long as it is wide."""
    radius = int(np.ceil(5 * sigma))
    y, x = np.mgrid[-radius : radius + 1, -radius : radius + 1]
    u, v = x * np.cos(angle) + y * np.sin(angle), -x * np.sin(angle) + y * np.cos(angle)
    envelope = np.exp(-(u**2) / (2 * sigma**2) - v**2 / (2 * (3 * sigma) ** 2))
    kernel = envelope * (-u if order == 1 else u**2 - sigma**2)
    kernel -= kernel.mean()
    return (kernel / np.abs(kernel).sum()).astype(np.float32)
