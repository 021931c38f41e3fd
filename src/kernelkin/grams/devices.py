"""Arrays on devices of torch, and the choice of a device."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from ..decompositions import eigh
from .arrays import MATRIX_BYTES, PANEL_COLUMNS, SUBSPACE_STEPS, Arrays, NumpyArrays, column_bytes


@dataclass(frozen=True)
class TorchArrays:
    """Tensors on a device of torch."""

    device: str
    in_main_memory: ClassVar[bool] = False

    @property
    def out_of_memory(self) -> tuple[type[BaseException], ...]:
        import torch

        return (torch.OutOfMemoryError,)

    def release(self) -> None:
        import torch

        torch.cuda.empty_cache()

    def array(self, values: np.ndarray) -> Any:
        import torch

        # Axes in another order are put in place on the device, which takes no time beside the copy to it.
        if not values.flags.writeable or min(values.strides, default=0) < 0:
            values = np.array(values, order="C")
        return torch.as_tensor(values).to(self.device).contiguous()

    def numpy(self, values: Any) -> np.ndarray:
        return np.asarray(values.double().cpu().numpy(), dtype=np.float64)

    def is_single(self, values: Any) -> bool:
        import torch

        return values.dtype == torch.float32

    def cast(self, values: Any, single: bool) -> Any:
        import torch

        return values.to(torch.float32 if single else torch.float64)

    def add_product(self, out: Any, A: Any, B: Any) -> Any:
        return A @ B if out is None else out.addmm_(A, B)

    def stack(self, parts: Sequence[Any]) -> Any:
        import torch

        return torch.stack(list(parts))

    def join(self, parts: Sequence[Any]) -> Any:
        import torch

        return torch.cat(list(parts), dim=1)

    def diagonals(self, V: Any) -> Any:
        import torch

        return torch.diag_embed(V)

    def inverses(self, S: Any) -> Any:
        import torch

        try:
            return torch.linalg.inv(S)
        except torch.linalg.LinAlgError:
            return torch.linalg.pinv(S)

    def where(self, condition: Any, a: Any, b: Any) -> Any:
        import torch

        return torch.where(condition, a, b)

    def zeros_like(self, values: Any) -> Any:
        import torch

        return torch.zeros_like(values)

    def flatnonzero(self, values: Any) -> Any:
        import torch

        return torch.nonzero(values)[:, 0]

    def largest(self, V: Any) -> Any:
        return V.amax(0)

    def swapped(self, V: Any) -> Any:
        return V.permute(2, 1, 0)

    def eigh(self, S: Any) -> tuple[Any, Any]:
        import torch

        try:
            return tuple(torch.linalg.eigh(S))
        except torch.linalg.LinAlgError:
            values, vectors = eigh(self.numpy(S))
            return self.array(values), self.array(vectors)

    def solver(self, S: Any) -> Callable[[Any], Any]:
        import torch

        factors, failed = torch.linalg.cholesky_ex(S)
        if bool((failed > 0).any()):
            # Rounding has made a matrix indefinite: its diagonal is raised by as much.
            lift = 1e-12 * torch.diagonal(S, dim1=1, dim2=2).mean(1)
            torch.diagonal(S, dim1=1, dim2=2).add_(lift[:, None])
            factors = torch.linalg.cholesky(S)
        return lambda V: torch.cholesky_solve(V, factors)

    def is_definite(self, S: Any, shift: float) -> bool:
        import torch

        shifted = S.double().clone()
        shifted.diagonal().add_(shift)
        return int(torch.linalg.cholesky_ex(shifted)[1]) == 0

    def mixed(self, values: Any, weights: Any) -> Any:
        import torch

        return torch.tensordot(weights.T.contiguous(), values.double(), dims=1)

    def leading_eigenvectors(self, S: Any, count: int) -> Any:
        import torch

        V = self.array(np.random.default_rng(0).normal(size=(len(S), count))).to(S.dtype)
        for _ in range(SUBSPACE_STEPS):
            V = torch.linalg.qr(S @ V)[0]
        return V @ self.eigh(V.T @ (S @ V))[1]

    def energies(self, V: Any, spectrum: Any) -> Any:
        scaled = (V / spectrum.sqrt()).permute(2, 0, 1).contiguous()
        return scaled @ scaled.transpose(1, 2)

    @contextmanager
    def rough_products(self) -> Iterator[None]:
        import torch

        before = torch.backends.cuda.matmul.allow_tf32
        torch.backends.cuda.matmul.allow_tf32 = True
        try:
            yield
        finally:
            torch.backends.cuda.matmul.allow_tf32 = before

    def columns(self, n_rows: int, n_kernels: int) -> int:
        free = self._free()
        return PANEL_COLUMNS if free is None else max(1, free // column_bytes(n_rows, n_kernels))

    def matrices(self, n_rows: int, count: int) -> int:
        free = self._free()
        return max(1, (MATRIX_BYTES if free is None else free) // (8 * count * n_rows**2))

    def _free(self) -> int | None:
        """Bytes of the device's memory to use at one time; None where it is main memory."""
        import torch

        if not self.device.startswith("cuda"):
            return None
        free, _ = torch.cuda.mem_get_info(self.device)
        free += torch.cuda.memory_reserved(self.device) - torch.cuda.memory_allocated(self.device)
        return int(0.6 * free)


def arrays_on(device: str | None) -> Arrays:
    """Where arrays are for a device: None is main memory, any other name a device of torch, which must be there."""
    if device is None:
        return NumpyArrays()
    try:
        import torch
    except ImportError:
        raise ImportError(f'device={device!r} needs torch: pip install "kernelkin[torch]"') from None
    try:
        torch.zeros(1, device=device)
    except (RuntimeError, AssertionError) as error:
        reason = str(error).splitlines()[0]
        raise ValueError(f"device={device!r} cannot be used by torch {torch.__version__}: {reason}") from None
    return TorchArrays(device)
