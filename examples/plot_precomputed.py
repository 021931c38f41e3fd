"""
Kernels without features
========================

Sequences, graphs and texts have kernels but no columns. With ``kernels="precomputed"`` a model takes the kernel
matrices themselves: ``X`` of shape (rows, training rows, kernels).
"""

# %%
# Short DNA sequences, and four proteins that bind to some of them. Two proteins look for a pattern of three letters,
# two for one of five. A protein is a task; all are measured on the same sequences.

import matplotlib.pyplot as plt
import numpy as np
from sklearn.model_selection import train_test_split

from kernelkin import AverageClassifier, MKMTRLClassifier
from kernelkin.plots import KernelWeightsDisplay

rng = np.random.default_rng(0)
sequences = ["".join(rng.choice(list("ACGT"), 40)) for _ in range(600)]
patterns = {"protein A": "GAT", "protein B": "CCG", "protein C": "TATAG", "protein D": "GGCAC"}
names = list(patterns)
Y = np.zeros((len(sequences), len(patterns)), dtype=int)
for i, sequence in enumerate(sequences):
    for pattern in patterns.values():
        if rng.uniform() < 0.5:
            place = rng.integers(0, 40 - len(pattern))
            sequence = sequence[:place] + pattern + sequence[place + len(pattern) :]
    sequences[i] = sequence
    Y[i] = [pattern in sequence for pattern in patterns.values()]
print("share of sequences bound:", dict(zip(names, Y.mean(axis=0).round(2).tolist(), strict=True)))

# %%
# Spectrum kernels: the words of 2 to 7 letters that two sequences share.


def spectrum(sequences, length):
    """Which words of this length each sequence has: (n, words), rows of norm one."""
    words = {s[i : i + length] for s in sequences for i in range(len(s) - length + 1)}
    index = {word: j for j, word in enumerate(sorted(words))}
    has = np.zeros((len(sequences), len(index)))
    for row, s in zip(has, sequences, strict=True):
        row[[index[s[i : i + length]] for i in range(len(s) - length + 1)]] = 1
    return has / np.linalg.norm(has, axis=1, keepdims=True)


lengths = range(2, 8)
grams = np.stack([features @ features.T for features in (spectrum(sequences, n) for n in lengths)], axis=-1)
print("all kernels between all sequences:", grams.shape)

# %%
# A training set is a square of this; test rows are looked up against training columns. This axis order is what
# scikit-learn's splitters can slice.

train, test = train_test_split(np.arange(len(sequences)), train_size=200, random_state=0)
X_train, X_test = grams[np.ix_(train, train)], grams[np.ix_(test, train)]
model = MKMTRLClassifier("precomputed", mu=1, min_rank=2, normalize="center", class_weight="balanced")
model.fit(X_train, Y[train])
average = AverageClassifier("precomputed", normalize="center", class_weight="balanced").fit(X_train, Y[train])
for t, name in enumerate(names):
    ours, theirs = model.score_tasks(X_test, Y[test])[t], average.score_tasks(X_test, Y[test])[t]
    print(f"{name}: MK-MTRL {ours:.3f}, average kernel {theirs:.3f}")

# %%
# The kernels each protein uses, by the length of words.

KernelWeightsDisplay(model.kernel_weights_, names, [f"{n} letters" for n in lengths]).plot()
plt.show()

# %%
# Some similarities are not positive semi-definite: :func:`~kernelkin.kernels.nearest_psd` makes a kernel of them. If
# rounding alone makes a matrix indefinite, ``fit`` does that itself, and issues an
# :class:`~kernelkin.exceptions.ApproximationWarning` if it changes predictions noticeably. Where rows have
# columns but the usual families (:func:`~kernelkin.gaussian_kernels`, :func:`~kernelkin.polynomial_kernels`)
# do not suit them, a function of two sets of rows is enough: see :class:`~kernelkin.Kernel`.
# For molecules there are :func:`~kernelkin.tanimoto_kernels`.
