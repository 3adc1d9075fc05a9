"""Decompositions of matrices as few and simple samples give them: of tiny rank, without scatter, of any scale."""

from pathlib import Path

import numpy as np
import pytest
import torch

from gddsg.core import decompositions
from gddsg.core.decompositions import (
    cholesky,
    cholesky_or_none,
    low_rank_eigen,
    power_of_two,
    symmetric_eigen,
    symmetric_solve,
)

SCALES = (1e-30, 1e-14, 1.0, 1e14, 1e30)


def rows(r, n, seed=0, scale=1.0):
    return torch.from_numpy(np.random.default_rng(seed).normal(0, scale, (r, n)))


def matrices():
    """Symmetric matrices without negative eigenvalues but by rounding."""
    few = rows(3, 40)
    twice = torch.cat([few, few, few + 1e-12])
    return {
        "full rank": rows(80, 40).T @ rows(80, 40),
        "low rank": few.T @ few,
        "nearly the same rows twice": twice @ twice.T,
        "mixed scales": torch.diag(torch.logspace(-30, 30, 40, dtype=torch.float64)),
        "identity": torch.eye(40, dtype=torch.float64),
        "zero": torch.zeros(40, 40, dtype=torch.float64),
        "one number": torch.tensor([[3.0]], dtype=torch.float64),
    }


def assert_eigen(matrix, values, vectors, error=1e-12):
    n, size = len(matrix), float(matrix.abs().max()) or 1.0
    identity = torch.eye(n, dtype=matrix.dtype)
    torch.testing.assert_close(vectors.T @ vectors, identity, rtol=0, atol=100 * error)
    torch.testing.assert_close((vectors * values) @ vectors.T / size, matrix / size, rtol=0, atol=n * error)


def refuse(*_args, **_options):
    raise torch.linalg.LinAlgError("failed to converge")


@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("name", matrices())
def test_eigenpairs_make_up_the_matrix(name, scale):
    matrix = matrices()[name] * scale
    values, vectors = symmetric_eigen(matrix)
    assert_eigen(matrix, values, vectors)
    assert (values.diff() >= 0).all()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("rough", [False, True])
def test_eigenpairs_are_of_the_type_of_the_matrix(dtype, rough):
    values, vectors = symmetric_eigen(matrices()["full rank"].to(dtype), rough)
    assert (values.dtype, vectors.dtype) == (dtype, dtype)
    assert_eigen(matrices()["full rank"].to(dtype), values, vectors, 1e-6)


@pytest.mark.parametrize("rough", [False, True])
@pytest.mark.parametrize("name", matrices())
def test_where_divide_and_conquer_does_not_converge_iteration_does(name, rough, monkeypatch):
    # which matrices it fails on depends on the processor and on the number of threads: here on all of them
    monkeypatch.setattr(torch.linalg, "eigh", refuse)
    matrix = matrices()[name]
    assert_eigen(matrix, *symmetric_eigen(matrix, rough))


def test_numbers_that_are_not_finite_count_as_not_converged(monkeypatch):
    monkeypatch.setattr(torch.linalg, "eigh", lambda matrix: (torch.full_like(matrix[0], torch.nan), matrix))
    assert_eigen(matrices()["low rank"], *symmetric_eigen(matrices()["low rank"], rough=True))


@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("r", [0, 1, 5, 39])
@pytest.mark.parametrize("level", [0.0, 1e-3, 1.0])
def test_low_rank_eigenpairs_make_up_the_matrix(r, level, scale):
    few = rows(r, 40, scale=scale**0.5)
    matrix = few.T @ few + scale * level * torch.eye(40, dtype=torch.float64)
    values, vectors = low_rank_eigen(matrix, few)
    assert_eigen(matrix, values, vectors)


def test_low_rank_eigenpairs_of_rows_that_are_the_same():
    few = rows(1, 40).repeat(6, 1)
    assert_eigen(few.T @ few, *low_rank_eigen(few.T @ few, few))


@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("name", matrices())
def test_a_cholesky_factor_makes_up_the_matrix(name, scale):
    matrix = matrices()[name] * scale
    lower = cholesky(matrix)
    size = float(matrix.abs().max()) or 1.0
    torch.testing.assert_close(lower @ lower.T / size, matrix / size, rtol=0, atol=1e-11)
    assert torch.equal(lower, lower.tril())
    assert (lower.diagonal() > 0).all()


def test_no_finite_matrix_is_without_a_cholesky_factor():
    assert cholesky(-rows(9, 9).abs() @ rows(9, 9).abs().T).isfinite().all()
    assert cholesky_or_none(-torch.eye(2, dtype=torch.float64)) is None


def test_a_positive_definite_matrix_gets_no_jitter():
    matrix = matrices()["full rank"]
    assert torch.equal(cholesky(matrix), torch.linalg.cholesky(matrix))


@pytest.mark.parametrize("scale", SCALES)
def test_a_system_is_solved(scale):
    matrix, solution = matrices()["full rank"] * scale, rows(40, 2, seed=1)
    torch.testing.assert_close(symmetric_solve(matrix, matrix @ solution), solution, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("name", ["low rank", "nearly the same rows twice", "zero"])
def test_a_singular_system_is_solved_as_far_as_it_can_be(name, scale):
    matrix = matrices()[name] * scale
    right = matrix @ rows(len(matrix), 2, seed=1)
    solution = symmetric_solve(matrix, right)
    size = float(right.abs().max()) or 1.0
    torch.testing.assert_close(matrix @ solution / size, right / size, rtol=0, atol=1e-6)


def test_a_singular_system_has_the_least_solution():
    singular = torch.diag(torch.tensor([2.0, 0.0], dtype=torch.float64))
    assert symmetric_solve(singular, torch.tensor([[4.0], [0.0]], dtype=torch.float64)).flatten().tolist() == [2.0, 0.0]


@pytest.mark.parametrize("largest", [0.7, 1.0, 3e-300, 5e14])
def test_a_division_by_the_scale_is_exact(largest):
    numbers = torch.tensor([largest, -largest / 3], dtype=torch.float64)
    scale = power_of_two(numbers)
    assert torch.equal(numbers / scale * scale, numbers)
    assert 1 <= float((numbers / scale).abs().max()) < 2
    assert power_of_two(torch.zeros(3)) == power_of_two(torch.zeros(0)) == 1


def test_nothing_else_decomposes():
    """Every decomposition that may fail goes through this module, or through its sister for arrays."""
    core = Path(decompositions.__file__).parent
    callers = [*core.glob("*.py"), *(core.parent / "learners").glob("*.py")]
    risky = ("linalg.eigh", "linalg.cholesky", "linalg.svd", "linalg.lstsq", "linalg.inv", "linalg.solve(")
    found = {path.stem for path in callers if any(call in path.read_text("utf-8") for call in risky)}
    assert found == {"decompositions", "array_eigen"}
