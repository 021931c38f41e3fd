"""Kernel ridge regression of wide data: kernel weights and strength chosen for each task by held-out errors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ...data import TaskData
from ...kernels import FittedKernel
from ...memory import Need
from ...uncertainty import Uncertainty
from ..grams import Grams, SharedGrams, on_device
from ..grams.operator import PANEL_COLUMNS
from ..learners import Machine, Ridge
from ..mixes import STRENGTHS, TaskMixes, choose_mixes
from ..penalties import FixedWeights
from ..problems import MachinePanel
from .fit import Fit, FitPlan, Fitted, RunOptions, Shape
from .targets import Regression


@dataclass(frozen=True, kw_only=True)
class TaskMixFit:
    """Specification of kernel machines whose weights are chosen for each task; see `kernelkin.paper.mixes`.

    Parameters
    ----------
    targets : Regression
        With the squared loss.
    kernels, parsimony, normalize, tol, device : as for `Fit`
    """

    targets: Regression
    kernels: Any = None
    parsimony: float = 0.0
    normalize: str | None = "trace"
    tol: float = 1e-3
    device: str | None = None

    def plan(self, data: TaskData, kernels: Sequence[FittedKernel] | None = None) -> TaskMixPlan:
        """Apply to data; refuse what errors of each task are not computed for."""
        reason = unsuited(data, self.targets)
        if reason:
            raise ValueError(f"per_task=True: weights are chosen by held-out errors of each task, which need {reason}")
        fit = Fit(
            targets=self.targets,
            penalty=_even,
            kernels=self.kernels,
            parsimony=self.parsimony,
            normalize=self.normalize,
            tol=self.tol,
            device=self.device,
        )
        return TaskMixPlan(self, fit.plan(data, kernels))


@dataclass(frozen=True)
class TaskMixPlan:
    """A specification applied to data; `fit` is the fit at even weights, which the chosen ones replace."""

    spec: TaskMixFit
    fit: FitPlan

    def memory(self, n_jobs: int = 1) -> Need:
        need = self.fit.memory(n_jobs)
        # Beside the Gram matrices: their products with an inverse, that inverse and eigenvectors.
        data, n_kernels = self.fit.data, self.fit.gram_plan().n_kernels
        extra = 8 * len(data.X) ** 2 * (n_kernels + 6)
        if any(len(rows) < len(data.X) for rows in data.rows):
            # Masks, folds and errors of all labels, and a block of columns at all strengths.
            extra += len(data.X) * (20 * data.n_tasks + 24 * PANEL_COLUMNS * len(STRENGTHS))
        return Need(need.peak + extra, need.advice)

    def run(self, options: RunOptions) -> Fitted:
        """Choose the weights, then fit with them."""
        return self.run_chosen(options)[0]

    def run_chosen(self, options: RunOptions) -> tuple[Fitted, TaskMixes]:
        """The fit, and how its weights were chosen."""
        plan = self.fit
        grams, bank = plan.grams()
        found = task_mixes(grams, plan.machines, plan.data, plan.fit.device)
        fitted = replace(plan, penalty=FixedWeights(found.B)).run_scaled(grams, bank, options)
        fitted.attributes["uncertainty_"] = Uncertainty(self.spec, plan.data, options, classification=False)
        return fitted, found


def task_mixes(grams: Grams, machines: Sequence[Machine], data: TaskData, device: str | None) -> TaskMixes:
    """Choose the kernel weights of the machines of wide data."""
    grams = grams if device is None else on_device(grams, device)
    assert isinstance(grams, SharedGrams)
    panel = machines if isinstance(machines, MachinePanel) else MachinePanel.of(machines, data.rows, len(data.X))
    Y = panel.y if len(panel.cost) == 1 else np.where(panel.cost > 0, panel.y, np.nan)
    return choose_mixes(grams.operator, Y, has_intercept=panel.has_intercept)


def unsuited(data: TaskData, targets: Any) -> str:
    """What data or targets lack for errors of all tasks at once; empty if nothing."""
    if not isinstance(targets, Regression) or not isinstance(targets.learner(), Ridge):
        return "the squared loss of regression"
    if data.form != "wide":
        return "wide data (y with a column for each task)"
    if len(np.unique(data.sample_weight)) > 1:
        return "rows of equal weight"
    return ""


def _even(shape: Shape) -> FixedWeights:
    return FixedWeights(np.full((shape.n_kernels, shape.n_components), 1.0 / shape.n_kernels))
