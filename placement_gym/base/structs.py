"""Structs of arrays that Python and kernels share by reference."""

from __future__ import annotations

import copyreg
from types import SimpleNamespace
from typing import Any, Self, cast

from numba import types
from numba.experimental import structref
from numba.extending import is_jitted

from placement_gym.base.kernels import compile_once


class Struct(structref.StructRefProxy):
    """Named arrays and numbers, passed to kernels as one argument.

    Subclasses annotate their fields; the constructor takes all of them by name. Kernels may write
    to arrays and records, not to numbers. A named tuple would be slower: kernels take it by value.
    """

    Type: Any
    pack: Any

    def __init_subclass__(cls) -> None:
        """Register the fields, see ``numba.experimental.structref``."""
        # The cache of compiled kernels finds the type by this name.
        place = {"__module__": cls.__module__, "__qualname__": f"{cls.__qualname__}.Type"}
        cls.Type = structref.register(type(f"{cls.__name__}Type", (StructType,), place))
        structref.define_proxy(cls, cls.Type, list(cls.__annotations__))
        cls.pack = make_packer(cls)

    def __new__(cls, **fields: Any) -> Self:
        """Also keep the fields in Python, where reading one from the struct would call a kernel."""
        if not is_jitted(cls.pack):  # NUMBA_DISABLE_JIT is set
            return cast("Self", SimpleNamespace(**fields))
        struct: Self = cls.pack(tuple(fields[name] for name in cls.__annotations__))
        struct.__dict__.update(fields)
        return struct

    def __reduce__(self) -> Any:
        """Copy and pickle the fields: numba's memory allows neither."""
        return copyreg.__newobj_ex__, (type(self), (), self.__dict__)  # type: ignore[attr-defined]


class StructType(types.StructRef):
    """numba's type of a ``Struct``."""

    def preprocess_fields(self, fields: Any) -> Any:
        """Drop constant values from the types of fields."""
        return tuple((name, types.unliteral(of)) for name, of in fields)


def make_packer(cls: type[Struct]) -> Any:
    """Make the function that builds a struct from the tuple of its fields."""

    @compile_once()
    def pack(fields: Any) -> Any:
        return cls(*fields)

    return staticmethod(pack)
