"""Loading of what Stable-Baselines3 saves, which runs code that the file holds."""

from __future__ import annotations

from typing import Any, Self

from placement_gym.errors import UserError


class UntrustedFileError(UserError):
    """A file would run its own code while it is loaded, and nobody has said that it may."""


class LoadsTrustedFiles:
    """A mixin for algorithms and policies whose ``load`` needs ``trust=True``.

    Files of SB3's ``save`` are pickled: whoever made one can run anything on the machine that
    loads it. ``agents.common.checkpoint`` keeps models as numbers alone.
    """

    @classmethod
    def load(cls, path: Any, *args: Any, trust: bool = False, **kwargs: Any) -> Self:
        """See SB3.

        Args:
            path: A file that ``save`` wrote.
            args: As for SB3.
            trust: Whether the file may run its own code: only if you know who made it.
            kwargs: As for SB3.

        Raises:
            UntrustedFileError: ``trust`` is not True.
            UserError: Its weights do not fit, as after a change of features.
        """
        check_trust(path, trust)
        try:
            model: Self = super().load(path, *args, **kwargs)  # type: ignore[misc]
        except RuntimeError as error:
            if "size mismatch" not in str(error):
                raise
            raise UserError(
                f"{path} was saved with other features, whose number its weights fit: train it "
                "again, or load it with the version of placement-gym that saved it"
            ) from error
        return model


def check_trust(path: Any, trust: bool) -> None:
    """Raise unless a pickled file is trusted.

    Raises:
        UntrustedFileError: It is not.
    """
    if not trust:
        raise UntrustedFileError(
            f"loading {str(path)!r} runs the code that it holds: if you made it, or trust who "
            "did, give trust=True; agents.common.checkpoint.save and restore need no trust"
        )
