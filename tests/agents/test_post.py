"""Post: what its two steps do to the probabilities."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from learned import several, simulated
from stable_baselines3.common.callbacks import ConvertCallback

from agents.common import vectorize
from agents.post import Post, make


def post(n: int = 10, **settings: Any) -> Post:
    env = vectorize(simulated(), num_envs=n)
    return Post("LogitsPolicy", env, n_steps=1, seed=0, device="cpu", **settings)


@pytest.fixture
def constants(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Gives the cross-entropy step another elite share and other uniform shares."""

    def give(**values: Any) -> None:
        for name, value in values.items():
            monkeypatch.setattr(f"agents.post.{name}", value)

    return give


def probabilities(model: Post) -> torch.Tensor:
    return model.policy.logits.detach().softmax(dim=1)


def test_cross_entropy_takes_the_frequencies_among_the_best(constants: Any) -> None:
    constants(UNIFORM_WEIGHTS=(0.0, 0.0), ELITE_SHARE=0.2)
    model = post(variant="cross_entropy")
    seen: list[tuple[float, np.ndarray]] = []

    def remember(local: dict[str, Any], _: Any) -> bool:
        seen.extend(zip(local["rewards"], local["actions"], strict=True))
        return True

    model.learn(50, ConvertCallback(remember))
    best = sorted(seen, key=lambda pair: -pair[0])[:10]
    frequency = np.mean([action for _, action in best], axis=0)
    np.testing.assert_allclose(probabilities(model)[:, 1].numpy(), frequency, atol=1e-6)


def test_frequencies_are_counted_on_the_device_of_the_policy() -> None:
    model = post()
    model.device = torch.device("meta")
    assert model.count_devices([np.zeros(7)]).device == model.device


def test_cross_entropy_waits_for_a_whole_population() -> None:
    model = post(variant="cross_entropy")
    model.learn(40)
    torch.testing.assert_close(probabilities(model), torch.full((7, 2), 0.5))
    model.learn(10, reset_num_timesteps=False)
    assert not torch.allclose(probabilities(model), torch.full((7, 2), 0.5))


def test_a_uniform_share_keeps_every_device_possible(constants: Any) -> None:
    constants(UNIFORM_WEIGHTS=(0.1, 0.1), ELITE_SHARE=0.02)
    model = post(variant="cross_entropy")
    model.learn(50)
    least = probabilities(model).min(dim=1).values
    torch.testing.assert_close(least, torch.full((7,), 0.05))


def test_uniform_share_falls_from_its_first_to_its_last_value(constants: Any) -> None:
    constants(UNIFORM_WEIGHTS=(0.4, 0.1), ELITE_SHARE=0.02)
    model = post(variant="cross_entropy")
    least: dict[int, float] = {}

    def record(local: dict[str, Any], _: Any) -> bool:
        least[local["self"].num_timesteps] = float(probabilities(model).min())
        return True

    model.learn(100, ConvertCallback(record))
    assert least[60] == pytest.approx(0.25 / 2)
    assert float(probabilities(model).min()) == pytest.approx(0.1 / 2)


def test_ppo_raises_what_beat_the_mean_within_its_clip() -> None:
    model = post(variant="ppo", n_epochs=100, learning_rate=0.1)
    model.learn(10)
    (batch,) = model.rollout_buffer.get(batch_size=None)
    _, now, _ = model.policy.evaluate_actions(batch.observations, batch.actions)
    ratio = (now - batch.old_log_prob).exp().detach().numpy()
    assert ratio[batch.returns.argmax()] > 1.1
    assert ratio[batch.returns.argmin()] < 0.9
    free = post(variant="ppo", n_epochs=100, learning_rate=0.1, clip_range=1e9)
    free.learn(10)
    assert model.policy.logits.norm() < 0.8 * free.policy.logits.norm()


@pytest.mark.parametrize("variant", ["cross_entropy", "ppo"])
def test_a_variant_does_without_the_other_step(
    variant: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = {"cross_entropy": "update_by_ppo", "ppo": "update_by_cross_entropy"}[variant]
    monkeypatch.delattr(Post, other)
    post(variant=variant).learn(50)


def test_placement_is_judged_by_its_own_reward() -> None:
    env = vectorize(simulated(), num_envs=2, horizon=5)
    model = Post("LogitsPolicy", env, n_steps=5, seed=0, device="cpu")
    rewards: list[np.ndarray] = []
    model.learn(10, ConvertCallback(lambda local, _: rewards.append(local["rewards"]) or True))
    returns = model.rollout_buffer.returns.flatten()
    np.testing.assert_array_equal(returns, np.stack(rewards).T.flatten())


def test_the_population_must_hold_whole_rollouts() -> None:
    with pytest.raises(ValueError, match="divides 50"):
        post(n=20)


def test_an_unknown_variant_is_refused() -> None:
    with pytest.raises(ValueError, match="both"):
        post(variant="both")


def test_environments_of_several_graphs_are_refused() -> None:
    model = Post("LogitsPolicy", several("tiny", "resnet"), n_steps=5, device="cpu")
    with pytest.raises(ValueError, match="one graph"):
        model.learn(10)


def test_a_uniform_share_goes_to_devices_that_run_a_unit(constants: Any) -> None:
    constants(UNIFORM_WEIGHTS=(0.5, 0.5))
    env = simulated()
    env.problem.supported[2, 1] = False
    model = make(env, 0, variant="cross_entropy")
    model.learn(50)
    seen = {key: torch.as_tensor(value)[None] for key, value in env.reset()[0].items()}
    torch.testing.assert_close(
        model.policy.uniform_probabilities(seen)[2], torch.tensor([1.0, 0.0])
    )
    assert probabilities(model)[2, 0] == pytest.approx(1.0)


def test_a_rollout_of_one_placement_keeps_weights_finite() -> None:
    env = vectorize(simulated(), num_envs=1)
    model = Post("LogitsPolicy", env, n_steps=1, seed=0, device="cpu")
    model.learn(3)
    assert torch.isfinite(model.policy.logits).all()


def test_learning_anew_forgets_an_unfinished_population() -> None:
    model = post()
    for _ in range(3):
        model.learn(30)
    assert len(model.rewards) == 30


def test_saving_keeps_the_population(tmp_path: Path, constants: Any) -> None:
    constants(POPULATION_SIZE=500)
    model = post(50)
    model.learn(60)
    assert len(model.rewards) == 100
    model.save(tmp_path / "model.zip")
    loaded = Post.load(tmp_path / "model.zip", env=model.env)
    assert loaded.rewards == model.rewards
    np.testing.assert_array_equal(loaded.actions, model.actions)
