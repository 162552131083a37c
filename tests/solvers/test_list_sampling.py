"""List sampling: its noise, its first sample, and changes of placements."""

from __future__ import annotations

import numpy as np
import pytest
from published import DATA
from slow_decoder import drawn_problem, fits_in_rank_order

from placement_gym.arrays import FloatArray, IntArray
from placement_gym.backends.simulated.build import SimulatedProblem, build_simulated_problem
from placement_gym.solvers.decoder import Decoder
from placement_gym.solvers.list_sampling import (
    PRICES,
    SPREAD,
    decode_noise,
    draw_noise,
    draw_prices,
    draw_windows,
    draw_windows_of_noise,
    list_sampling,
    vary_prices,
)
from placement_gym.solvers.list_scheduling import critical_path

BERT = DATA / "latency-inputs/OperatorGraphs/bert_l-3_inference.json"


@pytest.fixture(scope="module")
def twin() -> SimulatedProblem:
    """An operator graph on a CPU and two accelerators with little memory."""
    return build_simulated_problem(str(BERT), "1cpu+2acc@0.3", "op")


def sample(twin: SimulatedProblem, seed: int, k: int) -> IntArray:
    return list_sampling(twin.problem, twin.costs, np.random.default_rng(seed), k)


def rebuild_windows(
    decoder: Decoder, placements: IntArray, price: FloatArray, rng: np.random.Generator
) -> IntArray:
    return decode_noise(decoder, draw_windows_of_noise(decoder, placements, price, rng))


def test_the_first_sample_has_no_noise() -> None:
    for seed in range(20):
        problem, costs = drawn_problem(seed)
        samples = list_sampling(problem, costs, np.random.default_rng(seed), 5)
        assert samples[0].tolist() == critical_path(problem, costs).tolist()


def test_equal_seeds_sample_equal_placements(twin: SimulatedProblem) -> None:
    first, again, other = (sample(twin, seed, 20) for seed in (0, 0, 1))
    assert (first == again).all()
    assert (first[1:] != other[1:]).any(axis=1).all()


@pytest.mark.parametrize("k", [0, 1, 7])
def test_as_many_samples_as_asked_for(twin: SimulatedProblem, k: int) -> None:
    assert sample(twin, 0, k).shape == (k, twin.problem.n_units)


def test_samples_keep_to_limits(twin: SimulatedProblem) -> None:
    samples = sample(twin, 0, 50)
    assert len(np.unique(samples, axis=0)) > 40
    assert not any(twin.problem.infeasibility(placement) for placement in samples)


def test_noise_is_constant_over_few_long_or_many_short_runs(twin: SimulatedProblem) -> None:
    decoder, rng = Decoder.of(twin.problem, twin.costs), np.random.default_rng(0)
    noise = draw_noise(decoder, rng, np.ones(400))
    n = len(decoder.unit)
    runs = noise.run.max(axis=1) - noise.run.min(axis=1) + 1
    assert noise.run[-1, -1] == len(noise.preference) - 1
    assert (np.diff(noise.run.astype(np.int64).ravel()) <= 1).all()
    # the logarithm of the expected number of cuts is uniform
    assert np.median(runs) == pytest.approx(1 + np.sqrt(n), rel=0.25)
    assert (runs < 4).mean() > 0.05
    assert (runs > n / 2).mean() > 0.05


def test_gumbel_noise_of_a_sample_has_one_scale(twin: SimulatedProblem) -> None:
    decoder, rng = Decoder.of(twin.problem, twin.costs), np.random.default_rng(1)
    noise = draw_noise(decoder, rng, np.ones(300))
    rows = [noise.preference[np.unique(run)] for run in noise.run]
    scales = [row.std() * np.sqrt(6) / np.pi for row in rows if len(row) > 60]
    assert np.log(scales).mean() == pytest.approx(-1.0, abs=0.3)
    assert np.log(scales).std() == pytest.approx(1.0, abs=0.25)
    assert np.mean(np.concatenate(rows) > 0) == pytest.approx(1 - np.exp(-1), abs=0.02)


def test_prices_are_log_uniform(twin: SimulatedProblem) -> None:
    decoder, rng = Decoder.of(twin.problem, twin.costs), np.random.default_rng(2)
    prices = draw_prices(decoder, rng, 1000) / twin.problem.n_units
    assert prices.min() >= PRICES[0]
    assert prices.max() <= PRICES[1]
    assert np.median(prices) == pytest.approx(np.sqrt(PRICES[0] * PRICES[1]), rel=0.25)


def test_a_rebuilt_placement_that_does_not_fit_is_made_to_fit() -> None:
    for seed in range(30):
        problem, costs = drawn_problem(seed)
        rng = np.random.default_rng(seed)
        overfull = rng.integers(0, len(problem.devices), (4, problem.n_units))
        for placement in rebuild_windows(Decoder.of(problem, costs), overfull, np.ones(4), rng):
            assert problem.unsupported(placement) == ""
            assert fits_in_rank_order(problem, costs, placement)


def test_one_or_two_windows_are_rebuilt_and_the_rest_is_left_alone() -> None:
    twin = build_simulated_problem(str(BERT), "1cpu+2acc", "op")
    decoder, rng = Decoder.of(twin.problem, twin.costs), np.random.default_rng(0)
    parents = rng.integers(0, 3, (400, twin.problem.n_units))
    children = rebuild_windows(decoder, parents, np.zeros(400), rng)
    in_rank_order = (children != parents)[:, decoder.unit]
    # one and a half windows on average, of which two thirds change by chance
    inside = draw_windows(decoder, rng, 4000).mean()
    assert in_rank_order.mean() == pytest.approx(1.5 * 2 / 3 * inside, rel=0.15)
    unchanged = ~in_rank_order.any(axis=1)
    assert 0 < unchanged.sum() < 200


def test_windows_are_runs_of_log_uniform_length(twin: SimulatedProblem) -> None:
    decoder, rng = Decoder.of(twin.problem, twin.costs), np.random.default_rng(0)
    inside = draw_windows(decoder, rng, 500)
    borders = np.diff(inside.astype(int), axis=1, prepend=0, append=0)
    assert (np.count_nonzero(borders, axis=1) == 2).all()
    assert np.median(inside.sum(axis=1)) == pytest.approx(np.sqrt(235), rel=0.25)


def test_rebuilt_placements_are_sampled_and_keep_to_limits(twin: SimulatedProblem) -> None:
    decoder, rng = Decoder.of(twin.problem, twin.costs), np.random.default_rng(0)
    parents = np.repeat(sample(twin, 0, 1), 60, axis=0)
    children = rebuild_windows(decoder, parents, draw_prices(decoder, rng, 60), rng)
    assert len(np.unique(children, axis=0)) > 30
    assert not any(twin.problem.infeasibility(placement) for placement in children)
    assert rebuild_windows(decoder, parents[:0], np.empty(0), rng).shape == (0, 235)


def test_varied_prices_are_near_the_given_ones() -> None:
    varied = vary_prices(np.full(2000, 7.0), np.random.default_rng(0))
    assert np.median(varied) == pytest.approx(7.0, rel=0.05)
    assert np.log(varied).std() == pytest.approx(SPREAD, rel=0.1)


def test_a_high_price_of_memory_empties_limited_devices(twin: SimulatedProblem) -> None:
    decoder, rng = Decoder.of(twin.problem, twin.costs), np.random.default_rng(0)
    noise = draw_noise(decoder, rng, np.zeros(100))
    held = twin.problem.unit_bytes > 0
    shares = [
        (decode_noise(decoder, noise._replace(price=np.full(100, price)))[:, held] > 0).mean()
        for price in (0.0, 1e15)
    ]
    assert shares[0] > 0.3
    assert shares[1] == 0.0
