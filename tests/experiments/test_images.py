"""Object recognition: descriptors of images made here, kernels from stored bytes, and one task for each class."""

import zipfile

import numpy as np
import pytest
from sklearn.metrics.pairwise import additive_chi2_kernel

from experiments import images_data
from experiments.images_kernels import Descriptors, Kernel, chi_squared, histograms, squared_distances
from experiments.images_models import OneVsRest, block, class_accuracy, deal, largest
from experiments.protocol import Setting
from kernelkin import AverageClassifier


def test_chi_squared_distances_are_those_of_scikit_learn():
    X = np.random.default_rng(0).random((37, 50)).astype(np.float32)
    X[:, :5] = 0
    assert np.allclose(chi_squared(X), -additive_chi2_kernel(X), rtol=1e-4, atol=1e-5)


def test_squared_distances_are_zero_to_oneself():
    X = 100 + np.random.default_rng(0).normal(size=(20, 3))
    found = squared_distances(X)
    assert np.allclose(found, ((X[:, np.newaxis] - X) ** 2).sum(axis=2), rtol=1e-4, atol=1e-4)
    assert (found.diagonal() == 0).all()


def test_coarser_cells_are_sums_of_finer_ones_and_opposite_directions_are_added():
    roots = np.random.default_rng(0).integers(0, 255, size=(3, 16, 6)).astype(np.uint8)
    counts = roots.astype(float).reshape(3, 4, 4, 6) ** 2
    halves = counts.reshape(3, 2, 2, 2, 2, 6).sum(axis=(2, 4))
    expected = halves.reshape(3, -1) / counts.sum(axis=(1, 2, 3))[:, np.newaxis]
    assert np.allclose(histograms(roots, side=2), expected, rtol=1e-5)
    folded = counts[..., :3] + counts[..., 3:]
    expected = folded.reshape(3, -1) / counts.sum(axis=(1, 2, 3))[:, np.newaxis]
    assert np.allclose(histograms(roots, fold=True), expected, rtol=1e-5)


def test_parts_have_every_class_and_blocks_are_those_rows_and_columns():
    Y = np.eye(4)[np.repeat(np.arange(4), 6)]
    parts = deal(Y, 3, seed=0)
    assert all((Y[parts == part].sum(axis=0) == 2).all() for part in range(3))
    X = np.random.default_rng(0).random((24, 24, 3))
    rows, columns = np.array([3, 1]), np.array([0, 5, 7])
    assert np.array_equal(block(X, rows, columns), X[np.ix_(rows, columns)])


def test_accuracy_is_the_mean_over_classes():
    Y = np.eye(2)[[0, 0, 0, 1]]
    predicted = largest(np.array([[2.0, 1.0], [0.0, -1.0], [0.0, 3.0], [0.0, 1.0]]))
    assert class_accuracy(Y, predicted) == pytest.approx((2 / 3 + 1) / 2)


@pytest.fixture
def stored(tmp_path, monkeypatch):
    """Descriptors of 60 images of three classes: the first source knows the class, the second does not."""
    rng = np.random.default_rng(0)
    labels = np.repeat(np.arange(3), 20)
    useful = rng.poisson(2, size=(60, 1, 9)) + 12 * np.repeat(np.eye(3)[labels][:, np.newaxis], 3, axis=2)
    noise = rng.integers(0, 256, size=(60, 4, 5))
    np.savez(
        tmp_path / "toy.npz",
        names=np.array([f"class{c}/{i}.jpg" for i, c in enumerate(labels)]),
        **{"useful": np.sqrt(useful * 100).astype(np.uint8), "noise: signed": noise.astype(np.uint8)},
        **{"noise: range": np.ones((4, 5))},
    )
    monkeypatch.setenv(images_data.FOLDER, str(tmp_path))
    monkeypatch.setitem(images_data.KERNELS, "toy", [Kernel("useful", "useful"), Kernel("noise", "noise")])
    images_data.load.cache_clear()
    images_data.distances.cache_clear()
    yield Descriptors(tmp_path / "toy.npz")
    images_data.load.cache_clear()
    images_data.distances.cache_clear()


def test_a_split_is_balanced_nested_and_has_widths_of_training_images(stored):
    small, large = (images_data.draw("toy", size, 0)[0] for size in (5, 8))
    assert np.isin(small, large).all() and np.bincount(stored.labels[small]).tolist() == [5, 5, 5]
    found = images_data.split("toy", Setting("5 a class", 5), 0)
    assert found.X.shape == (15, 15, 2) and found.X_test.shape == (45, 15, 2) and found.X.dtype == np.float32
    distances = -np.log(found.X[~np.eye(15, dtype=bool)])
    assert np.allclose(distances.mean(axis=0), 1, atol=1e-4)
    assert not np.allclose(-np.log(found.X_test).mean(axis=(0, 1)), 1, atol=1e-4)


def test_the_cost_is_chosen_by_accuracy_and_classes_by_the_largest_value(stored):
    split = images_data.split("toy", Setting("8 a class", 8), 1)
    model = OneVsRest(AverageClassifier(kernels="precomputed"), {"C": [1e-6, 1.0]}).fit(split.X, split.y)
    assert model.chosen_["C"] == [1e-6, 1.0][int(np.argmax(model.accuracies_))]
    predicted = model.predict(split.X_test)
    assert (predicted.sum(axis=1) == 1).all() and class_accuracy(split.y_test, predicted) > 0.9


def _write_images(path, n_classes=2, count=3):
    """Stripes of a direction, a width and a colour of their own, on noise."""
    cv2 = pytest.importorskip("cv2", reason="needs the extra vision")
    rng = np.random.default_rng(0)
    y, x = np.mgrid[0:96, 0:80]
    with zipfile.ZipFile(path, "w") as archive:
        for c in range(n_classes):
            for i in range(count):
                stripes = 127 + 100 * np.sin((0.9 * x if c else 0.4 * y) + rng.uniform(0, 6))
                image = stripes[..., np.newaxis] * ((0.2, 0.5, 1.0) if c else (1.0, 0.5, 0.2))
                image = np.clip(image + rng.normal(scale=5, size=image.shape), 0, 255).astype(np.uint8)
                archive.writestr(f"class{c}/image{i}.jpg", cv2.imencode(".jpg", image)[1].tobytes())


@pytest.mark.parametrize("data_set", ["flowers", "caltech"])
def test_every_kernel_finds_images_of_a_class_nearer_than_others(tmp_path, monkeypatch, data_set):
    _write_images(tmp_path / "images.zip")
    from experiments import images_extract
    from experiments.images_kernels import KERNELS
    from experiments.images_sources import SOURCES, Words

    few = {
        name: Words(12, source.side, source.describe) if isinstance(source, Words) else source
        for name, source in SOURCES[data_set].items()
    }
    monkeypatch.setitem(SOURCES, data_set, few)
    stored = Descriptors(images_extract.extract(data_set, tmp_path / "images.zip", tmp_path))
    same = np.equal.outer(stored.labels, stored.labels)
    for kernel in KERNELS[data_set]:
        distances = stored.distances(kernel)
        assert np.isfinite(distances).all()
        own = distances[same & ~np.eye(len(same), dtype=bool)].mean()
        assert own < distances[~same].mean(), kernel.name


def test_sift_of_a_turned_image_has_turned_directions():
    pytest.importorskip("cv2", reason="needs the extra vision")
    from experiments.images_pixels import sift_at

    image = np.random.default_rng(0).random((41, 41)).astype(np.float32)
    middle = np.array([20])
    upright = sift_at(image, middle, middle, 5).reshape(8, 4, 4)
    turned = sift_at(image[::-1, ::-1].copy(), middle, middle, 5).reshape(8, 4, 4)
    # Half a turn: bins from the other side, directions four of eight further.
    assert np.allclose(np.roll(upright[:, ::-1, ::-1], 4, axis=0), turned, atol=1e-4)
