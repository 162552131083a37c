"""Arrays by name that Python and kernels share: kernels take them by reference."""

from __future__ import annotations

import copyreg
from types import SimpleNamespace
from typing import Any, Self, cast

from numba import types
from numba.experimental import structref
from numba.extending import is_jitted

from placement_gym.base.kernels import compile_once


class Struct(structref.StructRefProxy):
    """Named arrays and numbers: attributes in Python, and of one argument of a kernel.

    A named tuple would be passed by value, seven words or more for every array, and every function
    would count the references to each of them. A kernel may write to arrays and records, not to
    numbers.

    Subclasses annotate their fields in order, and are given all of them by name.
    """

    Type: Any
    pack: Any

    def __init_subclass__(cls) -> None:
        """Register the fields with numba; see its manual, "numba.experimental.structref"."""
        # the cache finds the type again by this name
        place = {"__module__": cls.__module__, "__qualname__": f"{cls.__qualname__}.Type"}
        cls.Type = structref.register(type(f"{cls.__name__}Type", (StructType,), place))
        structref.define_proxy(cls, cls.Type, list(cls.__annotations__))
        cls.pack = make_packer(cls)

    def __new__(cls, **fields: Any) -> Self:
        """Keep the fields for Python as well, for which reading one would be another kernel."""
        if not is_jitted(cls.pack):  # as kernels, by NUMBA_DISABLE_JIT
            return cast("Self", SimpleNamespace(**fields))
        struct: Self = cls.pack(tuple(fields[name] for name in cls.__annotations__))
        struct.__dict__.update(fields)
        return struct

    def __reduce__(self) -> Any:
        """Copies and pickles make it of its fields again: numba's memory can be neither."""
        return copyreg.__newobj_ex__, (type(self), (), self.__dict__)  # type: ignore[attr-defined]


class StructType(types.StructRef):
    """numba's type of a ``Struct``."""

    def preprocess_fields(self, fields: Any) -> Any:
        """Fields have types, not constant values."""
        return tuple((name, types.unliteral(of)) for name, of in fields)


def make_packer(cls: type[Struct]) -> Any:
    """Make the function by which Python makes a struct of the tuple of its fields."""

    @compile_once()
    def pack(fields: Any) -> Any:
        return cls(*fields)

    return staticmethod(pack)
