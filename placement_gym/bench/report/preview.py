"""A simulation of what is about to be measured: its single devices and its best placement."""

from __future__ import annotations

from dataclasses import dataclass

from placement_gym.backends import BackendWrapper, SingleDeviceResults
from placement_gym.backends.measured import MeasuringBackend, load_kept_profile
from placement_gym.backends.simulated import SimulatedBackend
from placement_gym.base import Column, FittedTable
from placement_gym.bench.report.wording import describe_misfit
from placement_gym.bench.run import BenchEnv, Json
from placement_gym.problem import parse_assignment
from placement_gym.problem.costs import parse_schedule
from placement_gym.solvers import Solution, lower_bound, reaches

TIME_LIMIT_S = 5.0
KEPT, SHIPPED = "this machine's profile", "typical costs of such devices, not this machine's own"


@dataclass(frozen=True)
class Preview:
    """A simulated forecast of a measured problem.

    Attributes:
        backend: The simulation.
        costs: Whose costs it takes.
        singles: Every device alone.
        solution: The best placement that the solver found, and its bound.
    """

    backend: SimulatedBackend
    costs: str
    singles: SingleDeviceResults
    solution: Solution

    @classmethod
    def of(cls, bench_env: BenchEnv) -> Preview | None:
        """Simulate a measured problem; None where costs of its devices are not known."""
        backend = bench_env.base.backend
        while isinstance(backend, BackendWrapper):
            backend = backend.inner
        profile = load_kept_profile(backend) if isinstance(backend, MeasuringBackend) else None
        costs = profile or backend.rough_costs
        if costs is None:
            return None
        semantics = parse_schedule("serial", backend.objective)
        simulated = SimulatedBackend(backend.problem, costs, semantics)
        solution = lower_bound(backend.problem, costs, semantics, TIME_LIMIT_S)
        singles = SingleDeviceResults.of(simulated)
        return cls(simulated, KEPT if profile else SHIPPED, singles, solution)

    @property
    def base_ms(self) -> float:
        """Latency of the best single device, or of the reference where none holds the model."""
        has_single = self.singles.best() is not None
        return self.singles.fastest().latency_ms if has_single else self.backend.reference_ms

    def find_ratio(self, row: Json) -> float:
        """The simulated speed-up over the best single device of a row's placement."""
        assignment = parse_assignment(row["placement"], self.backend.problem)
        return self.base_ms / self.backend.evaluate(assignment).latency_ms

    def table(self) -> FittedTable:
        """The table of devices alone, and of the optimum or what is known of it."""
        problem, solution = self.backend.problem, self.solution
        columns = [Column("simulated", text=True), Column("ms"), Column("speed-up")]
        table = FittedTable([*columns, Column("submodels")], f"Simulated with {self.costs}:")
        for device, measurement in enumerate(self.singles.measurements):
            if measurement is None:
                continue
            error = self.backend.infeasibility(problem.single(device))
            name = f"{problem.device_names[device]} alone"
            if error:
                table.add_row(f"{name}: {describe_misfit(error) or error}", "-", "-", "-")
            else:
                self.add(table, name, measurement.latency_ms, measurement.n_submodels)
        proven = False
        if solution.assignment is not None:
            best = self.backend.evaluate(solution.assignment)
            proven = reaches(best.latency_ms, solution.bound_ms)
            name = "proven optimum" if proven else "best placement found"
            self.add(table, name, best.latency_ms, best.n_submodels)
        if not proven:
            self.add(table, "bound below all placements", solution.bound_ms, "-")
        return table

    def add(self, table: FittedTable, name: str, latency_ms: float, submodels: object) -> None:
        """Add a line with the speed-up of a latency."""
        table.add_row(name, f"{latency_ms:.2f}", f"{self.base_ms / latency_ms:.3f}", submodels)
