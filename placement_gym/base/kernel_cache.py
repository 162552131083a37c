"""Compiled kernels on disk: where they cannot be kept or are damaged, they are compiled again."""

from __future__ import annotations

import hashlib
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar

import numba
from numba.core.caching import CompileResultCacheImpl, FunctionCache
from numba.core.serialize import dumps

from placement_gym.base.clock import clocks_stopped
from placement_gym.base.errors import warn_user
from placement_gym.base.files import FileError, write_bytes

DIGEST_BYTES = hashlib.sha256().digest_size
LOCATORS: list[Any] = CompileResultCacheImpl._locator_classes
USER_WIDE: Any = next(one for one in LOCATORS if one.__name__.endswith("UserWideCacheLocator"))
"""numba 0.60 names it with an underscore."""


class HomeCacheLocator(USER_WIDE):
    """The user's own cache, of a user that has a home."""

    def ensure_cache_path(self) -> None:
        if not Path(self.get_cache_path()).is_absolute():  # it begins with "~"
            raise FileNotFoundError
        super().ensure_cache_path()


class KernelLocations(CompileResultCacheImpl):
    """The folders that numba tries in turn."""

    _locator_classes = [  # noqa: RUF012  numba's own attribute
        HomeCacheLocator if locator is USER_WIDE else locator for locator in LOCATORS
    ]


class KernelFiles:
    """A file for each signature of a function, with a checksum.

    numba's own files share an index, which processes that compile at the same time overwrite, and
    a file that a power cut left empty ends every later process.
    """

    def __init__(self, stem: Path, source_stamp: object) -> None:
        self.stem = stem
        self.origin = repr((numba.__version__, source_stamp)).encode()

    def find(self, key: object) -> Path:
        digest = hashlib.sha256(repr(key).encode()).hexdigest()[:16]
        return self.stem.with_name(f"{self.stem.name}-{digest}.nbc")

    def sign(self, content: bytes) -> bytes:
        return hashlib.sha256(self.origin + content).digest()

    def load(self, key: object) -> Any:
        """What was compiled; None if there is none, or it is damaged or of an earlier source."""
        try:
            written = self.find(key).read_bytes()
        except OSError:
            return None
        content = written[DIGEST_BYTES:]
        return pickle.loads(content) if written == self.sign(content) + content else None

    def save(self, key: object, compiled: object) -> None:
        content = dumps(compiled)
        write_bytes(self.find(key), self.sign(content) + content)


class KernelCache(FunctionCache):
    """The compiled signatures of one function; a disk that refuses them is warned of once."""

    _impl_class = KernelLocations
    has_warned: ClassVar[bool] = False

    def __init__(self, function: Callable[..., Any]) -> None:
        try:
            super().__init__(function)
        except RuntimeError:  # none of numba's folders can be written
            self._cache_path = ""
            self.disable()
            return
        stem = Path(self.cache_path, self._impl.filename_base)
        self._cache_file = KernelFiles(stem, self._impl.locator.get_source_stamp())

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """Read what was compiled, while clocks stand."""
        with clocks_stopped():
            return super().load_overload(sig, target_context)

    def save_overload(self, sig: Any, data: Any) -> None:
        """Keep what was compiled, if possible, while clocks stand."""
        try:
            if not self.cache_path:
                raise FileError("neither the package's folder nor the user's cache can be written")
            with clocks_stopped():
                super().save_overload(sig, data)
        except OSError as error:
            if not KernelCache.has_warned:
                KernelCache.has_warned = True
                warn_user(
                    f"compiled kernels are not kept: {error}. Each process compiles them again; "
                    "the environment variable NUMBA_CACHE_DIR may name another folder"
                )
